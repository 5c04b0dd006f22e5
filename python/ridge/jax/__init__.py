"""Ridge for JAX: operators with derivatives, and roofline analysis of functions.

    >>> import jax, ridge.jax
    >>> y = jax.jit(ridge.jax.geglu)(x, w, b)          # float32, bfloat16, float16, on a CPU or a CUDA device
    >>> print(ridge.jax.explain(step, weights, batch, on="h200"))

The operators are calls of XLA's foreign function interface, so they work under jax.jit, jax.vmap, jax.jvp and jax.grad.
"""
from ._attention import attention
from ._explain import explain
from ._matmul import matmul
from ._operators import geglu, rmsnorm, softmax
from ._report import TracedOp, TracedReport

__all__ = ["TracedOp", "TracedReport", "attention", "explain", "geglu", "matmul", "rmsnorm", "softmax"]
