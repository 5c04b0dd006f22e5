"""Defines operators of torch.ops.ridge: schema, implementation, fake tensors, derivatives and autocast. torch.library's
custom_op does the same, but takes about 17 us more host time for each call."""
import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

LIBRARY = torch.library.Library("ridge", "FRAGMENT")
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}

# A Function that the dispatcher calls once for each level of torch.func, which torch.autograd.Function refuses. The operators
# are recorded below the dispatcher, where PyTorch's own operators are, so the levels need no further rule.
Function = torch.autograd.function._SingleLevelFunction


def operator(schema, compute, fake):
    """Defines an operator that runs on the device of its tensors, a CPU or a CUDA device."""
    name = schema[:schema.index("(")]
    LIBRARY.define(schema)
    for key in _DEVICES:
        LIBRARY.impl(name, compute, key)
    torch.library.register_fake(f"ridge::{name}", fake, lib=LIBRARY)


def differentiable(name, function):
    """Records calls that require a gradient or have a tangent with a Function, whose forward calls the operator through
    below()."""
    operation = getattr(torch.ops.ridge, name).default

    def record(*inputs):
        if not is_recorded(*inputs):
            return below(operation, *inputs)
        if not torch._C._are_functorch_transforms_active():
            return function.apply(*inputs)
        with enable_single_level_autograd_function():
            return function.apply(*inputs)

    LIBRARY.impl(name, record, "Autograd")


def is_recorded(*inputs):
    """True if a result has derivatives: an input requires a gradient, or may have a tangent."""
    return torch.is_grad_enabled() and torch._C._any_requires_grad(*inputs) or forward_ad._current_level >= 0


def backward_of(kernel, formula):
    """Returns the backward of a Function. It calls kernel(ctx, saved, gradient); `saved` are the tensors that forward saved.
    If the gradients themselves have derivatives, it calls formula(ctx, saved, gradient), which PyTorch can differentiate."""
    @staticmethod
    def run(ctx, gradient):
        saved = ctx.saved_tensors
        if is_recorded(gradient, *saved):
            return formula(ctx, saved, gradient)
        with torch.no_grad():
            return kernel(ctx, saved, gradient)
    return run


def tangent_of(rule):
    """Returns the jvp of a Function, which calls rule(ctx, saved, *tangents); `saved` are the tensors that forward saved.
    PyTorch turns forward mode off around it, also for the other levels of torch.func, which need it; at this level the saved
    tensors must then not have tangents."""
    @staticmethod
    def run(ctx, *tangents):
        if not torch._C._are_functorch_transforms_active():
            return rule(ctx, ctx.saved_tensors, *tangents)
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            saved = [None if each is None else forward_ad.unpack_dual(each).primal for each in ctx.saved_tensors]
            return rule(ctx, saved, *tangents)
    return run


def save(ctx, *tensors):
    """Saves tensors for the backward pass and for tangents."""
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def below(operation, *inputs):
    """Calls an operation without recording it for autograd. The levels of torch.func below record it if they need to."""
    if not torch._C._are_functorch_transforms_active():
        with torch._C._AutoDispatchBelowAutograd():
            return operation(*inputs)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True), torch._C._AutoDispatchBelowAutograd():
        return operation(*inputs)


def autocast(name, dtype=None):
    """Under torch.autocast, casts 16-bit and 32-bit floats to `dtype` (default: autocast's dtype)."""
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
