"""Sizes of dimensions that a caller passes."""
import operator

from ._error import usage_error

MAX_SIZE = 2**63 - 1


def size_of(dim, value):
    """Returns the size of a dimension as an int. Raises Error unless it is a whole number from 1 to 2^63 - 1."""
    try:
        size = operator.index(value)
    except TypeError:
        raise usage_error(f"{dim}: expected a whole number, the size of a dimension, found {value!r}") from None
    if not 1 <= size <= MAX_SIZE:
        raise usage_error(f"{dim}: expected a size from 1 to 2^63 - 1, found {size}")
    return size


def sizes_of(dims, sizes):
    """Returns the sizes of a mapping and of keywords by name, as integers. Raises Error for other values."""
    if dims is not None and not hasattr(dims, "items"):
        raise usage_error(f"dims: expected a mapping from dimensions to sizes, such as {{'B': 64}}, found {dims!r}")
    return {dim: size_of(dim, value) for dim, value in {**(dims or {}), **sizes}.items()}


def check_count(name, value, meaning):
    """Returns an argument as an int. Raises Error unless it is a whole number from 0 to 2^31 - 1."""
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if isinstance(value, bool) or not 0 <= count < 2**31:
        raise usage_error(f"{name}: expected a whole number, {meaning}, found {value!r}")
    return count


def check_threads(threads):
    """Returns a number of threads. Raises Error unless it is a whole number of at least 0."""
    return threads if threads.__class__ is int and 0 <= threads < 2**31 else check_count(
        "threads", threads, "0 for every core")
