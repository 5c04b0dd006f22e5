"""Ridge predicts how fast a tensor program can run on a machine and what limits it, and runs it with its own kernels.

    >>> import ridge
    >>> report = ridge.explain("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on="h200", B=64, D=4096, F=14336)
    >>> report.ops[0].limiter, report.ops[0].time.lower      # seconds
    ('memory', 2.4956...e-05)

A program is one statement, several lines, an einsum string such as "bd,df->bf", or a file path (docs/notation.md).
Arrays may come from NumPy, PyTorch, CuPy or any library that supports DLPack; they are not copied if kernels can read
their layout. Errors are raised as ridge.Error. Calls release the GIL and are thread-safe.
"""
from ._error import Error
from ._ridge import Kernel, Measured, Op, Formula, Report, Sweep, Threshold, Time, __version__, machines
from ._explain import explain, measure, sweep
from ._attention import attention
from ._compute import geglu, matmul, rmsnorm, run, softmax
from ._weights import Weights, weights_from_awq, weights_from_gptq

__all__ = [
    "Error", "Formula", "Kernel", "Measured", "Op", "Report", "Sweep", "Threshold", "Time", "Weights", "__version__",
    "attention", "explain", "geglu", "machines", "matmul", "measure", "rmsnorm", "run", "softmax", "sweep",
    "weights_from_awq", "weights_from_gptq",
]
