"""FLOPs and bytes of JAX's primitives. Shapes and parameters decide all of them."""
import math

import jax
import jax.numpy as jnp

import ridge


def _words(text):
    return frozenset(text.split())


# One FLOP for each element of the result, as ridge counts pointwise functions.
POINTWISE = _words("""abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex
    conj cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow
    is_finite le le_to lgamma log log1p logistic lt lt_to max min mul mulhi ne neg nextafter not or polygamma population_count pow
    real regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh
    sqrt square sub tan tanh xor zeta""")
# One FLOP for each element that is read.
_REDUCTIONS = _words("""argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min reduce_or
    reduce_prod reduce_sum reduce_xor""")
# Operations that move bytes and compute nothing that ridge counts: copies, random numbers, and sorts, which compare.
_MOVES = _words("""bitcast_convert_type concatenate convert_element_type copy pad random_bits random_gamma reduce_precision rev
    rng_bit_generator rng_uniform sort threefry2x32 tile top_k approx_top_k""")
# Operations that move nothing: views, which XLA reads in place, values that are computed where they are read, and keys of
# random numbers.
FREE = _words("""broadcast_in_dim copy_p create_token device_put empty expand_dims iota layout_constraint mesh_cast name
    optimization_barrier partition_id pvary random_clone random_fold_in random_seed random_split random_unwrap random_wrap
    reshape sharding_constraint squeeze slice split stop_gradient transpose after_all debug_callback""")
_SCATTERS = _words("scatter scatter-add scatter-max scatter-min scatter-mul scatter_add scatter_max scatter_min scatter_mul")


def size(aval):
    return math.prod(aval.shape)


def item_bytes(aval):
    """Returns the bytes of an element. Keys of random numbers count as nothing."""
    return jnp.dtype(aval.dtype).itemsize if not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended) else 0


def all_bytes(aval):
    return size(aval) * item_bytes(aval)


def dot_flops(a, b, dimension_numbers):
    """Returns 2 * M * N * K for each product of a batch."""
    (_, contracted), (_, batch) = dimension_numbers
    return 2 * size(a) * math.prod(extent for axis, extent in enumerate(b.shape) if axis not in (*contracted, *batch))


def _valid_taps(out, kernel, extent, stride, padding, spread, dilation):
    """Returns the number of pairs of a result and a tap that read an element of the input, along one axis.

    Along the axis there are `out` results, `kernel` taps and `extent` elements of the input, with `spread` - 1 zeros between two
    of them; taps are `dilation` apart and results `stride` apart.
    """
    last = (extent - 1) * spread
    total = 0
    for tap in range(kernel):
        offset = tap * dilation - padding
        # Results i with 0 <= i * stride + offset <= last at which the input is no inserted zero
        first = max(-(offset // stride), 0)
        end = min((last - offset) // stride, out - 1)
        if extent == 0 or end < first:
            continue
        if spread == 1:
            total += end - first + 1
        else:
            total += sum((i * stride + offset) % spread == 0 for i in range(first, end + 1))
    return total


def conv_flops(lhs, rhs, out, params):
    """Returns twice the multiply-adds of a convolution; taps on padding and on zeros between elements are none."""
    numbers = params["dimension_numbers"]
    batch, features, *axes = numbers.lhs_spec
    out_features, _, *taps = numbers.rhs_spec
    pairs = 1
    for place, (axis, tap) in enumerate(zip(axes, taps)):
        pairs *= _valid_taps(out.shape[numbers.out_spec[2 + place]], rhs.shape[tap], lhs.shape[axis], params["window_strides"][place],
                             params["padding"][place][0], params["lhs_dilation"][place], params["rhs_dilation"][place])
    of_input = lhs.shape[features] // params["feature_group_count"]
    images = lhs.shape[batch] // params["batch_group_count"]
    return 2 * images * of_input * rhs.shape[out_features] * pairs


def causal_pairs(rows, keys):
    """Returns the number of queries and keys i, j with j <= i."""
    full = max(rows - keys, 0)
    part = min(rows, keys)
    return part * (part + 1) // 2 + full * keys


def _attention_flops(q, k, v, causal, products):
    """Returns the FLOPs of products [S, T] x E (`products` gives how many with the width of q and of v)."""
    rows, keys = q.shape[-2], k.shape[-2]
    pairs = causal_pairs(rows, keys) if causal else rows * keys
    return 2 * math.prod(q.shape[:-2]) * pairs * (products[0] * q.shape[-1] + products[1] * v.shape[-1])


def _row_flops(word, x, width):
    rows = size(x) // max(width, 1)
    if rows == 0 or width == 0:
        return 0
    return ridge.explain(f"x: f32[N, D]\ny: f32[N, D] = {word}(x over D)", on="h200", N=rows, D=width).total.flops


def _count_own(name, avals, params, results):
    """Returns the FLOPs of one of ridge's operators and whether the matrix unit computes them, or None."""
    first = avals[0]
    if name == "ridge_matmul":
        inner = first.shape[-2] if params["transpose_a"] else first.shape[-1]
        return 2 * size(results[0]) * inner, True
    if name == "ridge_geglu":
        return 2 * size(first) * avals[1].shape[0], True
    if name == "ridge_attention":
        return _attention_flops(*avals[:3], params["causal"], (1, 1)), True
    if name == "ridge_attention_gradients":  # The scores again, and four products
        return _attention_flops(*avals[:3], params["causal"], (3, 2)), True
    if name == "ridge_softmax":
        return _row_flops("softmax", first, first.shape[params["axis"]]), False
    if name == "ridge_rmsnorm":
        return _row_flops("rmsnorm", first, first.shape[-1]), False
    return None


def count_flops(name, avals, params, results):
    """Returns the FLOPs of a primitive (None if it is unknown) and whether the matrix unit computes them."""
    if name == "dot_general":
        return dot_flops(avals[0], avals[1], params["dimension_numbers"]), True
    if name == "conv_general_dilated":
        return conv_flops(avals[0], avals[1], results[0], params), True
    if name.startswith("ridge_"):
        return _count_own(name, avals, params, results) or (None, False)
    if name in POINTWISE:
        return sum(map(size, results)), False
    if name in _REDUCTIONS:
        return size(avals[0]), False
    if name == "reduce":
        return sum(map(size, avals[:len(avals) // 2])), False
    if name.startswith("reduce_window"):
        return size(results[0]) * math.prod(params["window_dimensions"]), False
    if name in ("select_and_scatter_add", "select_and_gather_add"):
        return size(avals[0]) * math.prod(params["window_dimensions"]), False
    if name in _SCATTERS:
        return size(avals[2]) if name not in ("scatter", "scatter_p") else 0, False
    if name == "ragged_dot" or name == "ragged_dot_general":
        return _ragged_flops(avals, results), True
    if name == "cholesky":
        n = avals[0].shape[-1]
        return size(avals[0]) * (n + 1) * (2 * n + 1) // (6 * n) if n else 0, False
    if name == "triangular_solve":
        return size(avals[1]) * avals[0].shape[-1], False
    return (0 if name in _MOVES or name in ("gather", "dynamic_slice", "dynamic_update_slice") else None), False


def _ragged_flops(avals, results):
    """Returns the FLOPs of lhs[m, k] by rhs[groups, k, n]; None for other forms."""
    if len(avals[0].shape) == 2 and len(avals[1].shape) == 3 and len(results[0].shape) == 2:
        return 2 * size(results[0]) * avals[0].shape[1]
    return None


def count_bytes(name, read, avals, results):
    """Returns the bytes that a primitive reads and writes. `read` has the bytes of each operand, each element once.

    Gathers and slices read what they select; updates of a part read and write that part, as if in place.
    """
    written = sum(map(all_bytes, results))
    if name == "gather":
        return 2 * written + all_bytes(avals[1])
    if name == "dynamic_slice":
        return 2 * written
    if name == "dynamic_update_slice":
        return 2 * all_bytes(avals[1])
    if name in _SCATTERS:
        times = 2 if name == "scatter" else 3
        return times * all_bytes(avals[2]) + all_bytes(avals[1])
    return sum(read) + written
