"""How an operator of torch.ops.ridge is made: a schema, what computes it, its fake tensors, its derivative, and what
autocast makes of its operands. torch.library's custom_op does the same and takes some 17 us more of the host's time."""
import torch

LIBRARY = torch.library.Library("ridge", "FRAGMENT")
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}


def operator(schema, compute, fake):
    """Computed where its tensors lie, on a CPU or a CUDA device."""
    name = schema[:schema.index("(")]
    LIBRARY.define(schema)
    for key in _DEVICES:
        LIBRARY.impl(name, compute, key)
    torch.library.register_fake(f"ridge::{name}", fake, lib=LIBRARY)


def differentiable(name, function):
    """Calls that want a gradient go through an autograd.Function, whose forward calls what is not recorded: below()."""
    def record(*inputs):
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs):
            return function.apply(*inputs)
        return below(getattr(torch.ops.ridge, name).default, *inputs)

    LIBRARY.impl(name, record, "Autograd")


class _First(torch.autograd.Function):
    """Gradients as they are, connected to what they were made of, so that a derivative of them is an error and no zero."""

    @staticmethod
    def forward(ctx, count, *tensors):
        return tuple(each.view_as(each) for each in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("expected one derivative of an operator of torch.ops.ridge, found a derivative of its gradient: "
                           "only matmul has second ones")


def first_derivative(backward):
    """backward(ctx, saved, gradient) as a Function's, with what forward saved, which is read once."""
    @staticmethod
    def run(ctx, gradient):
        saved = ctx.saved_tensors
        with torch.no_grad():
            made = backward(ctx, saved, gradient)
        sources = [each for each in (gradient, *saved) if each is not None and each.requires_grad]
        if not torch.is_grad_enabled() or not sources:
            return made
        there = [each for each in made if isinstance(each, torch.Tensor)]
        kept = iter(_First.apply(len(there), *there, *sources))
        return tuple(next(kept) if isinstance(each, torch.Tensor) else each for each in made)
    return run


def below(operation, *inputs):
    """The operation with nothing recorded."""
    with torch._C._AutoDispatchBelowAutograd():
        return operation(*inputs)


def autocast(name, dtype=None):
    """Under torch.autocast, floats of 16 and 32 bits come in that dtype; none: in the one that autocast was told."""
    for key, device in _DEVICES.items():
        excluded = torch._C.DispatchKeySet(torch._C.DispatchKey.__members__[f"Autocast{key}"])

        def cast(*inputs, device=device, excluded=excluded):
            to = dtype or torch.get_autocast_dtype(device)
            with torch._C._ExcludeDispatchKeyGuard(excluded):
                return getattr(torch.ops.ridge, name).default(*(_in_dtype(each, to, device) for each in inputs))

        LIBRARY.impl(name, cast, f"Autocast{key}")


def _in_dtype(value, dtype, device):
    is_cast = isinstance(value, torch.Tensor) and value.device.type == device and value.is_floating_point()
    return value.to(dtype) if is_cast and value.dtype != torch.float64 else value


_SPELLING = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def spelling(tensor):
    if tensor.dtype not in _SPELLING:
        raise ValueError(f"expected float32, bfloat16 or float16, found {tensor.dtype}")
    return _SPELLING[tensor.dtype]
