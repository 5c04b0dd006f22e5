"""Questions about programs."""
import functools
import operator

from . import _ridge
from ._error import text_of, usage_error

_CATALOG = None


def _is_catalogued(on):
    """Whether a machine's numbers cannot change while the process runs."""
    global _CATALOG
    if _CATALOG is None:
        _CATALOG = frozenset(_ridge.catalog())
    return on in _CATALOG


def _is_text(program):
    """Whether a program is its own text, not a file's name: it holds one of the notation's signs."""
    return any(sign in program for sign in "*=>[\n")


def _sizes(dims, sizes):
    """By name, as whole numbers."""
    given = {**(dims or {}), **sizes}
    for dim, value in given.items():
        try:
            given[dim] = operator.index(value)
        except TypeError:
            raise usage_error(f"{dim}: expected a whole number, the size of a dimension, found {value!r}") from None
    return given


def _explain(program, on, sizes, dtype, split, link, memory, weights, plan, sustained):
    asked = _ridge.Asked()
    asked.dtype, asked.link, asked.memory, asked.weights = dtype, link, memory, weights
    asked.planned, asked.sustained = plan, sustained
    if split is not None:
        asked.split_dim, asked.chips = split
    return _ridge.explain(program, on, dict(sizes), asked)


_kept_explain = functools.lru_cache(maxsize=1024)(_explain)


def explain(program=None, *, on="cpu", dims=None, dtype=None, split=None, link=None, memory=None, weights=None,
            plan=False, sustained=False, flops=None, bytes=None, **sizes):
    """What binds a program on a machine, how long it takes at least, and from which sizes on that changes.

    program    text, einsum string or a file's path; or none, with `flops` (FLOP) and `bytes` (B) instead
    on         a machine of ridge.machines(), a .toml file, or "cpu"
    B=64, ...  sizes of dimensions; one without a value stays a symbol. `dims` takes them as a mapping
    dtype      of tensors that name none: "bf16" by default
    split      ("D", 4): that dimension over four chips, and the answer is one chip's part; `link` between them
    memory     where tensors live: a memory of the machine, the first by default
    weights    a dtype, as if weights were stored in it
    plan       also which kernels would run there: report.planned
    sustained  with the rates that real programs reach, where they are on record

    Returns a Report; times are in seconds. Raises ridge.Error: of the program, with its place; of the machine; of a
    size. The same question about a machine of the catalog is answered from memory.
    """
    on = text_of("one machine", on, "h200")
    if dtype is not None:
        dtype = text_of("a dtype's name", dtype, "bf16")
    if program is None:
        if flops is None or bytes is None:
            raise TypeError("expected a program, or both flops and bytes")
        return _ridge.explain_work(float(flops), float(bytes), on, dtype or "bf16")
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    given = _sizes(dims, sizes)
    keep = _is_catalogued(on) and _is_text(program)
    if split is not None and (isinstance(split, str) or len(split) != 2):
        raise usage_error(f"split: expected a dimension and how many chips share it, such as ('D', 4), found {split!r}")
    split = tuple(split) if split is not None else None
    asked = _kept_explain if keep else _explain
    return asked(program, on, tuple(sorted(given.items())), dtype, split, link, memory, weights, plan, sustained)


def measure(program, *, on="cpu", dims=None, dtype=None, passes=0, seconds=0.0, threads=0, seed=0, **sizes):
    """Runs a program on random inputs here, times it and checks it against an fp64 reference, as `ridge run` does.

    on       "cpu", or "cuda" where ridge was built for it
    passes   exactly so many; 0: at least five, and at least `seconds` (0.2 s by default)

    Returns a Report whose ops, one a kernel, have `measured`: seconds, fraction of the roof, largest error. Raises
    ridge.Error.
    """
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    return _ridge.measure(program, on, _sizes(dims, sizes), dtype, passes, float(seconds), threads, seed)


def _values(dim, given):
    if isinstance(given, str):
        return _ridge.parse_range(f"{dim}={given}")
    if isinstance(given, int):
        return [given]
    return [int(value) for value in given]


def _list(given):
    return [given] if isinstance(given, str) else list(given)


def sweep(program, *, on="cpu", dims=None, dtype=(), **sizes):
    """The same at many sizes, on several machines, in several dtypes: where the limiter changes.

        ridge.sweep("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on=["h100", "h200"], B="1..4096:*2", D=4096, F=4096)

    A size is a number, any iterable of numbers, or a range as the command line writes it. Returns a Sweep: str() is
    what the command line prints, columns() a dict of lists, to_pandas() a data frame (seconds, FLOP, B). Raises
    ridge.Error.
    """
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    given = {**(dims or {}), **sizes}
    ranges = [(dim, _values(dim, values)) for dim, values in given.items()]
    for dim, values in ranges:
        if not values:
            raise usage_error(f"expected at least one value of dimension '{dim}'")
    return _ridge.sweep(program, _list(on), _list(dtype), ranges)
