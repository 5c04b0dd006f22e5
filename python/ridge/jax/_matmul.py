"""The matrix product: a bilinear primitive whose derivatives are products, too."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from ridge._error import input_error
from ridge._shapes import check_matmul
from ridge.jax._define import check_dtype, define, like


def _rows_columns(array, is_transposed):
    return array.shape[-2:][::-1] if is_transposed else array.shape[-2:]


def _product_shape(a, b, transpose_a, transpose_b):
    leading = a.shape[:-2] if a.ndim > 2 else b.shape[:-2]
    return (*leading, _rows_columns(a, transpose_a)[0], _rows_columns(b, transpose_b)[1])


def _abstract(a, b, *, transpose_a, transpose_b, dtype):
    return [like(a, _product_shape(a, b, transpose_a, transpose_b), dtype)]


def _lower(context, platform, a, b, *, transpose_a, transpose_b, dtype):
    flags = {"transpose_a": np.int64(transpose_a), "transpose_b": np.int64(transpose_b)}
    return jax.ffi.ffi_lowering("ridge_matmul")(context, a, b, **flags)


def _batch(is_mapped, size, a, b, **params):
    leading = max((x.shape[:-2] if not mapped else x.shape[1:-2] for x, mapped in zip((a, b), is_mapped)), key=len)

    def spread(x, mapped):
        if not mapped and x.ndim == 2:
            return x
        own = x.shape[1:-2] if mapped else x.shape[:-2]
        matrix = x.shape[-2:]
        front = (size if mapped else 1, *([1] * (len(leading) - len(own))), *own)
        return jnp.broadcast_to(x.reshape(*front, *matrix), (size, *leading, *matrix))

    return _matmul_p.bind(spread(a, is_mapped[0]), spread(b, is_mapped[1]), **params)


_matmul_p = define("matmul", _abstract, _lower, _batch)


def multiply(a, b, transpose_a=False, transpose_b=False, dtype=None):
    """Returns the product of matrices, of which either may be transposed without a copy. Leading axes are the same in both, or
    one has none. `dtype` is that of the result: a's (default) or float32."""
    dtype = jnp.dtype(dtype or a.dtype)
    shape = _product_shape(a, b, transpose_a, transpose_b)
    if 0 in (*shape, *a.shape):
        return jnp.zeros(shape, dtype)
    return _matmul_p.bind(a, b, transpose_a=transpose_a, transpose_b=transpose_b, dtype=dtype.name)[0]


def _sum_leading(gradient, operand):
    """Returns the sum over leading axes that an operand does not have."""
    return gradient.sum(axis=tuple(range(gradient.ndim - operand.ndim)))


def _transpose_matmul(gradients, a, b, *, transpose_a, transpose_b, dtype):
    [gradient] = gradients
    if type(gradient) is ad.Zero:
        return [None, None]
    if ad.is_undefined_primal(a):
        g, wanted = gradient.astype(b.dtype), a.aval
        if transpose_a:
            product = multiply(b, g, transpose_b, True, wanted.dtype)
        else:
            product = multiply(g, b, False, not transpose_b, wanted.dtype)
        return [_sum_leading(product, wanted), None]
    g, wanted = gradient.astype(a.dtype), b.aval
    if wanted.ndim == 2 and not transpose_a:  # One product of all rows
        a, g = a.reshape(-1, a.shape[-1]), g.reshape(-1, g.shape[-1])
    if transpose_b:
        product = multiply(g, a, True, transpose_a, wanted.dtype)
    else:
        product = multiply(a, g, not transpose_a, False, wanted.dtype)
    return [None, _sum_leading(product, wanted)]


def _differentiate(primals, tangents, **params):
    (a, b), (of_a, of_b) = primals, tangents
    parts = [] if type(of_a) is ad.Zero else [_matmul_p.bind(of_a, b, **params)[0]]
    parts += [] if type(of_b) is ad.Zero else [_matmul_p.bind(a, of_b, **params)[0]]
    result = _matmul_p.bind(a, b, **params)
    return result, [sum(parts[1:], parts[0])]


ad.primitive_jvps[_matmul_p] = _differentiate
ad.primitive_transposes[_matmul_p] = _transpose_matmul


def matmul(a, b, *, preferred_element_type=None):
    """Returns a @ b, as jnp.matmul does: a[..., m, k], b[..., k, n] -> [..., m, n].

    Leading axes are broadcast; an operand with one axis is a vector. Operands are float32, bfloat16 or float16, both of one
    dtype, with f32 sums. preferred_element_type is the dtype of the result: that of the operands (default) or float32.
    Differentiable to any order, forward and backward. Raises ridge.Error for other shapes and dtypes.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    check_matmul(a, b)
    check_dtype("a", a)
    dtype = jnp.dtype(preferred_element_type or a.dtype)
    if dtype not in (a.dtype, jnp.float32):
        raise input_error(f"expected preferred_element_type {a.dtype} or float32, found {dtype}")
    is_row, is_column = a.ndim == 1, b.ndim == 1
    a, b = a[None] if is_row else a, b[:, None] if is_column else b
    if a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
        leading = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (jnp.broadcast_to(x, (*leading, *x.shape[-2:])) for x in (a, b))
    product = multiply(a, b, dtype=dtype)
    if is_row:
        product = product[..., 0, :]
    return product[..., 0] if is_column else product
