"""What reports of traced functions share, whichever library the function belongs to."""
import functools

from . import _html


class OperationReport:
    """Operations on one machine, in call order. Each of `ops` has its amounts for one call, and `calls`."""
    ops: tuple

    @functools.cached_property
    def time_lower(self):
        """Sum of the lower bounds of all calls one by one, in seconds. `time_fused` is a bound for any fusion of what lies between
        products. An operation without a time adds nothing."""
        return sum((op.time_lower or 0.0) * op.calls for op in self.ops)

    @functools.cached_property
    def flops(self):
        """FLOPs of the known operations."""
        return sum((op.flops or 0) * op.calls for op in self.ops)

    @functools.cached_property
    def bytes(self):
        return sum(op.bytes * op.calls for op in self.ops)

    @property
    def launches(self):
        """Number of calls of operations that launch a kernel. Some launch several; XLA runs several as one."""
        return sum(op.calls for op in self.ops)

    @property
    def unknown(self):
        """Operations with unknown arithmetic; their time is that of their bytes."""
        return tuple(op for op in self.ops if not op.known)

    @property
    def untimed(self):
        """Operations without a time, because the machine has no matrix peak for their dtype on record."""
        return tuple(op for op in self.ops if op.time_lower is None)

    def to_pandas(self):
        """Returns a data frame with one row for each operation: seconds, FLOP, B."""
        return _html.to_pandas(self)
