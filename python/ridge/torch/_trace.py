"""Roofline analysis of every operation of a PyTorch model."""
import collections.abc
import contextlib
import os
import sys
import traceback

import torch
from torch._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode,
                                           UnsupportedOperatorException)
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_flatten
from torch.utils.module_tracker import ModuleTracker

import ridge
from ridge._error import Error, usage_error
from ridge.torch._bytes import distinct_bytes
from ridge.torch._copy import FakeCopier
from ridge.torch._groups import LayerNames
from ridge.torch._leaks import release_stored
from ridge.torch._record import AttentionInterceptor, Recorder
from ridge.torch._report import Trace, TracedMemory, TracedReport, TracedReports
from ridge.torch._timing import Machine

_LIBRARIES = tuple(os.path.dirname(package.__file__) for package in (torch, ridge))  # Folders whose lines an error does not name
_NUMPY_ERRORS = ("numpy() is not supported", "Cannot access data pointer", "Can't call numpy()", "tolist() is not supported")


def explain(model, inputs=(), kwargs=None, *, on="cpu", training=False, optimizer=None, loss=None):
    """Calls a model on fake tensors and computes the roofline bound of each operation that reaches the dispatcher.

    model      a torch.nn.Module or a function of tensors. Nothing is computed, and neither the model nor anything it refers to
               is changed: a copy with fake tensors is called. Weights may be on torch.device("meta")
    inputs     the arguments: a tensor, a tuple or list, or a mapping of keyword arguments such as a tokenizer's output
    kwargs     further keyword arguments
    on         a machine of ridge.machines(), a .toml file, "cpu", or a list of these
    training   if true, trace forward, backward and the optimizer's step
    optimizer  a torch.optim.Optimizer over the model's parameters, or a function of parameters that returns one
    loss       function of the model's result; default: its `loss`, or the sum of its tensors

    Returns a TracedReport, or TracedReports for a list of machines. Views cost nothing. Attention is one operation on every
    device. An unknown operation is listed with its bytes. `time_lower` is the sum of the operations' bounds, `time_fused` a
    bound for any fusion, and `time_with_launches` counts at least a launch for each operation. A function is called with gradients as they are enabled now, so it may call backward().
    Raises ridge.Error where the model reads a value that is not computed.
    """
    machines = [Machine(name) for name in ([on] if not isinstance(on, (list, tuple)) else on)]
    if not machines:
        raise usage_error("expected at least one machine, such as 'h200', found an empty list")
    if not callable(model):
        raise usage_error(f"expected a model or a function of tensors, found {type(model).__name__}")
    if (optimizer is not None or loss is not None) and not training:
        raise usage_error("optimizer and loss need training=True")
    if training and not isinstance(model, torch.nn.Module):
        raise usage_error("training=True needs a torch.nn.Module; a function may call backward() and step() itself")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer) and not callable(optimizer):
        raise usage_error("optimizer: expected a torch.optim.Optimizer, or a function of parameters such as torch.optim.AdamW, "
                          f"found {optimizer!r}")
    if loss is not None and not callable(loss):
        raise usage_error(f"loss: expected a function of the model's result, found {loss!r}")
    if kwargs is not None and not isinstance(kwargs, collections.abc.Mapping):
        raise usage_error(f"kwargs: expected a mapping from names to arguments, found {kwargs!r}")
    trace, results = _trace(model, *_split_arguments(inputs, kwargs), training, optimizer, loss)
    release_stored(results)
    reports = [TracedReport(machine, trace) for machine in machines]
    return TracedReports(reports) if isinstance(on, (list, tuple)) else reports[0]


def _split_arguments(inputs, kwargs):
    """Returns positional and keyword arguments."""
    kwargs = dict(kwargs or {})
    if isinstance(inputs, collections.abc.Mapping):
        return (), {**inputs, **kwargs}
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), kwargs


def _trace(model, args, kwargs, training, optimizer, loss):
    """Returns the Trace and weak references to all results, which are released when this function has returned."""
    while isinstance(model, torch.nn.Module) and hasattr(model, "_orig_mod"):  # torch.compile wraps the model
        model = model._orig_mod
    tracker = ModuleTracker()
    recorder = Recorder(tracker)
    copier = FakeCopier(FakeTensorMode(allow_non_fake_inputs=True))
    call = copier.copy(model) if isinstance(model, torch.nn.Module) else copier.copy_function(model)
    args, kwargs = copier.copy((args, kwargs))
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer = copier.copy(optimizer)
    state = _state_of(call, copier)
    with _traced(copier.fake_mode, tracker, recorder, keeps_gradients=training or not isinstance(model, torch.nn.Module)):
        if optimizer is not None:
            optimizer = _prepare_optimizer(optimizer, call, recorder)
        recorder.memory.add([*state, *_reachable_tensors((args, kwargs))])
        result = call(*args, **kwargs)
        if training:
            _backward(result, loss)
        if optimizer is not None:
            optimizer.step()
        memory = _summarize_memory(recorder.memory.peak, state, result, kwargs, call if training else None, optimizer)
        compulsory = recorder.compulsory_bytes(_reachable_tensors(result))
        names = LayerNames({name.partition(".")[2]: module for module, name in tracker._known_modules.items()})
    title = type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", type(model).__name__)
    device = ", ".join(sorted(copier.devices)) or "cpu"
    return Trace(title, tuple(recorder.works), memory, device, names, compulsory), recorder.results


@contextlib.contextmanager
def _traced(fake_mode, tracker, recorder, keeps_gradients):
    """Records what is called inside. Code that needs values that are not computed raises ridge.Error."""
    fused = torch.backends.mha.get_fastpath_enabled()  # The fast path is one unknown operation for a full encoder layer
    torch.backends.mha.set_fastpath_enabled(False)
    gradients = torch.set_grad_enabled(keeps_gradients and torch.is_grad_enabled())
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()
    on_cpu = torch.device("cpu") if torch.get_default_device().type == "meta" else contextlib.nullcontext()
    try:
        with tracker, gradients, eager, _recorded_steps(recorder), fake_mode, on_cpu, recorder, AttentionInterceptor(recorder):
            try:
                yield
            except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException, RuntimeError,
                    TypeError) as error:
                if not _needs_values(error):
                    raise
                raise _value_error(error, recorder.module()) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _needs_values(error):
    fake = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)
    return isinstance(error, fake) or any(text in str(error) for text in _NUMPY_ERRORS)


def _value_error(error, module):
    """Returns an error with the module and the line of the model's code that needs a value."""
    where = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library_file(frame.filename)]
    frame = where[-1] if where else traceback.extract_tb(error.__traceback__)[-1]
    operation = str(getattr(error, "func", "")).removesuffix(".default") or "numpy()"
    if isinstance(error, DynamicOutputShapeException):
        problem = f"the shape of the result of {operation} depends on values"
        hint = "replace it by an operation with a fixed shape, such as torch.where, or explain the parts before and after it"
    elif isinstance(error, UnsupportedOperatorException):
        problem = f"{operation} has no shape function"
        hint = "register one with torch.library.register_fake, or explain the parts before and after it"
    else:
        problem = f"{'item()' if operation == 'aten._local_scalar_dense' else operation} reads the value of a tensor"
        hint = "pass the value as a number, or explain the parts before and after it"
    if "experts" in module and "transformers" in frame.filename:
        hint = 'use model.set_experts_implementation("grouped_mm"), which has fixed shapes'
    message = f"{problem}, but explain computes no values" + (f"; in module '{module}'" if module else "")
    text = f"{frame.filename}:{frame.lineno}: {message}\n  {frame.line or ''}\n  hint: {hint}"
    return Error(3, message, hint, frame.filename, frame.lineno, 0, text)


def _is_library_file(path):
    return path.startswith("<") or os.path.dirname(path).startswith(_LIBRARIES)


def _backward(result, loss):
    if loss is not None:
        total = loss(result)
    elif getattr(result, "loss", None) is not None:
        total = result.loss
    else:
        parts = [tensor for tensor in _reachable_tensors(result) if tensor.requires_grad]
        if not parts:
            raise usage_error("training=True needs a result that requires a gradient, found none: are all parameters frozen?")
        total = sum(tensor.sum() for tensor in parts)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        raise usage_error("loss: expected a tensor that requires a gradient")
    (total if total.dim() == 0 else total.sum()).backward()


def _prepare_optimizer(optimizer, model, recorder):
    """Returns the optimizer after a step that is not recorded, which allocates its state as only the first step does."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(model.parameters())
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise usage_error("optimizer: expected the function to return a torch.optim.Optimizer, found "
                              f"{type(optimizer).__name__}")
    with recorder.pause():
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for parameter in model.parameters():
            parameter.grad = None
    recorder.memory.add(_reachable_tensors(list(optimizer.state.values())))
    return optimizer


@contextlib.contextmanager
def _recorded_steps(recorder):
    """Marks the operations of optimizers. Steps change many parameters in one launch, PyTorch's default on GPUs, where the user
    chose nothing else."""
    def begin(optimizer, *_):
        recorder.phase = "step"
        for group in optimizer.param_groups:
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = True

    def end(*_):
        recorder.phase = "forward"

    handles = register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _state_of(call, copier):
    """Returns the tensors of a model, or of the models that a function refers to."""
    modules = [call] if isinstance(call, torch.nn.Module) else [
        each for each in copier.memo.values() if isinstance(each, torch.nn.Module)]
    found = {id(tensor): tensor for module in modules for tensor in [*module.parameters(), *module.buffers()]}
    return list(found.values())


def _reachable_tensors(value, depth=6):
    """Returns the tensors in containers and objects, such as a cache of keys and values."""
    leaves, found = tree_flatten(value)[0], []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif depth and hasattr(leaf, "__dict__") and not isinstance(leaf, (type, torch.nn.Module)) and not callable(leaf):
            found += _reachable_tensors(list(vars(leaf).values()), depth - 1)
    return found


def _cache_of(result, kwargs):
    """Returns the keys and values that a language model returned or was given, under the names that transformers uses."""
    names = ("cache", "past_key_values")
    returned = [getattr(result, name) for name in names if name in vars(type(result)).get("__dataclass_fields__", ())]
    given = [kwargs.get(name) for name in names]
    return next((each for each in [*returned, *given] if each is not None), None)


def _summarize_memory(peak, state, result, kwargs, trained, optimizer):
    weights = distinct_bytes(state)
    cache = distinct_bytes(_reachable_tensors(_cache_of(result, kwargs)))
    gradients = distinct_bytes([p.grad for p in trained.parameters() if p.grad is not None]) if trained is not None else 0
    kept = distinct_bytes(_reachable_tensors(list(optimizer.state.values()))) if optimizer is not None else 0
    return TracedMemory(peak, weights, cache, gradients, kept, max(peak - weights - cache - gradients - kept, 0))
