"""Ridge for PyTorch: operators with derivatives, and roofline analysis of models.

    >>> import torch, ridge.torch
    >>> y = torch.ops.ridge.geglu(x, w, b)          # f32, bf16, f16, on a CPU or a CUDA device
    >>> print(ridge.torch.explain(model, (x,), on="h200"))

torch.ops.ridge has matmul, geglu, attention, rmsnorm and softmax, each with fake tensors and derivatives, so they work in
torch.compile(fullgraph=True). They read tensors through DLPack.
"""
from . import _operators
from ._report import TracedMemory, TracedReport, TracedReports
from ._timing import TracedOp
from ._trace import explain

attention = _operators.attention
geglu = _operators.geglu
matmul = _operators.matmul
rmsnorm = _operators.rmsnorm
softmax = _operators.softmax

__all__ = ["TracedMemory", "TracedOp", "TracedReport", "TracedReports", "attention", "explain", "geglu", "matmul", "rmsnorm", "softmax"]
