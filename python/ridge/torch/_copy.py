"""Copies of models, arguments, optimizers and functions whose tensors are fake. The originals are never changed."""
import collections
import copy
import functools
import types

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from ridge._error import usage_error

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType, types.BuiltinFunctionType, torch.dtype,
          torch.device, torch.Size, torch.Generator)


class FakeCopier(TorchFunctionMode):
    """Copies objects with fake tensors in place of real ones. Tensors on "meta" become tensors of a CPU, so that the same
    operations are called as for a model with values. Objects that occur twice are copied once.

    As a function mode it provides the fake tensors of copy.deepcopy, which copies objects of unknown types.
    """

    def __init__(self, fake_mode):
        super().__init__()
        self.fake_mode, self.memo, self.devices = fake_mode, {}, set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__deepcopy__:
            return self.copy_tensor(args[0])
        if func is torch._C.TensorBase.clone:  # Parameter.__deepcopy__ clones its data
            return self._fake(args[0])
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def copy(self, value):
        """Returns the copy of any object. Objects that cannot be copied, such as locks, are shared."""
        if isinstance(value, _ATOMS):
            return value
        if id(value) in self.memo:
            return self.memo[id(value)]
        twin = self._copy_new(value)
        self._remember(value, twin)
        return twin

    def _remember(self, value, twin):
        self.memo[id(value)] = twin
        self.memo.setdefault(id(self.memo), []).append(value)  # As copy.deepcopy does: an id is valid while its object lives

    def _copy_new(self, value):
        if isinstance(value, torch.Tensor):
            return self.copy_tensor(value)
        if isinstance(value, torch.nn.Module):
            return self._copy_module(value)
        if type(value) in (list, set):
            twin = type(value)()
            self._remember(value, twin)
            twin.extend(map(self.copy, value)) if type(value) is list else twin.update(map(self.copy, value))
            return twin
        if type(value) in (dict, collections.OrderedDict):
            twin = type(value)()
            self._remember(value, twin)
            twin.update((self.copy(key), self.copy(each)) for key, each in value.items())
            return twin
        if type(value) is tuple:
            return tuple(map(self.copy, value))
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            return self.copy_function(value)
        try:
            with self:
                return copy.deepcopy(value, self.memo)
        except Exception:
            return value

    def copy_tensor(self, tensor):
        """Returns the fake tensor. A number of one element keeps its value, so that the model's code can read it."""
        if id(tensor) in self.memo:
            return self.memo[id(tensor)]
        with torch._C.DisableTorchFunctionSubclass():
            fake = self._fake(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                fake = torch.nn.Parameter(fake.detach(), requires_grad=tensor.requires_grad)
            elif tensor.is_leaf and tensor.requires_grad and not fake.requires_grad:
                fake.requires_grad_()
        self._remember(tensor, fake)
        if tensor.is_leaf and tensor.grad is not None:
            fake.grad = self.copy_tensor(tensor.grad)
        return fake

    def _fake(self, tensor):
        self.devices.add("cpu" if tensor.device.type == "meta" else tensor.device.type)
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is self.fake_mode:
            return tensor
        if tensor.device.type == "meta" or isinstance(tensor, FakeTensor):
            device = "cpu" if tensor.device.type == "meta" else tensor.device
            with self.fake_mode:
                return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
        fake = self.fake_mode.from_tensor(tensor, static_shapes=True)
        if tensor.numel() == 1 and tensor.device.type == "cpu" and type(fake) is FakeTensor:
            fake.constant = tensor.detach().clone()
        return fake

    def _copy_module(self, module):
        if isinstance(module, torch.jit.ScriptModule):
            raise usage_error("expected a model of Python code, found a TorchScript module: pass the module that it was made from")
        twin = object.__new__(type(module))
        self._remember(module, twin)
        for name, value in module.__dict__.items():
            twin.__dict__[name] = self._copy_registered(value) if name in ("_parameters", "_buffers", "_modules") else self.copy(value)
        return twin

    def _copy_registered(self, entries):
        twin = type(entries)()
        twin.update((name, self.copy(each)) for name, each in entries.items())
        return twin

    def copy_function(self, function):
        """Returns a function whose closure, bound object and global models and tensors are copies."""
        if isinstance(function, types.MethodType):
            return types.MethodType(function.__func__, self.copy(function.__self__))
        if isinstance(function, functools.partial):
            return functools.partial(self.copy(function.func), *self.copy(function.args), **self.copy(function.keywords))
        if not isinstance(function, types.FunctionType) or _is_of_a_library(function.__module__):
            return function
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        scope = dict(function.__globals__)
        twin = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
        twin.__kwdefaults__, twin.__dict__ = function.__kwdefaults__, dict(function.__dict__)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        self._remember(function, twin)
        for name in _global_names(function.__code__):
            if name in scope:
                scope[name] = self.copy(scope[name])
        for cell, original in zip(cells, function.__closure__ or ()):
            try:
                cell.cell_contents = self.copy(original.cell_contents)
            except ValueError:  # The variable has no value yet
                pass
        return twin


def _is_of_a_library(module):
    """True for functions whose globals hold no model of the user."""
    return module is None or module.partition(".")[0] in ("torch", "ridge", "transformers", "numpy", "builtins")


def _global_names(code):
    """Returns the names that a function's code and the functions inside it may read from its module."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names
