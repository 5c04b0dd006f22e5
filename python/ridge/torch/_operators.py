"""torch.ops.ridge: the forward pass uses ridge.run; the backward pass runs separate programs, which recompute
intermediates, so that the forward pass saves only its operands."""
import pathlib

import torch

import ridge
from ridge import _ridge
from ridge.torch._attention import attention  # noqa: F401  re-exported
from ridge.torch._define import LIBRARY, autocast, below, differentiable, first_derivative, operator, spelling

_LIBRARY = pathlib.Path(__file__).with_name("_ops.so")


def _product_shape(a, b):
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "expected matrices of at least two axes")
    longer = a if a.dim() > 2 else b
    return [*longer.shape[:-2], a.shape[-2], b.shape[-1]]


def _fake_matmul(a, b):
    return a.new_empty(_product_shape(a, b))


if _LIBRARY.exists():
    torch.ops.load_library(str(_LIBRARY))
    _RECORDED, _UNRECORDED = "matmul_recorded", "matmul_unrecorded"
    torch.library.register_fake(f"ridge::{_UNRECORDED}", _fake_matmul, lib=LIBRARY)
else:
    _RECORDED = _UNRECORDED = "matmul"
    operator("matmul(Tensor a, Tensor b) -> Tensor", lambda a, b: ridge.matmul(a, b), _fake_matmul)


def matmul(a, b):
    """Returns a[..., m, k] @ b[..., k, n]; leading axes are the same in both, or one has none."""
    return torch.ops.ridge.matmul(a, b)


def _summed_to(gradient, like):
    """Sums the gradient over leading axes that an operand does not have."""
    return gradient if gradient.dim() == like.dim() else gradient.sum(dim=tuple(range(gradient.dim() - like.dim())))


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return below(getattr(torch.ops.ridge, _UNRECORDED).default, a, b)

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = matmul(gradient, b.transpose(-1, -2))
            if a.dim() == 2 and b.dim() > 2:
                of_a = _summed_to(of_a, a)
        if ctx.needs_input_grad[1]:
            if b.dim() == 2 and a.dim() > 2:
                of_b = matmul(a.reshape(-1, a.shape[-1]).transpose(0, 1), gradient.reshape(-1, gradient.shape[-1]))
            else:
                of_b = matmul(a.transpose(-1, -2), gradient)
        return of_a, of_b


differentiable(_RECORDED, _Matmul)
autocast("matmul")


# The gated layer. On a device, a 16-bit layer stores h = x @ w.T + b if enough memory is free, which makes its backward pass
# faster. Otherwise it saves only its operands, and the backward pass recomputes the products.
def _geglu(x, w, b=None):
    return ridge.geglu(x, w, b)


def _fake_geglu(x, w, b=None):
    torch._check(w.shape[0] % 2 == 0, lambda: "expected w to have an even number of rows: up and gate")
    return x.new_empty([*x.shape[:-1], w.shape[0] // 2])


operator("geglu(Tensor x, Tensor w, Tensor? b=None) -> Tensor", _geglu, _fake_geglu)
operator("geglu_keeping(Tensor x, Tensor w, Tensor? b=None) -> (Tensor, Tensor)",
         lambda x, w, b=None: _ridge.geglu_forward(x, w, b, True),
         lambda x, w, b=None: (_fake_geglu(x, w, b), x.new_empty([x.numel() // x.shape[-1], w.shape[0]])))

_SMALL = 64 << 20  # Bytes; smaller h are stored without querying the free memory, because the query is slow on the host


def _has_kernels(x):
    """True if there are training kernels for this gated layer."""
    return x.is_cuda and x.dtype in (torch.bfloat16, torch.float16) and x.numel() > 0


_FREE = {}  # By device: bytes that the allocator had reserved at the last query, and free bytes returned by the driver


def _free_bytes(device):
    """Returns the free bytes of a device. Queries the driver, which is slow, only after the allocator has reserved or released
    memory, and never during a graph capture."""
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    reserved, allocated = (stats[f"{kind}_bytes"]["all"]["current"] for kind in ("reserved", "allocated"))
    if _FREE.get(device, (None,))[0] != reserved and not torch.cuda.is_current_stream_capturing():
        _FREE[device] = reserved, torch.cuda.mem_get_info(device)[0]
    return sum(_FREE.get(device, (reserved, 0))) - allocated


def _keeps_h(x, w):
    """True if h and its gradient fit into a quarter of the free memory."""
    if not _has_kernels(x):
        return False
    needed = 2 * (x.numel() // x.shape[-1]) * w.shape[0] * x.element_size()
    return needed <= _SMALL or needed <= _free_bytes(x.device) // 4


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

def _geglu_backward(gradient, x, w, b=None, h=None):
    if _has_kernels(x):
        of_x, of_w, of_b = _ridge.geglu_backward(gradient, x, w, b, h)
        return of_x, of_w, w.new_empty([0]) if b is None else of_b
    half = w.shape[0] // 2
    of_w = torch.empty_like(w, memory_format=torch.contiguous_format)
    of_b = w.new_empty([w.shape[0] if b is not None else 0])
    rows = {"x": x.reshape(-1, x.shape[-1]), "r": gradient.reshape(-1, half), "w": w}
    out = {"dup": of_w[:half], "dgate": of_w[half:]}
    t = spelling(x)
    program = _GEGLU_BACKWARD.format(t=t, bias="", z="g + 0", u="u")
    if b is not None:
        rows["b"] = b
        bias = f"b: {t}[2*F]\nbu[F] = b[0:F]\nbg[F] = b[F:2*F]\n"
        program = _GEGLU_BACKWARD.format(t=t, bias=bias, z="g + bg", u="(u + bu)")
        program += f"dbu: {t}[F] = sum(du over N)\ndbg: {t}[F] = sum(dg over N)\n"
        out |= {"dbu": of_b[:half], "dbg": of_b[half:]}
    found = ridge.run(program, wanted=["dx", *out], out=out, **rows)
    return found["dx"].reshape(x.shape), of_w, of_b


def _fake_geglu_backward(gradient, x, w, b=None, h=None):
    return (torch.empty_like(x, memory_format=torch.contiguous_format),
            torch.empty_like(w, memory_format=torch.contiguous_format),
            w.new_empty([w.shape[0] if b is not None else 0]))


operator("geglu_backward(Tensor gradient, Tensor x, Tensor w, Tensor? b=None, Tensor? h=None) -> (Tensor, Tensor, Tensor)",
         _geglu_backward, _fake_geglu_backward)


class _Geglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b=None):
        if _keeps_h(x, w):
            y, h = below(torch.ops.ridge.geglu_keeping.default, x, w, b)
        else:
            y, h = below(torch.ops.ridge.geglu.default, x, w, b), None
        ctx.save_for_backward(x, w, b, h)
        return y

    @first_derivative
    def backward(ctx, saved, gradient):
        of_x, of_w, of_b = torch.ops.ridge.geglu_backward.default(gradient, *saved)
        return of_x, of_w, None if saved[2] is None else of_b


differentiable("geglu", _Geglu)
autocast("geglu")


def geglu(x, w, b=None):
    """Returns u * gelu(g), where u and g are the halves of x @ w.T + b: x[..., D], w[2*F, D], b[2*F] -> [..., F]."""
    return torch.ops.ridge.geglu(x, w, b)


def _alike(x, *others):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


operator("softmax(Tensor x, int axis=-1) -> Tensor", lambda x, axis=-1: ridge.softmax(x, axis), _alike)


def _softmax_backward(gradient, y, axis):
    letters = "ABCDEFGHIJKLMN"[:y.dim()]
    axes, over, t = ", ".join(letters), letters[axis], spelling(y)
    kept = ", ".join(letter for letter in letters if letter != over) or "1"
    program = (f"y: {t}[{axes}]   r: {t}[{axes}]\nm: f32[{kept}] = sum(y * r over {over})\n"
               f"dx: {t}[{axes}] = y * (r - m)")
    return ridge.run(program, y=y, r=gradient, wanted="dx")


operator("softmax_backward(Tensor gradient, Tensor y, int axis) -> Tensor", _softmax_backward, _alike)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, axis=-1):
        y = below(torch.ops.ridge.softmax.default, x, axis)
        ctx.save_for_backward(y)
        ctx.axis = axis
        return y

    @first_derivative
    def backward(ctx, saved, gradient):
        return torch.ops.ridge.softmax_backward.default(gradient, *saved, ctx.axis), None


differentiable("softmax", _Softmax)
autocast("softmax", torch.float32)


def softmax(x, axis=-1):
    """Returns exp(x) divided by its sum along an axis."""
    return torch.ops.ridge.softmax(x, axis)


operator("rmsnorm(Tensor x, Tensor? weight=None, float eps=1e-05) -> Tensor",
         lambda x, weight=None, eps=1e-5: ridge.rmsnorm(x, weight, eps=eps), _alike)


def _rmsnorm_backward(gradient, x, weight, eps):
    t, width = spelling(x), x.shape[-1]
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
    found = ridge.run(program, wanted=wanted, **rows)
    if weight is None:
        return found.reshape(x.shape), x.new_empty([0])
    return found["dx"].reshape(x.shape), found["dw"]


operator("rmsnorm_backward(Tensor gradient, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)", _rmsnorm_backward,
         lambda gradient, x, weight, eps: (_alike(x), x.new_empty([x.shape[-1] if weight is not None else 0])))


class _Rmsnorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight=None, eps=1e-5):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return below(torch.ops.ridge.rmsnorm.default, x, weight, eps)

    @first_derivative
    def backward(ctx, saved, gradient):
        of_x, of_weight = torch.ops.ridge.rmsnorm_backward.default(gradient, *saved, ctx.eps)
        return of_x, None if saved[1] is None else of_weight, None


differentiable("rmsnorm", _Rmsnorm)
autocast("rmsnorm", torch.float32)


def rmsnorm(x, weight=None, eps=1e-5):
    """Returns x / sqrt(mean(x * x) + eps) along the last axis, times weight."""
    return torch.ops.ridge.rmsnorm(x, weight, eps)
