"""What a trace of a JAX function says: bounds on one machine, as text and tables."""
import dataclasses
import functools
import html
import math
from typing import Optional

import ridge
from ridge._html import _engineering
from ridge._traced import OperationReport

_FLOPS, _BYTES = 1e15, 1e12  # Amounts of work from whose times the rates are taken


@dataclasses.dataclass(frozen=True)
class Work:
    """One operation of a function, without a machine."""
    name: str                       # Name of the primitive, such as "dot_general"
    module: str                     # Path of jax.named_scope, such as "layer.mlp", or ""
    shapes: tuple                   # Shapes of the operands
    dtype: str                      # Dtype of the first operand
    flops: Optional[int]            # FLOPs of one call; None if ridge does not know the operation
    bytes: int                      # Bytes of one call: each operand read once, each result written once
    on_matrix: bool                 # True if the matrix unit computes the FLOPs
    phase: str                      # "forward", or "backward" for transposed operations
    calls: int                      # Number of calls: the product of the lengths of the scans around it
    group: int = 0                  # Number of the kernel that could run it, if chains of pointwise operations are fused
    fused_bytes: int = 0            # Bytes of one call in such a kernel


@dataclasses.dataclass(frozen=True)
class TracedOp(Work):
    """One operation of a function on a machine. The amounts are those of one call."""
    limiter: Optional[str] = None       # None if the operation is unknown, or if the machine has no peak for the dtype
    time_lower: Optional[float] = None  # Seconds of one call; for an unknown operation, of its bytes; None without a peak

    @property
    def known(self):
        return self.flops is not None


class _Machine:
    """Computes times on one machine. The peak of the vector unit is that of f32 for every dtype."""

    def __init__(self, on):
        self.on = on
        self.bandwidth = _BYTES / ridge.explain(flops=1, bytes=_BYTES, on=on, dtype="f32").total.time.memory

    @functools.lru_cache(maxsize=None)
    def _peak(self, dtype):
        """Returns FLOP/s, or None if the machine has no peak for this dtype on record."""
        try:
            return _FLOPS / ridge.explain(flops=_FLOPS, bytes=1, on=self.on, dtype=dtype).total.time.math
        except ridge.Error:
            return None

    def _compute_time(self, work):
        """Returns the seconds of the arithmetic, or None if the machine has no peak for it."""
        peak = self._peak(work.dtype if work.on_matrix else "f32") if work.flops else math.inf
        return None if peak is None else (work.flops or 0) / peak

    def time(self, work):
        """Returns the operation with its limiter and its time."""
        limiter, lower, compute = "memory", work.bytes / self.bandwidth, self._compute_time(work)
        if compute is None:
            limiter = lower = None
        elif compute > lower:
            limiter, lower = "compute", compute
        return TracedOp(**vars(work), limiter=None if work.flops is None else limiter, time_lower=lower)

    def time_groups(self, works):
        """Returns the seconds of all groups of operations, each as one kernel."""
        groups = {}
        for work in works:
            of_bytes, of_flops, _ = groups.get(work.group, (0.0, 0.0, 1))
            groups[work.group] = (of_bytes + work.fused_bytes / self.bandwidth, of_flops + (self._compute_time(work) or 0.0), work.calls)
        return sum(calls * max(of_bytes, of_flops) for of_bytes, of_flops, calls in groups.values())


class TracedReport(OperationReport):
    """Operations of a function in the order of its jaxpr. str() lists the slowest ones; a notebook shows a table."""

    _HEAD = ("calls", "op", "module", "shapes", "dtype", "work", "bytes", "limiter", "lower", "of time")

    def __init__(self, title, machine, ops, time_fused, notes):
        self.title, self.machine, self.ops = title, machine, tuple(ops)
        self.time_fused = time_fused      # Seconds if chains of pointwise operations and reductions are one kernel each
        self.notes = tuple(dict.fromkeys(notes))  # Sentences on what is counted approximately

    def slowest(self, count=10):
        """Returns the operations with the largest lower bounds of all their calls. Unknown operations come first, because their
        actual time is unknown."""
        return sorted(self.ops, key=lambda op: (not op.known, (op.time_lower or 0.0) * op.calls), reverse=True)[:count]

    def _rows(self, count):
        total = self.time_lower or 1.0
        for op in self.slowest(count):
            time = (op.time_lower or 0.0) * op.calls
            yield (str(op.calls), op.name, op.module, " ".join("x".join(map(str, shape)) or "1" for shape in op.shapes[:3]), op.dtype,
                   _engineering(op.flops * op.calls, "FLOP") if op.known else "unknown", _engineering(op.bytes * op.calls, "B"),
                   op.limiter or "?", _engineering(time, "s"), f"{100 * time / total:.1f} %")

    def _summary(self):
        counted = f", {len(self.unknown)} of them counted by bytes only" if self.unknown else ""
        lines = [f"{len(self.ops)} operations on {self.machine}{counted}: at least {_engineering(self.time_lower, 's')} one by one; "
                 f"{_engineering(self.flops, 'FLOP')}, {_engineering(self.bytes, 'B')}"]
        if self.untimed:
            dtypes = ", ".join(sorted({op.dtype for op in self.untimed}))
            lines.append(f"{len(self.untimed)} operations have no time: {self.machine} has no matrix peak for {dtypes} on record")
        kernels = len({op.group for op in self.ops})
        lines.append(f"at least {_engineering(self.time_fused, 's')} as {kernels} kernels, if XLA fuses each chain of pointwise "
                     "operations and reductions")
        return [*lines, *self.notes]

    def _last_line(self):
        if not self.unknown:
            return ""
        names = ", ".join(sorted({op.name for op in self.unknown}))
        moved = sum(op.bytes * op.calls for op in self.unknown)
        return f"unknown: {len(self.unknown)} operations with {_engineering(moved, 'B')}, bounded by their bytes only: {names}"

    def __str__(self):
        rows = [self._HEAD, *self._rows(20)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self._HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*self._summary(), "", *lines] + ([self._last_line()] if self.unknown else []))

    def __repr__(self):
        return f"<ridge.jax.TracedReport of {len(self.ops)} operations on {self.machine}>"

    def _repr_html_(self):
        head = "".join(f"<th>{word}</th>" for word in self._HEAD)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows(40))
        summary = "<br/>".join(map(html.escape, self._summary()))
        return (f"<div class='ridge'><p>{summary}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
                f"<p>{html.escape(self._last_line())}</p></div>")

    def columns(self):
        """Returns a dict of lists, one entry for each operation: the amounts and seconds of one call, and the calls."""
        names = [field.name for field in dataclasses.fields(TracedOp)]
        return {name + ("_s" if name == "time_lower" else ""): [getattr(op, name) for op in self.ops] for name in names}


def make_report(title, works, notes, on):
    """Returns the report of operations on a machine. Raises ridge.Error for an unknown machine."""
    machine = _Machine(on)
    return TracedReport(title, on, [machine.time(work) for work in works], machine.time_groups(works), notes)
