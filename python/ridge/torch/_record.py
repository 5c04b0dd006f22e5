"""Records every operation that a model calls on fake tensors, and the memory that is alive meanwhile."""
import contextlib
import dataclasses
import weakref
from typing import Optional

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ridge._error import Error
from ridge.torch._bytes import count_attention_bytes, count_bytes, distinct_bytes, is_partial, make_call, tensor_bytes
from ridge.torch._counts import count_attention, count_attention_backward, count_flops, is_free, tensors_of

_SPELLINGS = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16",
              torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_ATTENTION = F.scaled_dot_product_attention
# Functions that call attention by its name in torch.nn.functional, some of them for checkpointed layers. PyTorch passes them
# whole to a function mode, which is not active inside them.
_CALLERS = (F.multi_head_attention_forward, torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
# Number of first arguments of products that must have one dtype.
_PRODUCTS = {"mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3, "mv": 2, "addmv": 3, "dot": 2, "linear": 2, "convolution": 2}
_CONSTANT_FACTORIES = ("zeros", "ones", "full", "scalar_tensor", "zeros_like", "ones_like", "full_like", "new_zeros")


@dataclasses.dataclass(frozen=True)
class Work:
    """One call of an operation, without a machine."""
    name: str
    module: str
    phase: str                      # "forward", "backward" or "step"
    shapes: tuple
    dtype: str
    flops: Optional[int]            # None if ridge does not know the operation
    bytes: int
    on_matrix: bool


def dtype_name(dtype):
    """Returns ridge's name of a dtype, or torch's where ridge has none: "bf16", "int64", "bool", "complex64"."""
    return _SPELLINGS.get(dtype, str(dtype).removeprefix("torch."))


class Memory:
    """Bytes of the storages that are alive, and their largest sum."""

    def __init__(self):
        self.current = self.peak = 0
        self._storages = {}

    def add(self, tensors):
        """Adds the storages of tensors until they are released."""
        for tensor in tensors:
            if tensor.layout != torch.strided or isinstance(tensor, FakeTensor) and tensor.device.type == "meta":
                continue
            storage = tensor.untyped_storage()
            key, size = id(storage), storage.nbytes()
            if key in self._storages:
                continue
            self._storages[key] = weakref.ref(storage, lambda _, key=key, size=size: self._release(key, size))
            self.current += size
        self.peak = max(self.peak, self.current)

    def _release(self, key, size):
        del self._storages[key]
        self.current -= size


class Recorder(TorchDispatchMode):
    """Counts each operation that reaches the dispatcher, in call order."""

    def __init__(self, tracker):
        super().__init__()
        self.tracker, self.works, self.memory, self.phase = tracker, [], Memory(), "forward"
        self.is_paused, self.results = False, []  # Weak references to all results
        self._produced, self._external = weakref.WeakKeyDictionary(), {}
        self._module_of_node = {}  # By the sequence number of an autograd node

    @contextlib.contextmanager
    def pause(self):
        """Calls inside are not recorded."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        base = func._schema.name.partition("::")[2]
        plain = base.rstrip("_") if not base.startswith("__") else base
        if _is_composite(func, plain):
            with self:
                return func.decompose(*args, **kwargs)
        if not self.is_paused:
            self.note_node()
        if plain in _PRODUCTS and func.namespace == "aten":
            _check_one_dtype(plain, args[:_PRODUCTS[plain]], self.module())
        result = _call(func, plain, args, kwargs)
        _keep_constant(plain, result, args)
        if self.is_paused:
            return result
        if not is_free(func, plain):
            call = make_call(func, plain, args, kwargs, result)
            flops, on_matrix, is_known = count_flops(call)
            first = call.read[0] if call.read else call.written[0] if call.written else None
            self._append(call.name, call.read, first, flops if is_known else None, count_bytes(call), on_matrix)
            self._note_storages(call)
        results = tensors_of(result)
        self.memory.add(results)
        self.results += [weakref.ref(tensor) for tensor in results]
        return result

    def _append(self, name, read, first, flops, moved, on_matrix):
        dtype = dtype_name(first.dtype) if first is not None else "f32"
        self.works.append(Work(name, self.module(), self.phase_now(), tuple(tuple(tensor.shape) for tensor in read), dtype, flops,
                               moved, on_matrix))

    def _note_storages(self, call):
        """Notes which storages the trace writes, and for each other one the most bytes that one operation reads of it."""
        if not is_partial(call.base):
            for tensor in call.read:
                storage = tensor.untyped_storage() if tensor.layout == torch.strided else None
                if storage is not None and storage not in self._produced:
                    self._external[storage] = max(self._external.get(storage, 0), min(tensor_bytes(tensor), storage.nbytes()))
        for tensor in call.written:
            if tensor.layout == torch.strided and tensor.untyped_storage() not in self._external:
                self._produced[tensor.untyped_storage()] = True

    def compulsory_bytes(self, results):
        """Returns the bytes that any order of the operations must move: reads of what existed before, and new results."""
        new = {id(tensor.untyped_storage()): tensor_bytes(tensor) for tensor in results
               if tensor.layout == torch.strided and tensor.untyped_storage() in self._produced}
        return sum(self._external.values()) + sum(new.values())

    def note_node(self):
        """Notes the running module as that of the newest autograd node. The operation that created the node is the first one to
        come here after it."""
        if torch._C._current_autograd_node() is None:
            self._module_of_node.setdefault(torch.autograd._get_sequence_nr() - 1, self.module())

    def phase_now(self):
        return "backward" if torch._C._current_graph_task_id() != -1 else self.phase

    def module(self):
        """Returns the path of the innermost module that is running, such as "layers.0.mlp", or "". In the backward pass this is
        the module that created the node."""
        node = torch._C._current_autograd_node()
        if node is not None:
            return self._module_of_node.get(node._sequence_nr(), "")
        names = [name for name in self.tracker.parents if name != "Global"]
        deepest = max(names, key=len, default="")
        return deepest.partition(".")[2]

    def record_attention(self, operands, mask, result, is_causal):
        q, k, v = operands
        read = [q, k, v] + ([mask] if mask is not None else [])
        self._append("aten.scaled_dot_product_attention", read, q, count_attention(q.shape, v.shape, k.shape[-2], is_causal),
                     count_attention_bytes(q, k, v, mask, result, is_causal), True)

    def record_attention_backward(self, gradient, saved, gradients, is_causal):
        q, k, v, *_ = saved
        read = [gradient, *(tensor for tensor in saved if tensor is not None)]
        self._append("aten.scaled_dot_product_attention_backward", read, q,
                     count_attention_backward(q.shape, v.shape, k.shape[-2], is_causal),
                     distinct_bytes(read) + distinct_bytes(gradients), True)


def _check_one_dtype(name, operands, module):
    """Raises Error unless the operands of a product have one dtype, which PyTorch needs but does not check on fake tensors."""
    dtypes = list(dict.fromkeys(dtype_name(each.dtype) for each in operands))
    if len(dtypes) > 1:
        where = f"; in module '{module}'" if module else ""
        message = f"expected operands of aten.{name} to have one dtype, found {' and '.join(dtypes)}{where}"
        hint = "convert them, such as x.to(weight.dtype), or call the model under torch.autocast"
        raise Error(3, message, hint, "", 0, 0, f"{message}\n  hint: {hint}")


def _is_composite(func, plain):
    """True for operations that PyTorch composes from others. They arrive whole only in inference mode."""
    return (torch.is_inference_mode_enabled() and func.namespace == "aten" and plain not in ("item", "is_nonzero")
            and not getattr(func, "is_view", False) and not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CPU")
            and func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def _call(func, plain, args, kwargs):
    """Calls an operation on fake tensors. PyTorch's own shape function refuses grouped products of f32, which run."""
    if plain == "_grouped_mm" and func.namespace == "aten":
        a, b = args[:2]
        groups = [a.shape[0]] if a.dim() == 3 and b.dim() == 3 else []
        if a.dim() == 2 and b.dim() == 2:
            groups = [kwargs["offs"].shape[0] if "offs" in kwargs else args[2].shape[0]]
        elif a.shape[-1] != b.shape[-2]:
            raise RuntimeError(f"expected a grouped product's operands to share their contracted extent, found {list(a.shape)} and "
                               f"{list(b.shape)}")
        return a.new_empty([*groups, a.shape[-2], b.shape[-1]], dtype=kwargs.get("out_dtype"))
    return func(*args, **kwargs)


def _keep_constant(plain, result, args):
    """Keeps the value of a new number, such as an optimizer's count of steps, which code reads with item()."""
    if plain not in _CONSTANT_FACTORIES or not isinstance(result, FakeTensor) or result.dim() or result.constant is not None:
        return
    value = 0 if "zeros" in plain else 1 if "ones" in plain else args[0] if plain == "scalar_tensor" else args[1]
    if isinstance(value, (bool, int, float)):
        with _disable_current_modes():
            result.constant = torch.full((), value, dtype=result.dtype)


@contextlib.contextmanager
def _named_attention(attend):
    """Makes torch.nn.functional.scaled_dot_product_attention another function. It must call PyTorch's for tensors with values."""
    F.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        F.scaled_dot_product_attention = _ATTENTION


class AttentionInterceptor(TorchFunctionMode):
    """Records scaled_dot_product_attention as one operation on every device. PyTorch decomposes it where it has no fused
    kernel, for example on "meta", into products in f32 that store the scores."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _CALLERS:
            with _named_attention(self._attend):
                return func(*args, **kwargs)
        return self._attend(*args, **kwargs) if func is _ATTENTION else func(*args, **kwargs)

    def _attend(self, *args, **kwargs):
        query = args[0] if args else kwargs["query"]
        if self.recorder.is_paused or not isinstance(query, FakeTensor):
            return _ATTENTION(*args, **kwargs)
        with self.recorder.pause(), torch.no_grad():  # PyTorch checks the operands and computes the result's shape
            shape = _ATTENTION(*args, **kwargs).shape
        return _record_attention(self.recorder, shape, *args, **kwargs)


def _record_attention(recorder, shape, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                      enable_gqa=False):
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (query, key, value, attn_mask)):
        return _Attention.apply(recorder, shape, is_causal, query, key, value, attn_mask)
    result = _new_result(query, shape)
    recorder.record_attention((query, key, value), attn_mask, result, is_causal)
    return result


def _new_result(q, shape):
    """Returns the result, in the layout of the fused kernels: [B, S, H, E] in memory."""
    if len(shape) != 4:
        return q.new_empty(shape)
    batch, heads, rows, width = shape
    return q.new_empty([batch, rows, heads, width]).transpose(1, 2)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, recorder, shape, is_causal, q, k, v, mask):
        recorder.note_node()
        result = _new_result(q, shape)
        recorder.record_attention((q, k, v), mask, result, is_causal)
        log_sums = q.new_empty(shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, mask, result, log_sums)
        ctx.recorder, ctx.is_causal = recorder, is_causal
        return result

    @staticmethod
    def backward(ctx, gradient):
        saved = ctx.saved_tensors
        gradients = [torch.empty_like(tensor) if needed else None for tensor, needed in zip(saved, ctx.needs_input_grad[3:])]
        ctx.recorder.record_attention_backward(gradient, saved, [each for each in gradients if each is not None], ctx.is_causal)
        return None, None, None, *gradients


