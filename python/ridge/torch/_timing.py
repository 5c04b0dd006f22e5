"""Times of recorded operations on a machine."""
import dataclasses
from typing import Optional

import ridge

_FLOPS, _BYTES = 1e15, 1e12  # Amounts of work from whose times the rates are taken


@dataclasses.dataclass(frozen=True)
class TracedOp:
    """One call of an operation."""
    name: str                       # For example "aten.addmm"
    module: str                     # Module path such as "layers.0.mlp", or ""
    shapes: tuple                   # Shapes of the tensors that are read
    dtype: str                      # Dtype of the first tensor that is read: "bf16", "int64", "bool"
    flops: Optional[int]            # None if ridge does not know the operation
    bytes: int                      # Each element read once and each element of a result written once
    limiter: Optional[str]          # None if ridge does not know the operation, or if the machine has no peak for the dtype
    time_lower: Optional[float]     # Seconds; for an unknown operation, time of its bytes; None without a peak for the dtype
    known: bool
    phase: str = "forward"          # "forward", "backward" or "step"
    on_matrix: bool = False         # True for products and attention, which the matrix unit computes

    calls = 1                       # Each call is recorded by itself


class Machine:
    """Computes times on one machine. The peak of the vector unit is that of f32 for every dtype."""

    def __init__(self, on):
        self.name, self._peaks = on, {}
        self.bandwidth = _BYTES / ridge.explain(flops=1, bytes=_BYTES, on=on, dtype=self._any_dtype(on)).total.time.memory
        smallest = ridge.explain("x: f32[N]\ny: f32[N] = x * 2", on=on, N=1).total
        self.overhead = smallest.time.lower if smallest.limiter == "overhead" else None  # Seconds of a launch, if on record
        self.vector_peak = self.peak("f32")

    @staticmethod
    def _any_dtype(on):
        """Returns a dtype with a peak, since bare work needs one."""
        for dtype in ("f32", "bf16", "f16", "int8", "f64"):
            try:
                ridge.explain(flops=1, bytes=1, on=on, dtype=dtype)
                return dtype
            except ridge.Error as error:
                if "peak" not in error.message:
                    raise
        return "f32"

    def peak(self, dtype):
        """Returns FLOP/s, or None if the machine has no peak for this dtype on record."""
        if dtype not in self._peaks:
            try:
                time = ridge.explain(flops=_FLOPS, bytes=1, on=self.name, dtype=dtype).total.time.math
                self._peaks[dtype] = _FLOPS / time
            except ridge.Error:
                self._peaks[dtype] = None
        return self._peaks[dtype]

    def time(self, work):
        """Returns the operation with its limiter and time."""
        known, memory = work.flops is not None, work.bytes / self.bandwidth
        limiter, lower = "memory", memory
        if work.flops:
            peak = self.peak(work.dtype) if work.on_matrix else self.vector_peak
            if peak is None and work.on_matrix:
                limiter = lower = None
            elif peak is not None and work.flops / peak > memory:
                limiter, lower = "compute", work.flops / peak
        return TracedOp(work.name, work.module, work.shapes, work.dtype, work.flops, work.bytes, limiter if known else None, lower,
                        known, work.phase, work.on_matrix)

    def time_fused(self, ops, trace):
        """Returns a lower bound in seconds for any fusion of pointwise operations, row functions and copies with products:
        the products and attention one after the other, each with its own bytes, and the optimizer's state once."""
        own = sum(op.time_lower or 0.0 for op in ops if op.on_matrix or not op.known)
        step = (3 * trace.memory.gradients + 2 * trace.memory.optimizer) / self.bandwidth if trace.memory.optimizer else 0.0
        on_vector = sum(op.flops or 0 for op in ops if not op.on_matrix) / self.vector_peak if self.vector_peak else 0.0
        one_by_one = sum(op.time_lower or 0.0 for op in ops)
        return min(one_by_one, max(own + step, on_vector, trace.compulsory_bytes / self.bandwidth))
