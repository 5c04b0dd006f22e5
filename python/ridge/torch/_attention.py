"""torch.ops.ridge.attention and its gradients. The backward pass recomputes the scores."""
import torch

import ridge
from ridge import _ridge
from ridge._arrays import dtype_of
from ridge._attention import declared_lengths, is_one_kernel, prepare_lengths, score_mask
from ridge._error import usage_error
from ridge._shapes import attention_shape
from ridge.torch import _formulas as formulas
from ridge.torch._define import Function, autocast, backward_of, below, differentiable, operator, save, tangent_of


def _scale(q, scale):
    return float(scale if scale is not None else q.shape[-1] ** -0.5)


def _attention(q, k, v, causal=False, scale=None, lengths=None, attn_mask=None, enable_gqa=False):
    return ridge.attention(q, k, v, attn_mask, causal=causal, scale=scale, lengths=lengths, enable_gqa=enable_gqa)


def _fake_attention(q, k, v, causal=False, scale=None, lengths=None, attn_mask=None, enable_gqa=False):
    return q.new_empty(attention_shape(q, k, v, attn_mask, lengths, enable_gqa))


operator("attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, Tensor? lengths=None, "
         "Tensor? attn_mask=None, bool enable_gqa=False) -> Tensor", _attention, _fake_attention)

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


def _has_backward_program(q, k, v, causal, lengths):
    """True if a program computes the gradients: no extent is 0, and each query attends to a key."""
    if q.numel() == 0 or k.numel() == 0 or v.numel() == 0:
        return False
    if lengths is None:
        return True
    least = prepare_lengths(lengths, k.shape[-2])[1]
    return least is not None and least >= (q.shape[-2] if causal else 1)


def _attention_backward(gradient, q, k, v, o=None, lse=None, causal=False, scale=None, lengths=None):
    if o is not None:
        return _ridge.attention_backward(gradient, q, k, v, o, lse, causal, _scale(q, scale))
    if not _has_backward_program(q, k, v, causal, lengths):
        return formulas.attention_backward(gradient, q, k, v, None, causal, _scale(q, scale), lengths)[:3]
    lead = "".join(f"{letter}, " for letter in "ABCDEFGH"[:q.dim() - 2])
    factor = repr(_scale(q, scale))
    score = f"s * {factor}"
    condition = score_mask(causal, lengths is not None)
    if condition:
        score = f"where({condition}, {score}, -inf)"
    given = {"q": q, "k": k, "v": v, "r": gradient}
    declared = ""
    if lengths is not None:
        given["n"] = lengths.int()
        declared = "   " + declared_lengths(lead, lengths)
    in_one_kernel = lengths is None and dtype_of(q) != "f32" and is_one_kernel(q, v)
    text = _ATTENTION_BACKWARD if in_one_kernel else _ATTENTION_BACKWARD_UNFUSED
    program = text.format(t=dtype_of(q), l=lead, score=score, scale=factor, n=declared)
    found = ridge.run(program, wanted=["dq", "dk", "dv"], **given)
    return found["dq"], found["dk"], found["dv"]


operator("attention_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor? o=None, Tensor? lse=None, "
         "bool causal=False, float? scale=None, Tensor? lengths=None) -> (Tensor, Tensor, Tensor)", _attention_backward,
         lambda gradient, q, k, v, o=None, lse=None, causal=False, scale=None, lengths=None:
         tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (q, k, v)))


class _Attention(Function):
    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=None, lengths=None, attn_mask=None, enable_gqa=False):
        o = lse = None
        if lengths is None and attn_mask is None and q.shape[:-2] == k.shape[:-2] and _has_kernels(q, k, v):
            o, lse = below(torch.ops.ridge.attention_keeping.default, q, k, v, causal, _scale(q, scale))
            save(ctx, q, k, v, o, lse, None, None)
        else:
            o = below(torch.ops.ridge.attention.default, q, k, v, causal, scale, lengths, attn_mask, enable_gqa)
            save(ctx, q, k, v, None, None, lengths, attn_mask)
        ctx.causal, ctx.scale = causal, scale
        return o

    def _run_kernel(ctx, saved, gradient):
        *operands, lengths, mask = saved
        if mask is not None or operands[0].shape[:-2] != operands[1].shape[:-2]:
            return _Attention._run_formula(ctx, saved, gradient)
        results = torch.ops.ridge.attention_backward.default(gradient, *operands, ctx.causal, ctx.scale, lengths)
        return *results, None, None, None, None, None

    def _run_formula(ctx, saved, gradient):
        q, k, v, _, _, lengths, mask = saved
        *results, of_mask = formulas.attention_backward(gradient, q, k, v, mask, ctx.causal, _scale(q, ctx.scale), lengths)
        return *results, None, None, None, of_mask, None

    backward = backward_of(_run_kernel, _run_formula)

    @tangent_of
    def jvp(ctx, saved, of_q, of_k, of_v, *others):
        q, k, v, _, _, lengths, mask = saved
        of_mask = others[3] if len(others) > 3 else None
        return formulas.attention_tangent(q, k, v, mask, ctx.causal, _scale(q, ctx.scale), lengths, of_q, of_k, of_v, of_mask)


differentiable("attention", _Attention)
autocast("attention")


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None,
              dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
              causal: bool = False, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """Returns softmax(scale * q @ k.T) @ v: q[..., S, E], k[..., T, E], v[..., T, V] -> [..., S, V]. The arguments are those
    of ridge.attention, without pages. Gradients with attn_mask, enable_gqa or, on a device, lengths use PyTorch's
    operators."""
    if dropout_p != 0:
        raise usage_error(f"dropout_p: expected 0, because attention has no dropout, found {dropout_p!r}")
    return torch.ops.ridge.attention(q, k, v, bool(causal or is_causal), scale, lengths, attn_mask, enable_gqa)
