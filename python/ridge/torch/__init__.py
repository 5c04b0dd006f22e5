"""Ridge for PyTorch: operators with derivatives, and models on the roof.

    >>> import torch, ridge.torch
    >>> y = torch.ops.ridge.geglu(x, w, b)          # f32, bf16, f16, on a CPU or a CUDA device
    >>> print(ridge.torch.explain(model, (x,), on="h200"))

torch.ops.ridge has matmul, geglu, attention, rmsnorm and softmax, each with fake tensors and derivatives, so that they
stand in torch.compile(fullgraph=True). matmul comes from a compiled library where one was built (RIDGE_TORCH=ON), which
takes less of the host's time; elsewhere, as the others, through DLPack.
"""
from . import _operators
from ._trace import TracedOp, TracedReport, explain

attention = _operators.attention
geglu = _operators.geglu
matmul = _operators.matmul
rmsnorm = _operators.rmsnorm
softmax = _operators.softmax

__all__ = ["TracedOp", "TracedReport", "attention", "explain", "geglu", "matmul", "rmsnorm", "softmax"]
