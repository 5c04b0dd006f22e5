"""Softmax, RMS norm and the gated layer. Programs compute the results. Derivatives are products and pointwise operations, which
JAX can differentiate again."""
import functools

import jax
import jax.numpy as jnp

from ridge._compute import LETTERS, axes_text
from ridge._error import usage_error
from ridge._shapes import axis_of, check_rmsnorm, check_softmax, geglu_shape
from ridge.jax._define import define_program, spelling
from ridge.jax._matmul import multiply


def _float32(*arrays):
    return [array.astype(jnp.float32) for array in arrays]


def _softmax_program(platform, x, *, axis):
    axes, over = axes_text(x.ndim), LETTERS[axis % x.ndim]
    return f"x[{axes}]\ny[{axes}] = softmax(x over {over})", ["x"], ["y"]


_softmax_p = define_program("softmax", _softmax_program, lambda is_mapped, size, x, *, axis: _softmax_p.bind(x, axis=axis))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softmax(x, axis):
    return _softmax_p.bind(x, axis=axis)[0]


@_softmax.defjvp
def _(axis, primals, tangents):
    y = _softmax(*primals, axis)
    p, t = _float32(y, *tangents)
    return y, (p * (t - jnp.sum(p * t, axis=axis, keepdims=True))).astype(y.dtype)


def softmax(x, axis=-1):
    """Returns exp(x) divided by its sum along one axis, computed in f32, as jax.nn.softmax does. x: float32, bfloat16 or float16
    of any shape, as the result. Raises ridge.Error."""
    x = jnp.asarray(x)
    rank = check_softmax(x)
    axis = axis_of(rank, axis)
    if 0 in x.shape:
        return x
    return _softmax(x, axis - rank)  # Counted from the last axis, which stays where it is under vmap


def _rmsnorm_program(platform, x, weight=None, *, eps):
    axes = axes_text(x.ndim, "W")
    scaled = f"x * rsqrt(mean(x * x over W) + {eps!r})" if eps != 1e-5 else "rmsnorm(x over W)"
    if weight is None:
        return f"x[{axes}]\ny[{axes}] = {scaled}", ["x"], ["y"]
    declared = f"x: {spelling(x)}[{axes}]\nw: {spelling(weight)}[W]\ny: {spelling(x)}[{axes}]"
    return f"{declared} = {scaled} * w", ["x", "w"], ["y"]


def _batch_rmsnorm(is_mapped, size, x, *weight, eps):
    if not weight or not is_mapped[1]:
        return _rmsnorm_p.bind(x, *weight, eps=eps)
    scaled = _rmsnorm_p.bind(x.astype(jnp.float32), eps=eps)[0]
    if not is_mapped[0]:
        scaled = scaled[None]
    weight = weight[0].reshape(size, *[1] * (scaled.ndim - 2), -1)
    return [(scaled * weight).astype(x.dtype)]


_rmsnorm_p = define_program("rmsnorm", _rmsnorm_program, _batch_rmsnorm)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _rmsnorm(x, weight, eps):
    return _rmsnorm_p.bind(x, *([] if weight is None else [weight]), eps=eps)[0]


@_rmsnorm.defjvp
def _(eps, primals, tangents):
    x, weight = primals
    y = _rmsnorm(x, weight, eps)
    row, t = _float32(x, tangents[0])
    scale = jax.lax.rsqrt(jnp.mean(row * row, axis=-1, keepdims=True) + eps)
    scaled = row * scale
    tangent = scale * (t - scaled * jnp.mean(scaled * t, axis=-1, keepdims=True))
    if weight is not None:
        w, of_w = _float32(weight, tangents[1])
        tangent = tangent * w + scaled * of_w
    return y, tangent.astype(y.dtype)


def rmsnorm(x, weight=None, *, eps=1e-5):
    """Returns x / sqrt(mean(x * x) + eps) along the last axis, times the optional weight[D], computed in f32. x[..., D]: float32,
    bfloat16 or float16, as the weight and the result. Raises ridge.Error."""
    x = jnp.asarray(x)
    weight = None if weight is None else jnp.asarray(weight)
    check_rmsnorm(x, weight, eps)
    if 0 in x.shape:
        return x
    return _rmsnorm(x, weight, float(eps))


_GELU = {"none": "gelu", "tanh": "gelu_tanh"}


def _geglu_program(platform, x, w, b=None, *, approximate):
    rows, result = axes_text(x.ndim, "W"), ", ".join([*LETTERS[:x.ndim - 1], "V"])
    lines = [f"x[{rows}]", "w[2*V, W]", "up[V, W] = w[0:V]", "gate[V, W] = w[V:2*V]"]
    up, gate = "u", "g"
    if b is not None:
        lines += ["b[2*V]", "bu[V] = b[0:V]", "bg[V] = b[V:2*V]"]
        up, gate = "(u + bu)", "g + bg"
    lines += [f"u[{result}] = x * up", f"g[{result}] = x * gate", f"y[{result}] = {up} * {_GELU[approximate]}({gate})"]
    return "\n".join(lines), ["x", "w"] if b is None else ["x", "w", "b"], ["y"]


def _geglu_by_parts(x, w, b, approximate):
    """Computes the layer as a product and pointwise operations. Leading axes of w and b are those of x, or w and b have none."""
    product = multiply(x, w, transpose_b=True)
    h = product.astype(jnp.float32)
    if b is not None:
        h = h + b.astype(jnp.float32)
    u, g = jnp.split(h, 2, axis=-1)
    return (u * jax.nn.gelu(g, approximate=approximate == "tanh")).astype(x.dtype)


def _batch_geglu(is_mapped, size, x, w, *b, approximate):
    if not any(is_mapped[1:]):
        return _geglu_p.bind(x, w, *b, approximate=approximate)

    def one(x, w, b):
        rows = x if x.ndim > 1 else x[None]
        return _geglu_by_parts(rows, w, b, approximate).reshape(*x.shape[:-1], -1)

    bias = b[0] if b else None
    axes = [0 if mapped else None for mapped in is_mapped] + [None] * (not b)
    return [jax.vmap(one, axes)(x, w, bias)]


_geglu_p = define_program("geglu", _geglu_program, _batch_geglu)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _geglu(x, w, b, approximate):
    return _geglu_p.bind(x, w, *([] if b is None else [b]), approximate=approximate)[0]


@_geglu.defjvp
def _(approximate, primals, tangents):
    x, w, b = primals
    if x.ndim == 1:
        y, tangent = jax.jvp(lambda *operands: _geglu_by_parts(operands[0][None], *operands[1:], approximate)[0], primals, tangents)
        return y, tangent
    return jax.jvp(lambda *operands: _geglu_by_parts(*operands, approximate), primals, tangents)


def geglu(x, w, b=None, *, approximate="none"):
    """Returns a gated linear layer: u * gelu(g), where u and g are the halves of x @ w.T + b.

    Shapes: x [..., D], w [2*F, D], b [2*F]; the result is [..., F]. Arrays are float32, bfloat16 or float16, all of one dtype,
    with f32 sums. approximate="tanh" uses the tanh approximation of gelu. The halves are stored only for derivatives. Raises
    ridge.Error.
    """
    if not isinstance(approximate, str) or approximate not in _GELU:
        raise usage_error(f"expected approximate to be 'none' or 'tanh', found {approximate!r}")
    x, w = jnp.asarray(x), jnp.asarray(w)
    b = None if b is None else jnp.asarray(b)
    geglu_shape(x, w, b)
    if 0 in (*x.shape, *w.shape):
        rows = x if x.ndim > 1 else x[None]
        return _geglu_by_parts(rows, w, b, approximate).reshape(*x.shape[:-1], w.shape[0] // 2)
    return _geglu(x, w, b, approximate)
