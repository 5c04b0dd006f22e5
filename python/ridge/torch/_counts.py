"""FLOPs of PyTorch's operations. Shapes decide all of them; no value of a tensor is read."""
import dataclasses
import functools
import math

import torch
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry, register_flop_formula, sdpa_flop_count

import ridge
from ridge.torch import _operators  # noqa: F401  defines the operators


def _words(text):
    return frozenset(text.split())


# One FLOP for each element of the result, as ridge counts pointwise functions.
_POINTWISE = _words("""abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min copysign cos cosh digamma div elu
    elu_backward eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac ge gelu gelu_backward glu
    glu_backward gt hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward
    heaviside huber_loss huber_loss_backward hypot i0 isfinite isinf isnan isneginf isposinf le leaky_relu
    leaky_relu_backward lerp lgamma log log10 log1p log2 log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mish_backward mse_loss_backward
    mul nan_to_num ne neg pow prelu reciprocal relu relu6 remainder round rsqrt rsub rrelu_with_noise selu sigmoid
    sigmoid_backward sign signbit silu silu_backward sin sinc sinh smooth_l1_loss_backward softplus softplus_backward
    softshrink sqrt square sub tan tanh tanh_backward threshold threshold_backward tril triu trunc where xlogy __and__
    __ior__ __iand__ __or__ __xor__ __lshift__ __rshift__ polar complex angle native_dropout_backward
    _amp_foreach_non_finite_check_and_unscale binary_cross_entropy_backward""")
# One FLOP for each element that is read.
_REDUCTIONS = _words("""all amax amin aminmax any argmax argmin binary_cross_entropy bincount count_nonzero cummax cummin
    cumprod cumsum histc kthvalue linalg_vector_norm logcumsumexp max mean min mse_loss nansum norm prod smooth_l1_loss std
    std_mean sum var var_mean _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d""")
# Operations that move bytes and compute nothing that ridge counts: copies, index work, random numbers, and sorts, which
# compare. Their bounds are those of their bytes.
_MOVES = _words("""_to_copy arange as_strided_copy bernoulli cat cauchy clone col2im complex constant_pad_nd copy diag_embed
    diagonal_backward diagonal_scatter embedding eye exponential fill flip full full_like gather geometric im2col index
    index_copy index_fill index_put index_select isin lift_fresh linspace log_normal logspace masked_scatter masked_select
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward max_unpool2d mode msort multinomial native_dropout
    new_full new_ones new_zeros nll_loss2d_backward nll_loss_backward normal one_hot ones ones_like pixel_shuffle
    pixel_unshuffle put rand randint randint_like randn randn_like rand_like random randperm range reflection_pad1d
    reflection_pad2d repeat repeat_interleave replication_pad1d replication_pad2d roll rot90 scalar_tensor scatter
    searchsorted bucketize select_backward select_scatter slice_backward slice_scatter sort stack take topk tril_indices
    triu_indices unfold_backward uniform unfold_copy upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _index_put_impl _unsafe_index _unsafe_index_put zero zeros
    zeros_like channel_shuffle median argsort nanmedian _foreach_copy as_strided_scatter""")
# Operations that move nothing: views, uninitialized memory, and queries of the host.
FREE = _words("""_local_scalar_dense alias as_strided chunk detach empty empty_like empty_strided empty_permuted expand
    is_same_size item narrow new_empty new_empty_strided permute prim_device select slice split split_with_sizes squeeze
    sym_numel sym_size sym_storage_offset sym_stride t transpose unbind unfold unsafe_split unsafe_split_with_sizes unsqueeze
    view _unsafe_view view_as_real view_as_complex _reshape_alias resize resize_as set is_pinned is_nonzero _conj _neg_view
    conj resolve_conj resolve_neg real imag lift _cudnn_init_dropout_state record_stream""")
# Row functions, with their names in ridge's notation.
_ROWS = {"_softmax": "softmax", "_log_softmax": "softmax", "_safe_softmax": "softmax", "native_layer_norm": "layernorm",
         "_fused_rms_norm": "rmsnorm", "rms_norm": "rmsnorm", "softmax": "softmax", "rmsnorm": "rmsnorm"}
# FLOPs for each element of the first argument, from the formulas of the derivatives: p (g - sum(p g)) has four.
_PER_ELEMENT = {"_softmax_backward_data": 4, "_log_softmax_backward_data": 4, "native_layer_norm_backward": 9,
                "native_group_norm_backward": 9, "native_batch_norm_backward": 9, "cudnn_batch_norm_backward": 9,
                "batch_norm_backward": 9, "_fused_rms_norm_backward": 7, "logsumexp": 3, "nll_loss_backward": 0,
                "softmax_backward": 4, "rmsnorm_backward": 7, "_weight_norm_interface": 2,
                "_weight_norm_interface_backward": 4, "_cdist_forward": 3}
_BATCH_NORMS = _words("""native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm
    miopen_batch_norm _batch_norm_with_update _batch_norm_with_update_functional""")
# FLOPs for each parameter of a fused optimizer's step, one for each pointwise operation of the unfused step.
_OPTIMIZERS = {"_fused_adam": 8, "_fused_adamw": 8, "_fused_sgd": 2, "_fused_adagrad": 5}
# Elements of the input that linear interpolation reads for each element of the result.
LINEAR_TAPS = {"upsample_linear1d": 2, "upsample_bilinear2d": 4, "_upsample_bilinear2d_aa": 4, "upsample_bicubic2d": 16,
                "upsample_trilinear3d": 8, "grid_sampler_2d": 4, "grid_sampler_3d": 8}


# FLOPs of ridge's own products and attention, forward; also registered for torch.utils.flop_counter.
@register_flop_formula(torch.ops.ridge.matmul)
def _matmul_flops(a, b, *_, out_shape=None, **__):
    return 2 * math.prod(out_shape) * a[-1]


@register_flop_formula([torch.ops.ridge.geglu, torch.ops.ridge.geglu_keeping])
def _geglu_flops(x, w, *_, **__):
    return 2 * math.prod(x) * w[0]


def count_attention_pairs(rows, keys, is_causal):
    """Returns how many (row, key) pairs attention scores. Row i of causal attention sees keys 0 to i."""
    if not is_causal:
        return rows * keys
    triangle = min(rows, keys)
    return triangle * (triangle + 1) // 2 + (rows - triangle) * keys


def count_attention(q, v, keys, is_causal):
    """Returns the FLOPs of attention with shapes q[..., S, E] and v[..., T, V], where T is `keys`."""
    return 2 * math.prod(q[:-2]) * count_attention_pairs(q[-2], keys, is_causal) * (q[-1] + v[-1])


def count_attention_backward(q, v, keys, is_causal):
    """Returns the FLOPs of attention's gradients, which recompute the scores: five products."""
    return 2 * math.prod(q[:-2]) * count_attention_pairs(q[-2], keys, is_causal) * (3 * q[-1] + 2 * v[-1])


@register_flop_formula([torch.ops.ridge.attention, torch.ops.ridge.attention_keeping])
def _attention_flops(q, k, v, causal=False, *_, **__):
    return count_attention(q, v, k[-2], causal)


@register_flop_formula(torch.ops.ridge.attention_backward)
def _attention_backward_flops(gradient, q, k, v, o=None, lse=None, causal=False, *_, **__):
    return count_attention_backward(q, v, k[-2], causal)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of an operation: `base` is its name without namespace, overload and trailing underscore."""
    func: object
    base: str
    args: tuple
    kwargs: dict
    result: object
    read: list                      # Tensors among the arguments, without those that the call only overwrites
    written: list                   # Tensors that it returns or changes

    @property
    def name(self):
        return f"{self.func.namespace}.{self.base}"

    def argument(self, name, default=None):
        """Returns an argument by its name in the schema."""
        for position, declared in enumerate(self.func._schema.arguments):
            if declared.name == name:
                return self.args[position] if position < len(self.args) else self.kwargs.get(name, default)
        return default


def tensors_of(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _elements(tensors):
    return sum(tensor.numel() for tensor in tensors)


@functools.lru_cache(maxsize=4096)
def _flops_in_rows(word, rows, width):
    report = ridge.explain(f"x: f32[N, D]\ny: f32[N, D] = {word}(x over D)", on="h200", N=max(rows, 1), D=max(width, 1))
    return report.total.flops


def _count_row_function(call):
    x, along = call.read[0], call.args[1] if len(call.args) > 1 else -1
    if isinstance(along, (tuple, list)) and along:  # Layer norms take the extents of the normalized dimensions
        width = math.prod(along)
    else:
        width = x.shape[along] if call.base.endswith("softmax") and x.dim() else x.shape[-1] if x.dim() else 1
    return _flops_in_rows(_ROWS[call.base], x.numel() // max(width, 1), int(width)) if x.numel() else 0


def _count_batch_norm(call):
    """A training batch norm is a layer norm along the other dimensions; without statistics it scales and shifts."""
    x = call.read[0]
    if call.argument("training", call.argument("train", True)):
        channels = x.shape[1]
        return _flops_in_rows("layernorm", channels, x.numel() // max(channels, 1))
    return 2 * x.numel()


def _count_group_norm(call):
    rows = call.argument("N") * call.argument("group")
    return _flops_in_rows("layernorm", rows, call.read[0].numel() // max(rows, 1))


def _count_pool(call):
    """One FLOP for each element of each window."""
    window = call.argument("kernel_size")
    dims = 1 if "1d" in call.base else 3 if "3d" in call.base else 2
    window = list(window) * dims if len(window) == 1 else list(window)
    result = call.read[0] if call.base.endswith("backward") else call.written[0]
    return result.numel() * math.prod(window)


def _count_grouped_product(call):
    """Two matrices are split along k into groups, all of which together have the full product's FLOPs."""
    a, b = call.args[0], call.args[1]
    return 2 * a.numel() * b.shape[-1] if b.dim() == 2 or a.dim() == 2 else 2 * call.written[0].numel() * a.shape[-1]


def _count_grouped_product_backward(call):
    return 2 * _count_grouped_product(call)


def _count_recurrent_layer(call):
    """Every time step multiplies the input and the state by their weights; backward has two products for each."""
    weights = [tensor for tensor in tensors_of(call.args[1:5] if "mkldnn" in call.base else call.args[1]) if tensor.dim() == 2]
    steps_and_batch = call.args[0].numel() // max(call.args[0].shape[-1], 1)
    return 2 * steps_and_batch * _elements(weights) * (2 if call.base.endswith("backward") else 1)


def _count_product(call):
    """2 k FLOPs for each element of the result, where k is the last extent of the first matrix."""
    first = call.args[1] if call.base in ("addmv", "_addmm_activation") else call.args[0]
    return 2 * call.written[0].numel() * (first.shape[-1] if first.dim() else 1)


def _count_linear_upsampling(call):
    taps = LINEAR_TAPS[call.base.removesuffix("_backward")]
    elements = call.args[0].numel() if call.base.endswith("backward") else call.written[0].numel()
    return (2 * taps - 1) * elements


def _count_scattered(call):
    """One FLOP for each scattered element of an accumulation."""
    source = call.argument("source", call.argument("src", call.argument("index")))
    index = call.argument("index")
    return (source if call.base == "index_add" or call.base == "index_reduce" else index).numel()


def _count_embedding_bag(call):
    return call.argument("indices").numel() * call.argument("weight").shape[-1]


_ON_VECTOR_UNIT = {
    **dict.fromkeys(_ROWS, _count_row_function), **dict.fromkeys(_BATCH_NORMS, _count_batch_norm),
    "_native_batch_norm_legit_no_training": lambda call: 2 * call.read[0].numel(), "native_group_norm": _count_group_norm,
    **dict.fromkeys(_words("""max_pool2d_with_indices max_pool3d_with_indices max_pool2d max_pool3d max_pool1d avg_pool2d avg_pool3d
                              avg_pool1d mkldnn_max_pool2d avg_pool2d_backward avg_pool3d_backward"""), _count_pool),
    **dict.fromkeys([*LINEAR_TAPS, *(f"{name}_backward" for name in LINEAR_TAPS)], _count_linear_upsampling),
    **dict.fromkeys(_words("index_add index_reduce scatter_add scatter_reduce"), _count_scattered),
    **dict.fromkeys(_words("_embedding_bag _embedding_bag_forward_only embedding_bag"), _count_embedding_bag),
    **dict.fromkeys(_words("nll_loss_forward nll_loss2d_forward"), lambda call: call.argument("target").numel()),
    **dict.fromkeys(_words("""embedding_dense_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
                              upsample_nearest2d_backward upsample_nearest1d_backward upsample_nearest3d_backward
                              _embedding_bag_dense_backward"""), lambda call: call.args[0].numel()),
    "trace": lambda call: min(call.args[0].shape), "_thnn_fused_lstm_cell": lambda call: call.args[0].numel(), "_thnn_fused_gru_cell": lambda call: call.args[0].numel(),
}
_ON_MATRIX_UNIT = {
    "_grouped_mm": _count_grouped_product, "grouped_mm_fallback": _count_grouped_product,
    "_scaled_grouped_mm": _count_grouped_product, "grouped_mm_fallback_backward": _count_grouped_product_backward,
    **dict.fromkeys(_words("""_int_mm mv addmv dot vdot _weight_int8pack_mm _weight_int4pack_mm _addmm_activation
                              _weight_int4pack_mm_for_cpu linear matmul"""), _count_product),
    **dict.fromkeys(_words("""mkldnn_rnn_layer mkldnn_rnn_layer_backward _cudnn_rnn miopen_rnn"""), _count_recurrent_layer),
    "addr": lambda call: 2 * call.written[0].numel(),
    **dict.fromkeys(_words("linear_backward mkldnn_linear_backward"), lambda call: 4 * call.args[1].numel() * call.args[0].shape[-1]),
    "geglu_backward": lambda call: 6 * call.args[1].numel() * call.args[2].shape[0],
}


def is_free(func, base):
    """True if the operation neither reads nor writes memory of the device."""
    return func.namespace in ("prim", "profiler") or base in FREE or bool(getattr(func, "is_view", False))


def count_flops(call):
    """Returns the FLOPs, whether the matrix unit computes them, and whether the operation is known."""
    base, packet = call.base, call.func._overloadpacket
    if base in _ON_MATRIX_UNIT:
        return int(_ON_MATRIX_UNIT[base](call)), True, True
    if packet in flop_registry:
        return int(flop_registry[packet](*call.args, **call.kwargs, out_val=call.result)), True, True
    if base.startswith(("_scaled_dot_product", "_flash_attention", "_efficient_attention")) and not base.endswith("backward"):
        q, k, v = (tensor.shape for tensor in call.args[:3])
        if call.argument("is_causal", False):
            return count_attention(q, v, k[-2], True), True, True
        return int(sdpa_flop_count(q, k, v)), True, True
    if base.startswith("_scaled_dot_product") and base.endswith("backward"):  # (gradient, q, k, v, ...)
        q, k, v = (tensor.shape for tensor in call.args[1:4])
        return count_attention_backward(q, v, k[-2], bool(call.argument("is_causal", False))), True, True
    if base in _ON_VECTOR_UNIT and call.read:
        return int(_ON_VECTOR_UNIT[base](call)), False, True
    return _count_by_elements(call)


def _count_by_elements(call):
    base = call.base.removeprefix("_foreach_")
    if call.base in _OPTIMIZERS:
        return _OPTIMIZERS[call.base] * _elements(tensors_of(call.args[0])), False, True
    if base in _PER_ELEMENT:
        return _PER_ELEMENT[base] * call.read[0].numel(), False, True
    if base in _REDUCTIONS or (base in ("max", "min", "norm") and call.base != base):
        return max((tensor.numel() for tensor in call.read), default=0), False, True
    if base in _POINTWISE:
        return _elements(call.written), False, True
    return 0, False, base in _MOVES
