"""Predictions and measurements of programs."""
import functools
import operator

from . import _ridge
from ._error import text_of, usage_error

_CATALOG = None


def _is_catalogued(on):
    """True if a machine is in the catalog, so that its numbers cannot change while the process runs."""
    global _CATALOG
    if _CATALOG is None:
        _CATALOG = frozenset(_ridge.catalog())
    return on in _CATALOG


def _is_text(program):
    """True if a program is text and not a file name: it contains one of the operators of the notation."""
    return any(sign in program for sign in "*=>[\n")


def _sizes(dims, sizes):
    """Returns the sizes by name, as integers."""
    given = {**(dims or {}), **sizes}
    for dim, value in given.items():
        try:
            given[dim] = operator.index(value)
        except TypeError:
            raise usage_error(f"{dim}: expected a whole number, the size of a dimension, found {value!r}") from None
    return given


def _explain(program, on, sizes, dtype, split, link, memory, weights, narrow, plan, sustained):
    options = _ridge.ExplainOptions()
    options.dtype, options.link, options.memory, options.weights = dtype, link, memory, weights
    options.narrow = narrow
    options.planned, options.sustained = plan, sustained
    if split is not None:
        options.split_dim, options.chips = split
    return _ridge.explain(program, on, dict(sizes), options)


_cached_explain = functools.lru_cache(maxsize=1024)(_explain)


def _explain_model(model, inputs, on, kwargs, training, optimizer, loss, others):
    given = sorted(name for name, value in others.items() if value is not None and value is not False)
    if given:
        raise usage_error(f"a model takes inputs, kwargs, on, training, optimizer and loss, found {', '.join(given)}")
    from .torch import explain as explain_torch_model  # Imports torch
    return explain_torch_model(model, () if inputs is None else inputs, kwargs, on=on, training=training, optimizer=optimizer, loss=loss)


def explain(program=None, inputs=None, *, on="cpu", dims=None, dtype=None, split=None, link=None, memory=None, weights=None,
            narrow=None, plan=False, sustained=False, flops=None, bytes=None, kwargs=None, training=False, optimizer=None, loss=None,
            **sizes):
    """Returns what limits a program or a PyTorch model on a machine, and its bounds on time; for a program also the sizes at
    which the limit changes.

    program    text, an einsum string or a file path; or a torch.nn.Module or a function of tensors, with `inputs`; or None
               with `flops` (FLOP) and `bytes` (B)
    inputs     arguments of a model: a tensor, a tuple, or a mapping such as a tokenizer's output. `kwargs`, `training`,
               `optimizer` and `loss` are those of ridge.torch.explain, which this calls for models
    on         a machine of ridge.machines(), a .toml file, or "cpu"; for a model also a list of these
    B=64, ...  sizes of dimensions; a dimension without a value stays a symbol. `dims` takes them as a mapping
    dtype      dtype of tensors that declare none (default "bf16")
    split      ("D", 4) splits dimension D over four chips, connected by `link`; results are those of one chip
    memory     memory of the tensors (default: the machine's first)
    weights    storage dtype of the weights
    narrow     storage dtype of the weights and of the tensors that they multiply; `weights` overrides it
    plan       if true, also plan kernels: report.planned
    sustained  if true, use the rates that real programs reach, if known

    Returns a Report, or for a model a ridge.torch.TracedReport; times are in seconds. Raises ridge.Error for an error in the
    program (with its position), the machine or a size. Results for machines of the catalog are cached.
    """
    if callable(program):
        others = dict(sizes, dims=dims, dtype=dtype, split=split, link=link, memory=memory, weights=weights, narrow=narrow, plan=plan,
                      sustained=sustained, flops=flops, bytes=bytes)
        return _explain_model(program, inputs, on, kwargs, training, optimizer, loss, others)
    if inputs is not None or kwargs is not None or training or optimizer is not None or loss is not None:
        raise usage_error("inputs, kwargs, training, optimizer and loss are those of a model; sizes of a program are keywords such as "
                          "B=64")
    on = text_of("one machine", on, "h200")
    if dtype is not None:
        dtype = text_of("a dtype's name", dtype, "bf16")
    if program is None:
        if flops is None or bytes is None:
            raise TypeError("expected a program, or both flops and bytes")
        return _ridge.explain_work(float(flops), float(bytes), on, dtype or "bf16")
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    given = _sizes(dims, sizes)
    is_cached = _is_catalogued(on) and _is_text(program)
    if split is not None and (isinstance(split, str) or len(split) != 2):
        raise usage_error(f"split: expected a dimension and how many chips share it, such as ('D', 4), found {split!r}")
    split = tuple(split) if split is not None else None
    call = _cached_explain if is_cached else _explain
    return call(program, on, tuple(sorted(given.items())), dtype, split, link, memory, weights, narrow, plan,
                sustained)


def measure(program, *, on="cpu", dims=None, dtype=None, passes=0, seconds=0.0, threads=0, seed=0, **sizes):
    """Runs a program on random inputs, times it and checks it against an fp64 reference, as `ridge run` does.

    on       "cpu", or "cuda" if ridge was built with CUDA
    passes   number of passes; 0 for at least five and at least `seconds` (default 0.2 s)

    Returns a Report with one op for each kernel; `measured` has the time in seconds, the fraction of the roof and the
    largest error. Raises ridge.Error.
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
    """Explains a program at many sizes, on several machines, in several dtypes: where the limiter changes.

        ridge.sweep("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on=["h100", "h200"], B="1..4096:*2", D=4096, F=4096)

    A size is a number, an iterable of numbers, or a range in the syntax of the command line. Returns a Sweep: str() is
    the output of the command line, columns() a dict of lists, to_pandas() a data frame (seconds, FLOP, B). Raises
    ridge.Error.
    """
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    given = {**(dims or {}), **sizes}
    ranges = [(dim, _values(dim, values)) for dim, values in given.items()]
    for dim, values in ranges:
        if not values:
            raise usage_error(f"expected at least one value of dimension '{dim}'")
    return _ridge.sweep(program, _list(on), _list(dtype), ranges)
