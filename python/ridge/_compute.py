"""Runs programs on arrays."""
import atexit
import functools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from . import _ridge
from ._arrays import check_out, check_supported_dtype, dtype_of, is_on_host, new_zeros, shape_of
from ._error import Error, input_error, text_of, usage_error
from ._shapes import axis_of, check_matmul, check_rmsnorm, check_softmax, geglu_shape
from ._sizes import check_threads, sizes_of
from ._weights import Weights, check_device

LETTERS = "ABCDEFGHIJKLMNOP"
Array = TypeVar("Array")  # An array of any library with DLPack or the buffer protocol; results have the type of the first


def _is_size(value):
    return hasattr(value, "__index__") and not hasattr(value, "shape") or getattr(value, "shape", None) == ()


def run(program: str | os.PathLike[str], *arrays: Any, dims: Mapping[str, int] | None = None, dtype: str | None = None,
        wanted: str | Iterable[str] = (), out: Any = None, fuse: bool = True, threads: int = 0, **named: Any) -> Any:
    """Runs a program on arrays, on this CPU or on the CUDA device of the arrays.

        ridge.run("bd,df->bf", x, w)
        ridge.run("x: f32[N, D]  y[N, D] = softmax(x over D)", x=array)

    arrays     inputs in the program's order, or by name; `B=64` sets a size that no array has, as `dims` does
    dtype      dtype of tensors that declare none (default: the arrays' dtype)
    wanted     names of the results to return (default: every output)
    out        array for the result, or mapping from names to arrays; row-major, not overlapping the inputs
    threads    number of threads; 0 for every core that the process may use; ignored on a device

    Returns an array of the first input's library, or a dict from names to arrays if there are several results. Inputs
    are not copied unless their memory has gaps. On a device, arrays must be PyTorch's or CuPy's; the call queues the work
    on the library's current stream, uses its allocator and returns without waiting. Raises ridge.Error for an error in
    the program (with its position), an array of another dtype or shape, and arrays on several devices.
    """
    program = text_of("a program", program, "bd,df->bf")
    if dtype is not None:
        dtype = text_of("a dtype's name", dtype, "bf16")
    sizes = {name: value for name, value in named.items() if _is_size(value)}
    inputs = [("", array) for array in arrays]
    inputs += [(name, value) for name, value in named.items() if name not in sizes]
    outputs = out if isinstance(out, dict) else {"": out}
    try:
        results = _ridge.run(program, inputs, sizes_of(dims, sizes), dtype, _names_of("wanted", wanted),
                             {name: outputs[name] for name in _names_of("out", outputs)}, bool(fuse), check_threads(threads))
    except Error as error:
        for i, (name, array) in enumerate(inputs):
            check_supported_dtype(name or f"input {i}", array)
        raise _with_positions(error, program) from None
    return results[0][1] if len(results) == 1 else dict(results)


def _names_of(argument, names):
    """Returns one name or several as a list. Raises Error for other objects."""
    names = [names] if isinstance(names, str) else names
    if not hasattr(names, "__iter__") or not all(isinstance(name, str) for name in names):
        raise usage_error(f"{argument}: expected names of results, such as 'y', found {names!r}")
    return list(names)


def _with_positions(error, program):
    """Returns an error of an einsum string of two operands with their positions; the program calls them X and Y."""
    if re.fullmatch(r"\s*[A-Za-z]+\s*,\s*[A-Za-z]+\s*->\s*[A-Za-z]*\s*", program) is None:
        return error
    message = re.sub(r"'?\bY\b'?", "input 1", re.sub(r"'?\bX\b'?", "input 0", error.message))
    return error if message == error.message else input_error(message.replace("input input", "input"))


@functools.lru_cache(maxsize=256)
def _make_layer(program, names, result):
    return _ridge.Layer(program, names, result)


atexit.register(_make_layer.cache_clear)


def run_layer(program, given, out=None, threads=0, result="y"):
    """Runs a layer's program on arrays by name and returns its result. Plans are kept with the program's text."""
    return _make_layer(program, tuple(given), result)(tuple(given.values()), out, check_threads(threads))


def axes_text(count, last=""):
    """Returns axis names: "A, B, C" for three axes; `last` replaces the last name."""
    names = list(LETTERS[:count])
    if last:
        names[-1] = last
    return ", ".join(names)


def matmul(a: Array, b: Any, out: Any = None, dtype: str | None = None, threads: int = 0) -> Array:
    """Returns the product a @ b of matrices [..., m, k] and [..., k, n], as an array of a's library and device.

    Operands are f32, bf16 or f16 with f32 sums, or int8 with int32 sums. Leading axes are broadcast, and an operand of one
    axis is a vector, as in torch.matmul. Operands with contiguous rows or columns are not copied. If b is ridge.Weights of
    4 bits [n, k], the result is a @ b.dequantize().T. In host memory a is then an f32 or bf16 matrix [..., m, k], and
    nothing is rounded but the result. On a device a is bf16 or f16, and b is weights.to_device(a). There, weights are first
    rounded to a's dtype if a has more than 64 rows or no kernel reads them as they are stored (docs/products.md).
    out      array for the result: row-major, not overlapping a and b
    dtype    dtype of the result (default: that of a, or int32 for int8)
    threads  number of threads; 0 for every core that the process may use
    Raises ridge.Error.
    """
    if dtype is not None:
        dtype = text_of("a dtype's name", dtype, "bf16")
    try:
        if isinstance(b, Weights):
            check_device(a, b)
            return _ridge.matmul_weights(a, b.data, (b.dtype, *b.shape), out, dtype, threads)
        return _ridge.matmul(a, b, out, dtype, threads)
    except Error:
        if isinstance(b, Weights):
            raise
        shape = check_matmul(a, b)  # Describes the operands better, if they are wrong
        if dtype is None and dtype_of(a) != "int8":
            check_out(out, a, shape)
        raise


@functools.lru_cache(maxsize=64)
def _softmax_layer(rank, axis):
    """Returns the layer for arrays on a device."""
    axes, over = axes_text(rank), LETTERS[axis_of(rank, axis)]
    return _ridge.Layer(f"x[{axes}]\ny[{axes}] = softmax(x over {over})", ["x"], "y")


atexit.register(_softmax_layer.cache_clear)


def softmax(x: Array, axis: int = -1, *, dim: int | None = None, out: Any = None, threads: int = 0) -> Array:
    """Returns exp(x) divided by its sum along an axis, computed in f32. x: f32, bf16 or f16 of any shape, as the result.
    `dim` is PyTorch's name for `axis`. Raises ridge.Error."""
    if dim is not None or axis.__class__ is not int:
        axis = axis_of(check_softmax(x), axis, dim)
    try:
        y = _ridge.softmax(x, axis, out, threads)
        return y if y is not None else _softmax_layer(x.ndim, axis)((x,), out, check_threads(threads))
    except Error:
        axis_of(check_softmax(x), axis)
        if 0 in shape_of("x", x):
            return new_zeros(x, shape_of("x", x), out)
        check_out(out, x, shape_of("x", x))
        raise


def rmsnorm(x: Array, weight: Any = None, *, eps: float = 1e-5, out: Any = None, threads: int = 0) -> Array:
    """Returns x / sqrt(mean(x * x) + eps) along the last axis, times the optional weight[D]. x[..., D]: f32, bf16 or f16, as
    the result; the weight has x's dtype or f32. Raises ridge.Error."""
    check_rmsnorm(x, weight, eps)
    shape = shape_of("x", x)
    if 0 in shape:
        return new_zeros(x, shape, out)
    axes, dtype = axes_text(len(shape), "W"), dtype_of(x)
    scaled = f"x * rsqrt(mean(x * x over W) + {float(eps)!r})" if eps != 1e-5 else "rmsnorm(x over W)"
    if weight is None:
        return run_layer(f"x[{axes}]\ny[{axes}] = {scaled}", {"x": x}, out, threads)
    declared = f"x: {dtype}[{axes}]\nw: {dtype_of(weight)}[W]\ny: {dtype}[{axes}]"
    return run_layer(f"{declared} = {scaled} * w", {"x": x, "w": weight}, out, threads)


def geglu(x: Array, w: Any, b: Any = None, *, approximate: str = "none", out: Any = None, threads: int = 0) -> Array:
    """Returns a gated linear layer: u * gelu(g), where u and g are the halves of x @ w.T + b.

    Shapes: x [..., D], w [2*F, D], b [2*F], as in torch.nn.Linear(D, 2*F); the result is [..., F]. Arrays are bf16, f16
    or f32, with f32 sums. approximate="tanh" uses the tanh approximation of gelu. The halves are not stored. Raises
    ridge.Error.
    """
    gelu = {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate) if isinstance(approximate, str) else None
    if gelu is None:
        raise usage_error(f"expected approximate to be 'none' or 'tanh', found {approximate!r}")
    shape = geglu_shape(x, w, b)
    if 0 in shape:
        return new_zeros(x, shape, out)
    if shape_of("w", w)[1] == 0:  # The products are 0; those of a column of zeros are, too
        x, w = new_zeros(x, [*shape[:-1], 1]), new_zeros(w, [shape_of("w", w)[0], 1])
    rows = axes_text(len(shape), "W")
    result = ", ".join([*LETTERS[:len(shape) - 1], "V"])
    lines = [f"x[{rows}]", "w[2*V, W]", "up[V, W] = w[0:V]", "gate[V, W] = w[V:2*V]"]
    up, gate = "u", "g"
    if b is not None:
        lines += ["b[2*V]", "bu[V] = b[0:V]", "bg[V] = b[V:2*V]"]
        up, gate = "(u + bu)", "g + bg"
    lines += [f"u[{result}] = x * up", f"g[{result}] = x * gate", f"y[{result}] = {up} * {gelu}({gate})"]
    given = {"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b}
    return run_layer("\n".join(lines), given, out, threads)
