"""Roofline analysis of every operation of a PyTorch model."""
import dataclasses
import html
import math
from typing import Optional

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.flop_counter import flop_registry, register_flop_formula, sdpa_flop_count
from torch.utils.module_tracker import ModuleTracker

import ridge
from ridge._html import _engineering
from ridge.torch._operators import _UNRECORDED

# One FLOP per element of the result, as ridge counts pointwise functions.
_POINTWISE = frozenset("""abs add addcmul addcdiv bitwise_and bitwise_not bitwise_or ceil clamp cos div eq erf exp floor ge gelu
    gelu_backward gt hardswish hardtanh le leaky_relu log logical_and logical_not lt masked_fill maximum minimum mish mul ne neg
    pow reciprocal relu round rsqrt rsub sigmoid sigmoid_backward sign silu silu_backward sin softplus sqrt sub tanh
    tanh_backward threshold_backward tril triu where""".split())
# One FLOP per element read.
_REDUCTIONS = frozenset("sum mean amax amin max min var std prod any all argmax argmin cumsum norm var_mean".split())
# Row functions, with their names in ridge's notation.
_ROWS = {"_softmax": "softmax", "_log_softmax": "softmax", "_safe_softmax": "softmax", "native_layer_norm": "layernorm",
         "_fused_rms_norm": "rmsnorm", "rms_norm": "rmsnorm", "softmax": "softmax", "rmsnorm": "rmsnorm"}
# Operations that move bytes without arithmetic.
_MOVES = frozenset("""_to_copy arange bernoulli cat clone constant_pad_nd copy embedding fill flip full full_like gather
    index index_select masked_scatter native_dropout new_ones new_zeros ones ones_like rand randn repeat roll
    scalar_tensor scatter stack zero zeros zeros_like _unsafe_index lift_fresh""".split())
# Operations that move nothing: views, uninitialized memory, and queries of the host.
_FREE = frozenset("""_local_scalar_dense alias as_strided chunk detach empty empty_like empty_strided expand is_same_size narrow
    new_empty new_empty_strided permute prim_device select slice split split_with_sizes squeeze sym_numel
    sym_size sym_stride t transpose unbind unfold unsafe_split unsqueeze view _unsafe_view view_as_real
    view_as_complex _reshape_alias""".split())


# FLOPs of ridge's own products and attention, forward; also registered for torch.utils.flop_counter.
@register_flop_formula(list({torch.ops.ridge.matmul, getattr(torch.ops.ridge, _UNRECORDED)}))
def _matmul_flops(a, b, *_, out_shape=None, **__):
    return 2 * math.prod(out_shape) * a[-1]


@register_flop_formula(torch.ops.ridge.geglu)
def _geglu_flops(x, w, *_, **__):
    return 2 * math.prod(x) * w[0]


@register_flop_formula(torch.ops.ridge.attention)
def _attention_flops(q, k, v, *_, **__):
    return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])


@dataclasses.dataclass(frozen=True)
class TracedOp:
    """One call of an operation."""
    name: str                       # For example "aten.addmm"
    module: str                     # Module path such as "layers.0.mlp", or ""
    shapes: tuple                   # Shapes of the tensor arguments
    dtype: str                      # Dtype of the first tensor argument
    flops: Optional[int]            # None if ridge does not know the operation
    bytes: int                      # Each argument read once, each result written once
    limiter: Optional[str]          # None if ridge does not know the operation
    time_lower: float               # Seconds; for an unknown operation, time of its bytes
    known: bool


def _bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _spelling(dtype):
    names = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int8: "int8",
             torch.int32: "int32", torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
    return names.get(dtype, "f32")


def _flops_in_rows(word, x, width):
    rows = max(x.numel() // max(width, 1), 1)
    report = ridge.explain(f"x: f32[N, D]\ny: f32[N, D] = {word}(x over D)", on="h200", N=rows, D=max(width, 1))
    return report.total.flops


class _Machine:
    """Computes times on one machine. The peak of the vector unit is that of f32 for every dtype."""

    def __init__(self, on):
        self.on = on

    def of(self, flops, moved, dtype, on_matrix):
        if moved == 0 and not flops:
            return "memory", 0.0
        total = ridge.explain(flops=max(flops or 0, 1), bytes=max(moved, 1), on=self.on,
                              dtype=dtype if on_matrix else "f32").total
        if total.time.lower is None and on_matrix:  # The machine has no matrix peak for this dtype
            total = ridge.explain(flops=max(flops, 1), bytes=max(moved, 1), on=self.on, dtype="f32").total
        return total.limiter, total.time.lower


class _Recorder(TorchDispatchMode):
    def __init__(self, on, tracker):
        super().__init__()
        self.machine, self.tracker, self.ops = _Machine(on), tracker, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        base = func._schema.name.partition("::")[2]
        if func.namespace == "ridge" and base == _UNRECORDED:  # The same operator below autograd
            base = "matmul"
        plain = base.rstrip("_") if not base.startswith("__") else base
        is_free = func.namespace == "prim" or plain in _FREE
        if not is_free and not getattr(func, "is_view", False):
            self._record(func, plain, args, kwargs, result)
        return result

    def _record(self, func, plain, args, kwargs, result):
        read = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        written = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
        flops, on_matrix, known = self._count(func, plain, args, kwargs, result, read, written)
        moved = self._moved(plain, read, written)
        dtype = _spelling(read[0].dtype if read else written[0].dtype if written else torch.float32)
        limiter, lower = self.machine.of(flops, moved, dtype, on_matrix)
        self.ops.append(TracedOp(f"{func.namespace}.{plain}", self._module(), tuple(tuple(t.shape) for t in read), dtype,
                                 flops if known else None, moved, limiter if known else None, lower, known))

    @staticmethod
    def _moved(plain, read, written):
        if plain in ("embedding", "index_select", "gather", "index") and len(read) > 1:  # Only the selected rows
            return 2 * _bytes(written) + _bytes(read[1:])
        return _bytes(read) + _bytes(written)

    @staticmethod
    def _count(func, plain, args, kwargs, result, read, written):
        """Returns the FLOPs, whether the matrix unit computes them, and whether the operation is known."""
        packet = func._overloadpacket
        if packet in flop_registry:
            return int(flop_registry[packet](*args, **kwargs, out_val=result)), True, True
        if plain.startswith("_scaled_dot_product") and not plain.endswith("backward"):  # Variants missing in the registry
            return int(sdpa_flop_count(*(tensor.shape for tensor in args[:3]))), True, True
        if plain in _ROWS and read:
            along = args[1] if len(args) > 1 else -1
            width = read[0].shape[along] if plain.endswith("softmax") and read[0].dim() else (
                along[0] if isinstance(along, (tuple, list)) and along else read[0].shape[-1])
            return _flops_in_rows(_ROWS[plain], read[0], int(width)), False, True
        if plain in _POINTWISE:
            return sum(tensor.numel() for tensor in written), False, True
        if plain in _REDUCTIONS:
            return max((tensor.numel() for tensor in read), default=0), False, True
        return 0, False, plain in _MOVES

    def _module(self):
        names = [name for name in self.tracker.parents if name != "Global"]
        deepest = max(names, key=len, default="")
        return deepest.partition(".")[2]


class TracedReport:
    """Operations of a model in call order. str() lists the slowest ones; a notebook shows a table."""

    def __init__(self, machine, ops):
        self.machine = machine
        self.ops = tuple(ops)

    @property
    def time_lower(self):
        """Sum of the lower bounds of all operations, in seconds."""
        return sum(op.time_lower for op in self.ops)

    @property
    def flops(self):
        """FLOPs of the known operations."""
        return sum(op.flops or 0 for op in self.ops)

    @property
    def bytes(self):
        return sum(op.bytes for op in self.ops)

    @property
    def unknown(self):
        """Operations with unknown arithmetic; their time is that of their bytes."""
        return tuple(op for op in self.ops if not op.known)

    def slowest(self, count=10):
        """Returns the operations with the largest lower bounds. Unknown operations come first, because their actual time
        is unknown."""
        return sorted(self.ops, key=lambda op: (not op.known, op.time_lower), reverse=True)[:count]

    def _rows(self, count):
        total = self.time_lower or 1.0
        for op in self.slowest(count):
            yield (op.name, op.module, " ".join("x".join(map(str, shape)) or "1" for shape in op.shapes[:3]), op.dtype,
                   _engineering(op.flops, "FLOP") if op.known else "unknown", _engineering(op.bytes, "B"),
                   op.limiter or "?", _engineering(op.time_lower, "s"), f"{100 * op.time_lower / total:.1f} %")

    _HEAD = ("op", "module", "shapes", "dtype", "work", "bytes", "limiter", "lower", "of time")

    def _first_line(self):
        counted = f", {len(self.unknown)} of them counted by bytes only" if self.unknown else ""
        return (f"{len(self.ops)} operations on {self.machine}{counted}: at least {_engineering(self.time_lower, 's')} "
                f"in sequence; {_engineering(self.flops, 'FLOP')}, {_engineering(self.bytes, 'B')}")

    def _last_line(self):
        if not self.unknown:
            return ""
        names = ", ".join(sorted({op.name for op in self.unknown}))
        return (f"unknown: {len(self.unknown)} operations with {_engineering(sum(op.bytes for op in self.unknown), 'B')}, "
                f"bounded by their bytes only: {names}")

    def __str__(self):
        rows = [self._HEAD, *self._rows(20)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self._HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join(filter(None, [self._first_line(), "", *lines, self._last_line()]))

    def __repr__(self):
        return f"<ridge.torch.TracedReport of {len(self.ops)} operations on {self.machine}>"

    def _repr_html_(self):
        head = "".join(f"<th>{word}</th>" for word in self._HEAD)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows(40))
        return (f"<div class='ridge'><p>{html.escape(self._first_line())}</p><table><thead><tr>{head}</tr></thead>"
                f"<tbody>{rows}</tbody></table><p>{html.escape(self._last_line())}</p></div>")


def explain(model, example, kwargs=None, *, on="cpu"):
    """Calls a model on fake tensors and computes the roofline bound of each operation that reaches the dispatcher.

    model     a torch.nn.Module or a function of tensors; nothing is computed and no weight is changed
    example   the arguments: a tensor or a tuple
    on        a machine of ridge.machines(), a .toml file, or "cpu"

    Returns a TracedReport. Views cost nothing. An unknown operation is listed with its bytes. Times are roofline bounds
    without launch overheads. The backward pass is not traced; a function must not request gradients of weights in its
    closure.
    """
    example = example if isinstance(example, (tuple, list)) else (example,)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    args, kwargs = tree_map_only(torch.Tensor, fake.from_tensor, (tuple(example), dict(kwargs or {})))
    call = model
    if isinstance(model, torch.nn.Module):
        state = {name: fake.from_tensor(tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]}

        def call(*args, **kwargs):
            return torch.func.functional_call(model, state, args, kwargs)

    tracker = ModuleTracker()
    recorder = _Recorder(on, tracker)
    fused = torch.backends.mha.get_fastpath_enabled()  # The fast path is one unknown operation for a full encoder layer
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), fake, tracker, recorder:
            call(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return TracedReport(on, recorder.ops)
