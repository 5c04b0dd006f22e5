"""Ridge: how fast a tensor program can run on a machine and why, and kernels that run it.

    >>> import ridge
    >>> report = ridge.explain("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on="h200", B=64, D=4096, F=14336)
    >>> report.ops[0].limiter, report.ops[0].time.lower      # seconds
    ('memory', 2.4956...e-05)

A program is one statement, several lines, an einsum string such as "bd,df->bf", or a file's path (docs/notation.md).
Arrays are NumPy's, PyTorch's or anyone's who speaks DLPack, in this computer's memory; none is copied where kernels can
walk it. What is wrong is raised as ridge.Error. Calls release the GIL and may come from several threads.
"""
from ._error import Error
from ._ridge import Kernel, Measured, Op, Formula, Report, Sweep, Threshold, Time, __version__, machines, matmul
from ._explain import explain, measure, sweep
from ._compute import attention, geglu, rmsnorm, run, softmax

__all__ = [
    "Error", "Formula", "Kernel", "Measured", "Op", "Report", "Sweep", "Threshold", "Time", "__version__", "attention",
    "explain", "geglu", "machines", "matmul", "measure", "rmsnorm", "run", "softmax", "sweep",
]
