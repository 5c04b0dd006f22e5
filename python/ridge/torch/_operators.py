"""torch.ops.ridge: forward through ridge.run, backward as programs of their own, in which nothing is stored that the
forward pass would have to keep but its operands."""
import pathlib
from typing import Optional

import torch

import ridge
from ridge._compute import is_one_kernel

_DEVICES = ("cpu", "cuda")
_LIBRARY = pathlib.Path(__file__).with_name("_ops.so")


def _product_shape(a, b):
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "expected matrices of at least two axes")
    longer = a if a.dim() > 2 else b
    return [*longer.shape[:-2], a.shape[-2], b.shape[-1]]


def _fake_matmul(a, b):
    return a.new_empty(_product_shape(a, b))


if _LIBRARY.exists():
    torch.ops.load_library(str(_LIBRARY))
    _RECORDED = "ridge::matmul_recorded"
    for _name in (_RECORDED, "ridge::matmul_unrecorded"):
        torch.library.register_fake(_name, _fake_matmul)
else:
    _RECORDED = "ridge::matmul"

    @torch.library.custom_op(_RECORDED, mutates_args=(), device_types=_DEVICES)
    def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ridge.matmul(a.detach(), b.detach())

    _matmul.register_fake(_fake_matmul)


def matmul(a, b):
    """a[..., m, k] @ b[..., k, n]; leading axes are the same in both, or one has none."""
    return torch.ops.ridge.matmul(a, b)


def _summed_to(gradient, like):
    """The sum over leading axes that an operand did not have."""
    return gradient if gradient.dim() == like.dim() else gradient.sum(dim=tuple(range(gradient.dim() - like.dim())))


def _matmul_backward(ctx, gradient):
    a, b = ctx.saved_tensors
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        if a.dim() == 2 and b.dim() > 2:
            of_a = _summed_to(matmul(gradient, b.transpose(-1, -2)), a)
        else:
            of_a = matmul(gradient, b.transpose(-1, -2))
    if ctx.needs_input_grad[1]:
        if b.dim() == 2 and a.dim() > 2:
            of_b = matmul(a.reshape(-1, a.shape[-1]).transpose(0, 1), gradient.reshape(-1, gradient.shape[-1]))
        else:
            of_b = matmul(a.transpose(-1, -2), gradient)
    return of_a, of_b


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


torch.library.register_autograd(_RECORDED, _matmul_backward, setup_context=_keep_inputs)


# The gated layer. Its backward pass makes both products again, [N, 2*F] in all, in the operands' dtype; nothing of that
# size lives between the passes.
@torch.library.custom_op("ridge::geglu", mutates_args=(), device_types=_DEVICES)
def _geglu(x: torch.Tensor, w: torch.Tensor, b: Optional[torch.Tensor] = None) -> torch.Tensor:
    return ridge.geglu(x.detach(), w.detach(), None if b is None else b.detach())


@_geglu.register_fake
def _(x, w, b=None):
    torch._check(w.shape[0] % 2 == 0, lambda: "expected w to have an even number of rows: up and gate")
    return x.new_empty([*x.shape[:-1], w.shape[0] // 2])


_GEGLU_BACKWARD = """x: {t}[N, D]   w: {t}[2*F, D]   r: {t}[N, F]
up[F, D] = w[0:F]
gate[F, D] = w[F:2*F]
{bias}u: f32[N, F] = x * up
g: f32[N, F] = x * gate
z: f32[N, F] = {z}
du: {t}[N, F] = r * gelu(z)
dg: {t}[N, F] = r * {u} * (where(abs(z) > 1e-30, gelu(z) / z, 0.5) + z * 0.3989422804014327 * exp(-0.5 * z * z))
dup: {t}[F, D] = du * x
dgate: {t}[F, D] = dg * x
p: f32[N, D] = du * up
q: f32[N, D] = dg * gate
dx: {t}[N, D] = p + q
"""
_SPELLING = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def _spelling(tensor):
    if tensor.dtype not in _SPELLING:
        raise ValueError(f"expected float32, bfloat16 or float16, found {tensor.dtype}")
    return _SPELLING[tensor.dtype]


@torch.library.custom_op("ridge::geglu_backward", mutates_args=(), device_types=_DEVICES)
def _geglu_backward(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor,
                    b: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    half = w.shape[0] // 2
    of_w = torch.empty_like(w, memory_format=torch.contiguous_format)
    of_b = w.new_empty([w.shape[0] if b is not None else 0])
    rows = {"x": x.reshape(-1, x.shape[-1]), "r": gradient.reshape(-1, half), "w": w}
    out = {"dup": of_w[:half], "dgate": of_w[half:]}
    t = _spelling(x)
    program = _GEGLU_BACKWARD.format(t=t, bias="", z="g + 0", u="u")
    if b is not None:
        rows["b"] = b
        bias = f"b: {t}[2*F]\nbu[F] = b[0:F]\nbg[F] = b[F:2*F]\n"
        program = _GEGLU_BACKWARD.format(t=t, bias=bias, z="g + bg", u="(u + bu)")
        program += f"dbu: {t}[F] = sum(du over N)\ndbg: {t}[F] = sum(dg over N)\n"
        out |= {"dbu": of_b[:half], "dbg": of_b[half:]}
    found = ridge.run(program, wanted=["dx", *out], out=out, **{name: t.detach() for name, t in rows.items()})
    return found["dx"].reshape(x.shape), of_w, of_b


@_geglu_backward.register_fake
def _(gradient, x, w, b=None):
    return (torch.empty_like(x, memory_format=torch.contiguous_format),
            torch.empty_like(w, memory_format=torch.contiguous_format),
            w.new_empty([w.shape[0] if b is not None else 0]))


def _geglu_derivative(ctx, gradient):
    x, w, b = ctx.saved_tensors if ctx.has_bias else (*ctx.saved_tensors, None)
    of_x, of_w, of_b = torch.ops.ridge.geglu_backward(gradient, x, w, b)
    return of_x, of_w, of_b if ctx.has_bias else None


def _geglu_context(ctx, inputs, output):
    x, w, b = inputs
    ctx.has_bias = b is not None
    ctx.save_for_backward(*((x, w, b) if ctx.has_bias else (x, w)))


_geglu.register_autograd(_geglu_derivative, setup_context=_geglu_context)


def geglu(x, w, b=None):
    """u * gelu(g), the halves of x @ w.T + b: x[..., D], w[2*F, D], b[2*F] -> [..., F]."""
    return torch.ops.ridge.geglu(x, w, b)


# Attention. Its backward pass makes the scores again.
@torch.library.custom_op("ridge::attention", mutates_args=(), device_types=_DEVICES)
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
               scale: Optional[float] = None) -> torch.Tensor:
    return ridge.attention(q.detach(), k.detach(), v.detach(), causal=causal, scale=scale)


@_attention.register_fake
def _(q, k, v, causal=False, scale=None):
    return q.new_empty([*q.shape[:-1], v.shape[-1]])


# One kernel for 16 bits where values are as wide as keys; else each statement by itself, rounded as torch rounds it.
_ATTENTION_BACKWARD = """q: {t}[{l}S, X]   k: {t}[{l}T, X]   v: {t}[{l}T, X]   r: {t}[{l}S, X]
s[{l}S, T] = q * k
p[{l}S, T] = softmax({score} over T)
dv: {t}[{l}T, X] = p * r
dp[{l}S, T] = r * v
e[{l}S] = sum(p * dp over T)
ds[{l}S, T] = p * (dp - e) * {scale}
dq: {t}[{l}S, X] = ds * k
dk: {t}[{l}T, X] = ds * q
"""
_ATTENTION_BACKWARD_APART = """q: {t}[{l}S, X]   k: {t}[{l}T, X]   v: {t}[{l}T, Y]   r: {t}[{l}S, Y]
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


@torch.library.custom_op("ridge::attention_backward", mutates_args=(), device_types=_DEVICES)
def _attention_backward(gradient: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool,
                        scale: Optional[float]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lead = "".join(f"{letter}, " for letter in "ABCDEFGH"[:q.dim() - 2])
    factor = repr(float(scale if scale is not None else q.shape[-1] ** -0.5))
    score = f"s * {factor}"
    if causal:
        score = f"where(index(T) <= index(S), {score}, -inf)"
    text = _ATTENTION_BACKWARD if is_one_kernel(q, v) else _ATTENTION_BACKWARD_APART
    program = text.format(t=_spelling(q), l=lead, score=score, scale=factor)
    found = ridge.run(program, q=q.detach(), k=k.detach(), v=v.detach(), r=gradient.detach(), wanted=["dq", "dk", "dv"])
    return found["dq"], found["dk"], found["dv"]


@_attention_backward.register_fake
def _(gradient, q, k, v, causal, scale):
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (q, k, v))


def _attention_derivative(ctx, gradient):
    of_q, of_k, of_v = torch.ops.ridge.attention_backward(gradient, *ctx.saved_tensors, ctx.causal, ctx.scale)
    return of_q, of_k, of_v, None, None


def _attention_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3])
    ctx.causal, ctx.scale = inputs[3:]


_attention.register_autograd(_attention_derivative, setup_context=_attention_context)


def attention(q, k, v, causal=False, scale=None):
    """softmax(scale * q @ k.T) @ v: q[..., S, E], k[..., T, E], v[..., T, V] -> [..., S, V]."""
    return torch.ops.ridge.attention(q, k, v, causal, scale)


@torch.library.custom_op("ridge::softmax", mutates_args=(), device_types=_DEVICES)
def _softmax(x: torch.Tensor, axis: int = -1) -> torch.Tensor:
    return ridge.softmax(x.detach(), axis)


@_softmax.register_fake
def _(x, axis=-1):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("ridge::softmax_backward", mutates_args=(), device_types=_DEVICES)
def _softmax_backward(gradient: torch.Tensor, y: torch.Tensor, axis: int) -> torch.Tensor:
    letters = "ABCDEFGHIJKLMN"[:y.dim()]
    axes, over, t = ", ".join(letters), letters[axis], _spelling(y)
    kept = ", ".join(letter for letter in letters if letter != over) or "1"
    program = (f"y: {t}[{axes}]   r: {t}[{axes}]\nm: f32[{kept}] = sum(y * r over {over})\n"
               f"dx: {t}[{axes}] = y * (r - m)")
    return ridge.run(program, y=y.detach(), r=gradient.detach(), wanted="dx")


@_softmax_backward.register_fake
def _(gradient, y, axis):
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _softmax_derivative(ctx, gradient):
    return torch.ops.ridge.softmax_backward(gradient, *ctx.saved_tensors, ctx.axis), None


def _softmax_context(ctx, inputs, output):
    ctx.save_for_backward(output)
    ctx.axis = inputs[1]


_softmax.register_autograd(_softmax_derivative, setup_context=_softmax_context)


def softmax(x, axis=-1):
    """exp(x) over its sum along an axis."""
    return torch.ops.ridge.softmax(x, axis)


@torch.library.custom_op("ridge::rmsnorm", mutates_args=(), device_types=_DEVICES)
def _rmsnorm(x: torch.Tensor, weight: Optional[torch.Tensor] = None, eps: float = 1e-5) -> torch.Tensor:
    return ridge.rmsnorm(x.detach(), None if weight is None else weight.detach(), eps=eps)


@_rmsnorm.register_fake
def _(x, weight=None, eps=1e-5):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("ridge::rmsnorm_backward", mutates_args=(), device_types=_DEVICES)
def _rmsnorm_backward(gradient: torch.Tensor, x: torch.Tensor, weight: Optional[torch.Tensor],
                      eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    t, width = _spelling(x), x.shape[-1]
    rows = {"x": x.reshape(-1, width), "r": gradient.reshape(-1, width)}
    program = (f"x: {t}[N, W]   r: {t}[N, W]{{w}}\nc: f32[N] = mean(x * x over W)\n"
               f"m: f32[N] = mean({{g}} * x over W)\n"
               f"dx: {t}[N, W] = rsqrt(c + {eps!r}) * ({{g}} - x * m / (c + {eps!r}))\n")
    wanted = ["dx"]
    if weight is None:
        program = program.format(w="", g="r")
    else:
        rows["w"] = weight
        program = program.format(w=f"   w: {t}[W]", g="(r * w)")
        program += f"h: f32[N, W] = r * x * rsqrt(c + {eps!r})\ndw: {t}[W] = sum(h over N)\n"
        wanted.append("dw")
    found = ridge.run(program, wanted=wanted, **{name: tensor.detach() for name, tensor in rows.items()})
    if weight is None:
        return found.reshape(x.shape), x.new_empty([0])
    return found["dx"].reshape(x.shape), found["dw"]


@_rmsnorm_backward.register_fake
def _(gradient, x, weight, eps):
    return (torch.empty_like(x, memory_format=torch.contiguous_format),
            x.new_empty([x.shape[-1] if weight is not None else 0]))


def _rmsnorm_derivative(ctx, gradient):
    x, weight = ctx.saved_tensors if ctx.has_weight else (*ctx.saved_tensors, None)
    of_x, of_weight = torch.ops.ridge.rmsnorm_backward(gradient, x, weight, ctx.eps)
    return of_x, of_weight if ctx.has_weight else None, None


def _rmsnorm_context(ctx, inputs, output):
    x, weight, ctx.eps = inputs
    ctx.has_weight = weight is not None
    ctx.save_for_backward(*((x, weight) if ctx.has_weight else (x,)))


_rmsnorm.register_autograd(_rmsnorm_derivative, setup_context=_rmsnorm_context)


def rmsnorm(x, weight=None, eps=1e-5):
    """x / sqrt(mean(x * x) + eps) along the last axis, times weight."""
    return torch.ops.ridge.rmsnorm(x, weight, eps)
