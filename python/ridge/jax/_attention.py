"""Attention. A program computes the result. In 16 bits, a second program computes the gradients and recomputes the scores, so
that a training step stores none; other derivatives store the scores."""
import functools
import types

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from ridge._attention import declared_lengths, is_one_kernel, score_mask
from ridge._compute import axes_text
from ridge._shapes import attention_shape
from ridge.jax._define import define, define_program, in_front, like, lower_function, spelling
from ridge.jax._matmul import multiply
from ridge.jax._operators import _softmax


def _on(platform, array):
    """Returns the array's shape and dtype as those of an array on a device of this platform."""
    return types.SimpleNamespace(shape=array.shape, dtype=array.dtype, device=platform)


def _score(scale, causal, has_lengths):
    """Returns the score of a query and a key as program text."""
    factor = "rsqrt(size(X))" if scale is None else repr(scale)
    condition = score_mask(causal, has_lengths)
    return f"where({condition}, s * {factor}, -inf)" if condition else f"s * {factor}"


def _leading_axes(q):
    return f"{axes_text(q.ndim - 2)}, " if q.ndim > 2 else ""


def _program(platform, q, k, v, lengths=None, *, causal, scale):
    lead, dtype = _leading_axes(q), spelling(q)
    of_scores, of_weights, width = (": f32", f": {dtype}", "Y")
    if is_one_kernel(_on(platform, q), v):
        of_scores, of_weights, width = "", "", "X"
    declared = [] if lengths is None else [declared_lengths(lead, lengths)]
    lines = [f"q[{lead}S, X]", f"k[{lead}T, X]", f"v[{lead}T, {width}]", *declared, f"s{of_scores}[{lead}S, T] = q * k",
             f"p{of_weights}[{lead}S, T] = softmax({_score(scale, causal, lengths is not None)} over T)",
             f"o: {dtype}[{lead}S, {width}] = p * v"]
    return "\n".join(lines), ["q", "k", "v"] + ["n"] * len(declared), ["o"]


def _batch(is_mapped, size, *operands, causal, scale):
    operands = [in_front(mapped, size, x) for mapped, x in zip(is_mapped, operands)]
    return _attention_p.bind(*operands, causal=causal, scale=scale)


_attention_p = define_program("attention", _program, _batch)


def _mask(shape, keys, lengths, causal):
    """Returns which keys each query attends to, as an array that can be broadcast to the scores, or None for all of them."""
    rows, columns = jnp.arange(shape[-2])[:, None], jnp.arange(keys)[None, :]
    if lengths is None:
        return columns <= rows if causal else None
    n = lengths.reshape(*lengths.shape, *[1] * (len(shape) - lengths.ndim))
    return columns <= rows + n - shape[-2] if causal else columns < n


def _by_parts(q, k, v, lengths=None, *, causal, scale):
    """Computes attention with products and a softmax of f32 scores."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = multiply(q, k, transpose_b=True, dtype=jnp.float32) * factor
    mask = _mask(q.shape, k.shape[-2], lengths, causal)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return multiply(_softmax(scores, -1).astype(q.dtype), v)


# The tangent of attention, a linear function of the tangents of q, k and v. Its transpose is the program of the gradients.
def _tangent(q, k, v, of_q, of_k, of_v, *, causal, scale):
    return [jax.jvp(functools.partial(_by_parts, causal=causal, scale=scale), (q, k, v), (of_q, of_k, of_v))[1]]


def _batch_all(primitive):
    def batch(is_mapped, size, *operands, **params):
        return primitive().bind(*(in_front(mapped, size, x) for mapped, x in zip(is_mapped, operands)), **params)
    return batch


def _abstract_tangent(q, k, v, *tangents, **_):
    return [like(q, (*q.shape[:-1], v.shape[-1]), q.dtype)]


def _differentiate(function, primals, tangents, **params):
    tangents = [jnp.zeros(x.shape, x.dtype) if type(t) is ad.Zero else t for x, t in zip(primals, tangents)]
    return jax.jvp(functools.partial(function, **params), tuple(primals), tuple(tangents))


_tangent_p = define("attention_tangent", _abstract_tangent, lower_function(_tangent), _batch_all(lambda: _tangent_p))
ad.primitive_jvps[_tangent_p] = functools.partial(_differentiate, _tangent)


def _transpose_tangent(gradients, q, k, v, of_q, of_k, of_v, **params):
    tangents = (of_q, of_k, of_v)
    if type(gradients[0]) is ad.Zero:
        return [None] * 6
    found = _gradients_p.bind(q, k, v, gradients[0], **params)
    return [None] * 3 + [each if ad.is_undefined_primal(t) else None for each, t in zip(found, tangents)]


ad.primitive_transposes[_tangent_p] = _transpose_tangent


def _gradients_program(platform, q, k, v, gradient, *, causal, scale):
    lead, t = _leading_axes(q), spelling(q)
    factor = "rsqrt(size(X))" if scale is None else repr(scale)
    lines = [f"q: {t}[{lead}S, X]   k: {t}[{lead}T, X]   v: {t}[{lead}T, X]   r: {t}[{lead}S, X]", f"s[{lead}S, T] = q * k",
             f"p[{lead}S, T] = softmax({_score(scale, causal, False)} over T)", f"dv: {t}[{lead}T, X] = p * r",
             f"dp[{lead}S, T] = r * v", f"e[{lead}S] = sum(p * dp over T)", f"ds[{lead}S, T] = p * (dp - e) * {factor}",
             f"dq: {t}[{lead}S, X] = ds * k", f"dk: {t}[{lead}T, X] = ds * q"]
    return "\n".join(lines), ["q", "k", "v", "r"], ["dq", "dk", "dv"]


def _gradients(q, k, v, gradient, **params):
    return list(jax.vjp(functools.partial(_by_parts, **params), q, k, v)[1](gradient))


_gradients_p = define_program("attention_gradients", _gradients_program, _batch_all(lambda: _gradients_p))
ad.primitive_jvps[_gradients_p] = functools.partial(_differentiate, _gradients)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _attention(q, k, v, lengths, causal, scale):
    operands = (q, k, v) if lengths is None else (q, k, v, lengths)
    return _attention_p.bind(*operands, causal=causal, scale=scale)[0]


@_attention.defjvp
def _(causal, scale, primals, tangents):
    q, k, v, lengths = primals
    has_kernel = all(is_one_kernel(_on(platform, q), v) for platform in ("cpu", "cuda:0"))
    if lengths is None and has_kernel and q.dtype != jnp.float32:
        tangent = _tangent_p.bind(q, k, v, *tangents[:3], causal=causal, scale=scale)[0]
        return _attention(q, k, v, None, causal, scale), tangent
    function = functools.partial(_by_parts, lengths=lengths, causal=causal, scale=scale)
    return jax.jvp(function, (q, k, v), tuple(tangents[:3]))


def attention(q, k, v, *, causal=False, scale=None, lengths=None):
    """Returns softmax(scale * q @ k.T) @ v in each head, with the arguments of ridge.attention.

    Shapes: q [..., S, E], k [..., T, E], v [..., T, V]; the result is [..., S, V]. Leading axes are the same in all three (those
    of jax.nn.dot_product_attention are [B, S, N, E] instead). Arrays are float32, bfloat16 or float16; scores are f32.
    scale    default 1 / sqrt(E)
    causal   query i attends to keys 0 to i
    lengths  int32[B], or with more leading axes: sequence b has lengths[b] valid keys of T; with causal, its queries are the last
    Raises ridge.Error.
    """
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    lengths = None if lengths is None else jnp.asarray(lengths, jnp.int32)
    attention_shape(q, k, v, None, lengths)
    shape = (*q.shape[:-1], v.shape[-1])
    if 0 in (*shape, *k.shape):  # No key, or no score but 0
        return jnp.zeros(shape, q.dtype) if 0 in (*shape, k.shape[-2]) else _by_parts(
            q, k, v, lengths, causal=bool(causal), scale=1.0 if scale is None else float(scale))
    return _attention(q, k, v, lengths, bool(causal), None if scale is None else float(scale))

