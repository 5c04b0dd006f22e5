"""Shapes and dtypes of arrays of any library, and new arrays of the same library."""
import math
import sys

from ._error import Error, input_error

# Names of dtypes in programs, by the names of NumPy and PyTorch and by the format characters of buffers.
_SPELLINGS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "int8", "int32": "int32", "f": "f32",
              "e": "f16", "b": "int8", "i": "int32"}
FLOATS = ("f32", "bf16", "f16")


def is_torch(array):
    """True if the array is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_cupy(array):
    """True if the array is CuPy's."""
    return type(array).__module__.partition(".")[0] == "cupy"


def device_of(array):
    """Returns the device of an array of PyTorch or CuPy, such as "cuda:0" or "cpu", and "cpu" for other objects."""
    if is_torch(array):
        return str(array.device)
    return f"cuda:{array.device.id}" if is_cupy(array) else "cpu"


def copy_to_device_of(like, array):
    """Returns a copy of a NumPy array with the library and device of another, which is PyTorch's or CuPy's."""
    if is_torch(like):
        return sys.modules["torch"].from_numpy(array).to(like.device)
    with like.device:
        return _module_of(like).asarray(array)


def is_on_host(array):
    """True if the array is in host memory."""
    return str(getattr(array, "device", "cpu")) == "cpu"


def shape_of(name, array):
    """Returns the shape of an array or buffer as a tuple. Raises Error for other objects."""
    shape = getattr(array, "shape", None)
    if shape is not None:
        return tuple(shape)
    try:
        return memoryview(array).shape
    except TypeError:
        cure = f": np.array({name}, np.float32) is one" if isinstance(array, (list, tuple)) else ""
        raise input_error(f"expected an array for '{name}', found {type(array)}{cure}") from None


def dtype_name(array):
    """Returns "float32" for NumPy and PyTorch, "f" for a buffer."""
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        return memoryview(array).format.lstrip("@=<")  # Signs of the byte order of this computer
    return str(dtype).rpartition(".")[2]


def dtype_of(array):
    """Returns the name of an array's dtype in programs, or None if no kernel supports it."""
    return _SPELLINGS.get(dtype_name(array))


def float_dtype_of(name, array):
    """Returns the name of an array's dtype in programs. Raises Error unless it is f32, bf16 or f16."""
    dtype = dtype_of(array)
    if dtype in FLOATS:
        return dtype
    cure = f"{name}.float()" if is_torch(array) else f"{name}.astype(np.float32)"
    raise input_error(f"expected '{name}' to be float32, bfloat16 or float16, found {dtype_name(array)}: pass {cure}")


def check_supported_dtype(name, array):
    """Raises Error for an array whose dtype no kernel supports."""
    if hasattr(array, "dtype") and dtype_of(array) is None:
        variable = name if name.isidentifier() else "x"
        cure = f"{variable}.float()" if is_torch(array) else f"{variable}.astype(np.float32)"
        raise input_error(f"expected '{name}' to be float32, bfloat16, float16, int8 or int32, found {dtype_name(array)}: pass "
                          f"{cure}")


def check_one_dtype(arrays):
    """Raises Error unless the arrays of a mapping from names are floats of one dtype."""
    (first, array), *others = arrays.items()
    dtype = float_dtype_of(first, array)
    for name, other in others:
        if float_dtype_of(name, other) != dtype:
            raise input_error(f"expected {first} and {name} of one dtype, found {dtype_name(array)} and {dtype_name(other)}")


def check_out(out, like, shape):
    """Raises Error unless an array for a result has the dtype of another and a shape."""
    if out is not None and (shape_of("out", out) != tuple(shape) or dtype_of(out) != dtype_of(like)):
        raise input_error(f"expected out to be {dtype_name(like)} of shape {list(shape)}, found {dtype_name(out)} of shape "
                          f"{list(shape_of('out', out))}")


def new_zeros(like, shape, out=None):
    """Returns an array of zeros with the library, device and dtype of another, or `out` after writing zeros to it."""
    if out is not None:
        check_out(out, like, shape)
        return fill_zeros(out)
    if is_torch(like):
        return like.new_zeros(shape)
    return _module_of(like).zeros(shape, dtype=getattr(like, "dtype", dtype_name(like)))


def fill_zeros(array, where=None):
    """Writes zeros to an array, to all elements or where a mask that can be broadcast is true. Returns the array."""
    if is_torch(array):
        return array.zero_() if where is None else array.masked_fill_(where, 0)
    module = _module_of(array)
    module.copyto(module.asarray(array), 0, where=True if where is None else where)
    return array


def broadcast_to(array, shape):
    """Returns an array with axes of one element repeated to a shape, without a copy."""
    return array.expand(shape) if is_torch(array) else _module_of(array).broadcast_to(array, shape)


def additive_mask(mask):
    """Returns booleans as numbers in f32: 0 where true, minus infinity where false."""
    if is_torch(mask):
        return mask.new_zeros(mask.shape, dtype=sys.modules["torch"].float32).masked_fill_(~mask, -math.inf)
    module = _module_of(mask)
    return module.where(mask, module.float32(0), module.float32(-math.inf))


def column_of_indices(like, count):
    """Returns the integers from 0 to count - 1 in an array of shape [count, 1], with the library and device of another."""
    if is_torch(like):
        return sys.modules["torch"].arange(count, dtype=like.dtype, device=like.device).reshape(count, 1)
    return _module_of(like).arange(count, dtype=like.dtype).reshape(count, 1)


def _module_of(array):
    """Returns CuPy for its arrays, otherwise NumPy."""
    name = "cupy" if is_cupy(array) else "numpy"
    try:
        return __import__(name)
    except ImportError:
        raise Error(4, "the result is a NumPy array, but NumPy is not installed",
                    "pip install numpy, or pass an array for the result: out=array", "", 0, 0,
                    "the result is a NumPy array, but NumPy is not installed\n  hint: pip install numpy, or pass an array "
                    "for the result: out=array") from None
