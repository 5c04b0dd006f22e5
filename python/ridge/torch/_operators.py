"""torch.ops.ridge: the forward pass uses ridge.run; the backward pass runs separate programs, which recompute
intermediates, so that the forward pass saves only its operands. Higher derivatives and tangents use _formulas.py."""
import torch

import ridge
from ridge import _ridge
from ridge._arrays import dtype_of
from ridge._shapes import axis_of, check_matmul, check_rmsnorm, check_softmax, geglu_shape
from ridge.torch import _formulas as formulas
from ridge.torch._attention import attention  # noqa: F401  re-exported
from ridge.torch._define import Function, autocast, backward_of, below, differentiable, operator, save, tangent_of

def _fake_matmul(a, b):
    return a.new_empty(check_matmul(a, b), dtype=torch.int32 if a.dtype == torch.int8 else a.dtype)


operator("matmul(Tensor a, Tensor b) -> Tensor", lambda a, b: ridge.matmul(a, b), _fake_matmul)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns a[..., m, k] @ b[..., k, n]; leading axes are broadcast, and a tensor of one axis is a vector."""
    return torch.ops.ridge.matmul(a, b)


def _matrix_gradients(ctx, gradient, a, b):
    """Returns the gradients of matrices a and b with any leading axes."""
    of_a = of_b = None
    if ctx.needs_input_grad[0]:
        if a.dim() == 2 and b.dim() > 2:
            of_a = matmul(gradient.movedim(-2, 0).flatten(1), b.movedim(-2, 0).flatten(1).t())
        else:
            of_a = matmul(gradient, b.transpose(-1, -2)).sum_to_size(a.shape)
    if ctx.needs_input_grad[1]:
        if b.dim() == 2 and a.dim() > 2:
            of_b = matmul(formulas.as_rows(a).t(), formulas.as_rows(gradient))
        else:
            of_b = matmul(a.transpose(-1, -2), gradient).sum_to_size(b.shape)
    return of_a, of_b


class _Matmul(Function):
    @staticmethod
    def forward(ctx, a, b):
        save(ctx, a, b)
        return below(torch.ops.ridge.matmul.default, a, b)

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        rows = a if a.dim() > 1 else a.unsqueeze(0)
        columns = b if b.dim() > 1 else b.unsqueeze(1)
        if a.dim() == 1:
            gradient = gradient.unsqueeze(-1 if b.dim() == 1 else -2)
        if b.dim() == 1:
            gradient = gradient.unsqueeze(-1)
        of_a, of_b = _matrix_gradients(ctx, gradient, rows, columns)
        return None if of_a is None else of_a.reshape(a.shape), None if of_b is None else of_b.reshape(b.shape)

    @tangent_of
    def jvp(ctx, saved, of_a, of_b):
        a, b = saved
        parts = [matmul(x, y) for x, y in ((of_a, b), (a, of_b)) if x is not None and y is not None]
        return sum(parts[1:], start=parts[0])


differentiable("matmul", _Matmul)
autocast("matmul")


# The gated layer. On a device, a 16-bit layer stores h = x @ w.T + b if enough memory is free, which makes its backward pass
# faster. Otherwise it saves only its operands, and the backward pass recomputes the products.
def _geglu(x, w, b=None):
    return ridge.geglu(x, w, b)


def _fake_geglu(x, w, b=None):
    return x.new_empty(geglu_shape(x, w, b))


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
    if x.numel() == 0 or w.numel() == 0:
        of_x, of_w, of_b = formulas.geglu_backward(gradient, x, w, b)
        return of_x, of_w, w.new_empty([0]) if b is None else of_b
    if _has_kernels(x):
        of_x, of_w, of_b = _ridge.geglu_backward(gradient, x, w, b, h)
        return of_x, of_w, w.new_empty([0]) if b is None else of_b
    half = w.shape[0] // 2
    of_w = torch.empty_like(w, memory_format=torch.contiguous_format)
    of_b = w.new_empty([w.shape[0] if b is not None else 0])
    rows = {"x": x.reshape(-1, x.shape[-1]), "r": gradient.reshape(-1, half), "w": w}
    out = {"dup": of_w[:half], "dgate": of_w[half:]}
    t = dtype_of(x)
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


class _Geglu(Function):
    @staticmethod
    def forward(ctx, x, w, b=None):
        if _keeps_h(x, w):
            y, h = below(torch.ops.ridge.geglu_keeping.default, x, w, b)
        else:
            y, h = below(torch.ops.ridge.geglu.default, x, w, b), None
        save(ctx, x, w, b, h)
        return y

    def _run_kernel(ctx, saved, gradient):
        of_x, of_w, of_b = torch.ops.ridge.geglu_backward.default(gradient, *saved)
        return of_x, of_w, None if saved[2] is None else of_b

    backward = backward_of(_run_kernel, lambda ctx, saved, gradient: formulas.geglu_backward(gradient, *saved[:3]))

    @tangent_of
    def jvp(ctx, saved, of_x, of_w, of_b=None):
        return formulas.geglu_tangent(*saved[:3], of_x, of_w, of_b)


differentiable("geglu", _Geglu)
autocast("geglu")


def geglu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
    """Returns u * gelu(g), where u and g are the halves of x @ w.T + b: x[..., D], w[2*F, D], b[2*F] -> [..., F]."""
    return torch.ops.ridge.geglu(x, w, b)


def _alike(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_softmax(x, axis=-1):
    axis_of(check_softmax(x), axis)
    return _alike(x)


operator("softmax(Tensor x, int axis=-1) -> Tensor", lambda x, axis=-1: ridge.softmax(x, axis), _fake_softmax)


def _softmax_backward(gradient, y, axis):
    if y.numel() == 0:
        return _alike(y)
    letters = "ABCDEFGHIJKLMN"[:y.dim()]
    axes, over, t = ", ".join(letters), letters[axis], dtype_of(y)
    kept = ", ".join(letter for letter in letters if letter != over) or "1"
    program = (f"y: {t}[{axes}]   r: {t}[{axes}]\nm: f32[{kept}] = sum(y * r over {over})\n"
               f"dx: {t}[{axes}] = y * (r - m)")
    return ridge.run(program, y=y, r=gradient, wanted="dx")


operator("softmax_backward(Tensor gradient, Tensor y, int axis) -> Tensor", _softmax_backward,
         lambda gradient, y, axis: _alike(y))


class _Softmax(Function):
    @staticmethod
    def forward(ctx, x, axis=-1):
        y = below(torch.ops.ridge.softmax.default, x, axis)
        save(ctx, y)
        ctx.axis = axis
        return y

    def _run_kernel(ctx, saved, gradient):
        return torch.ops.ridge.softmax_backward.default(gradient, *saved, ctx.axis), None

    def _run_formula(ctx, saved, gradient):
        return formulas.multiply_softmax_jacobian(*saved, gradient, ctx.axis), None

    backward = backward_of(_run_kernel, _run_formula)

    @tangent_of
    def jvp(ctx, saved, of_x, _=None):
        return formulas.multiply_softmax_jacobian(*saved, of_x, ctx.axis)


differentiable("softmax", _Softmax)
autocast("softmax", torch.float32)


def softmax(x: torch.Tensor, axis: int = -1, *, dim: int | None = None) -> torch.Tensor:
    """Returns exp(x) divided by its sum along an axis. `dim` is PyTorch's name for `axis`."""
    return torch.ops.ridge.softmax(x, axis_of(x.dim(), axis, dim))


def _fake_rmsnorm(x, weight=None, eps=1e-5):
    check_rmsnorm(x, weight, eps)
    return _alike(x)


operator("rmsnorm(Tensor x, Tensor? weight=None, float eps=1e-05) -> Tensor",
         lambda x, weight=None, eps=1e-5: ridge.rmsnorm(x, weight, eps=eps), _fake_rmsnorm)


def _rmsnorm_backward(gradient, x, weight, eps):
    if x.numel() == 0:
        of_x, of_weight = formulas.rmsnorm_backward(gradient, x, weight, eps)
        return of_x, x.new_empty([0]) if weight is None else of_weight
    t, width = dtype_of(x), x.shape[-1]
    rows = {"x": x.reshape(-1, width), "r": gradient.reshape(-1, width)}
    program = (f"x: {t}[N, W]   r: {t}[N, W]{{w}}\nc: f32[N] = mean(x * x over W)\n"
               f"m: f32[N] = mean({{g}} * x over W)\n"
               f"dx: {t}[N, W] = rsqrt(c + {eps!r}) * ({{g}} - x * m / (c + {eps!r}))\n")
    wanted = ["dx"]
    if weight is None:
        program = program.format(w="", g="r")
    else:
        rows["w"] = weight
        program = program.format(w=f"   w: {dtype_of(weight)}[W]", g="(r * w)")
        program += f"h: f32[N, W] = r * x * rsqrt(c + {eps!r})\ndw: {dtype_of(weight)}[W] = sum(h over N)\n"
        wanted.append("dw")
    found = ridge.run(program, wanted=wanted, **rows)
    if weight is None:
        return found.reshape(x.shape), x.new_empty([0])
    return found["dx"].reshape(x.shape), found["dw"]


operator("rmsnorm_backward(Tensor gradient, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)", _rmsnorm_backward,
         lambda gradient, x, weight, eps: (_alike(x), x.new_empty([0]) if weight is None else _alike(weight)))


class _Rmsnorm(Function):
    @staticmethod
    def forward(ctx, x, weight=None, eps=1e-5):
        save(ctx, x, weight)
        ctx.eps = eps
        return below(torch.ops.ridge.rmsnorm.default, x, weight, eps)

    def _run_kernel(ctx, saved, gradient):
        of_x, of_weight = torch.ops.ridge.rmsnorm_backward.default(gradient, *saved, ctx.eps)
        return of_x, None if saved[1] is None else of_weight, None

    def _run_formula(ctx, saved, gradient):
        return *formulas.rmsnorm_backward(gradient, *saved, ctx.eps), None

    backward = backward_of(_run_kernel, _run_formula)

    @tangent_of
    def jvp(ctx, saved, of_x, of_weight=None, _=None):
        return formulas.rmsnorm_tangent(*saved, ctx.eps, of_x, of_weight)


differentiable("rmsnorm", _Rmsnorm)
autocast("rmsnorm", torch.float32)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-5) -> torch.Tensor:
    """Returns x / sqrt(mean(x * x) + eps) along the last axis, times weight."""
    return torch.ops.ridge.rmsnorm(x, weight, eps)
