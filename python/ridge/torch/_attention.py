"""torch.ops.ridge.attention and its gradients. The backward pass recomputes the scores."""
import torch

import ridge
from ridge import _ridge
from ridge._compute import declared_lengths, is_one_kernel, score_mask
from ridge.torch._define import autocast, below, differentiable, first_derivative, operator, spelling


def _scale(q, scale):
    return float(scale if scale is not None else q.shape[-1] ** -0.5)


def _attention(q, k, v, causal=False, scale=None, lengths=None):
    return ridge.attention(q, k, v, causal=causal, scale=scale, lengths=lengths)


operator("attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, Tensor? lengths=None) -> Tensor",
         _attention,
         lambda q, k, v, causal=False, scale=None, lengths=None: q.new_empty([*q.shape[:-1], v.shape[-1]]))

# A single kernel runs the first program, for 16-bit inputs with values as wide as keys. The second one runs with separate
# kernels and rounds intermediates as torch does.
_ATTENTION_BACKWARD = """q: {t}[{l}S, X]   k: {t}[{l}T, X]   v: {t}[{l}T, X]   r: {t}[{l}S, X]{n}
s[{l}S, T] = q * k
p[{l}S, T] = softmax({score} over T)
dv: {t}[{l}T, X] = p * r
dp[{l}S, T] = r * v
e[{l}S] = sum(p * dp over T)
ds[{l}S, T] = p * (dp - e) * {scale}
dq: {t}[{l}S, X] = ds * k
dk: {t}[{l}T, X] = ds * q
"""
_ATTENTION_BACKWARD_UNFUSED = """q: {t}[{l}S, X]   k: {t}[{l}T, X]   v: {t}[{l}T, Y]   r: {t}[{l}S, Y]{n}
s: f32[{l}S, T] = q * k
p: f32[{l}S, T] = softmax({score} over T)
c: {t}[{l}S, T] = p + 0
dv: {t}[{l}T, Y] = c * r
dp: f32[{l}S, T] = r * v
e: f32[{l}S] = sum(p * dp over T)
ds: {t}[{l}S, T] = p * (dp - e) * {scale}
dq: {t}[{l}S, X] = ds * k
dk: {t}[{l}T, X] = ds * q
"""


def _has_kernels(q, k, v):
    """True if the forward kernel can store what the backward kernels read: o, and lse, the log-sum-exp of each row."""
    return q.is_cuda and q.numel() > 0 and k.numel() > 0 and is_one_kernel(q, v)


operator("attention_keeping(Tensor q, Tensor k, Tensor v, bool causal, float scale) -> (Tensor, Tensor)",
         lambda q, k, v, causal, scale: _ridge.attention_forward(q, k, v, causal, scale),
         lambda q, k, v, causal, scale: (q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=torch.float32)))


def _attention_backward(gradient, q, k, v, o=None, lse=None, causal=False, scale=None, lengths=None):
    if o is not None:
        return _ridge.attention_backward(gradient, q, k, v, o, lse, causal, _scale(q, scale))
    lead = "".join(f"{letter}, " for letter in "ABCDEFGH"[:q.dim() - 2])
    factor = repr(_scale(q, scale))
    score = f"s * {factor}"
    condition = score_mask(causal, lengths is not None)
    if condition:
        score = f"where({condition}, {score}, -inf)"
    given = {"q": q, "k": k, "v": v, "r": gradient}
    declared = ""
    if lengths is not None:
        given["n"] = lengths
        declared = "   " + declared_lengths(lead, lengths)
    in_one_kernel = lengths is None and spelling(q) != "f32" and is_one_kernel(q, v)
    text = _ATTENTION_BACKWARD if in_one_kernel else _ATTENTION_BACKWARD_UNFUSED
    program = text.format(t=spelling(q), l=lead, score=score, scale=factor, n=declared)
    found = ridge.run(program, wanted=["dq", "dk", "dv"], **given)
    return found["dq"], found["dk"], found["dv"]


operator("attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? o=None, Tensor? lse=None, "
         "bool causal=False, float? scale=None, Tensor? lengths=None) -> (Tensor, Tensor, Tensor)", _attention_backward,
         lambda gradient, q, k, v, o=None, lse=None, causal=False, scale=None, lengths=None:
         tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (q, k, v)))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=None, lengths=None):
        if lengths is None and _has_kernels(q, k, v):
            o, lse = below(torch.ops.ridge.attention_keeping.default, q, k, v, causal, _scale(q, scale))
            ctx.save_for_backward(q, k, v, o, lse, None)
        else:
            o = below(torch.ops.ridge.attention.default, q, k, v, causal, scale, lengths)
            ctx.save_for_backward(q, k, v, None, None, lengths)
        ctx.causal, ctx.scale = causal, scale
        return o

    @first_derivative
    def backward(ctx, saved, gradient):
        *operands, lengths = saved
        results = torch.ops.ridge.attention_backward.default(gradient, *operands, ctx.causal, ctx.scale, lengths)
        return *results, None, None, None


differentiable("attention", _Attention)
autocast("attention")


def attention(q, k, v, causal=False, scale=None, lengths=None):
    """Returns softmax(scale * q @ k.T) @ v: q[..., S, E], k[..., T, E], v[..., T, V] -> [..., S, V]. lengths: int32, as in
    ridge.attention; with lengths, gradients run with separate kernels and on CPUs only."""
    return torch.ops.ridge.attention(q, k, v, causal, scale, lengths)
