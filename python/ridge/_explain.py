"""Predictions and measurements of programs."""
import difflib
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

from . import _ridge
from ._error import Error, text_of, usage_error
from ._sizes import check_count, check_threads, size_of, sizes_of

_CATALOG = None
_OPTIONS = ("on", "dims", "dtype", "split", "link", "memory", "weights", "narrow", "plan", "sustained", "flops", "bytes")


def _is_catalogued(on):
    """True if a machine is in the catalog, so that its numbers cannot change while the process runs."""
    global _CATALOG
    if _CATALOG is None:
        _CATALOG = frozenset(_ridge.catalog())
    return on in _CATALOG


def _is_text(program):
    """True if a program is text and not a file name: it contains one of the operators of the notation."""
    return any(sign in program for sign in "*=>[\n")


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


@overload
def explain(program: Callable[..., Any], inputs: Any = None, *, on: str | os.PathLike[str] | Sequence[str] = "cpu",
            kwargs: Mapping[str, Any] | None = None, training: bool = False, optimizer: Any = None, loss: Any = None) -> Any: ...


@overload
def explain(program: str | os.PathLike[str] | None = None, *, on: str | os.PathLike[str] = "cpu", dims: Mapping[str, int] | None = None,
            dtype: str | None = None, split: tuple[str, int] | None = None, link: str | float | None = None,
            memory: str | float | None = None, weights: str | None = None, narrow: str | None = None, plan: bool = False,
            sustained: bool = False, flops: float | None = None, bytes: float | None = None, **sizes: int) -> _ridge.Report: ...


def explain(program: Any = None, inputs: Any = None, *others: Any, on: Any = "cpu", dims: Mapping[str, int] | None = None,
            dtype: str | None = None, split: tuple[str, int] | None = None, link: str | float | None = None,
            memory: str | float | None = None, weights: str | None = None, narrow: str | None = None, plan: bool = False,
            sustained: bool = False, flops: float | None = None, bytes: float | None = None,
            kwargs: Mapping[str, Any] | None = None, training: bool = False, optimizer: Any = None, loss: Any = None,
            **sizes: int) -> Any:
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
    if callable(program) and not others:
        options = dict(sizes, dims=dims, dtype=dtype, split=split, link=link, memory=memory, weights=weights, narrow=narrow, plan=plan,
                      sustained=sustained, flops=flops, bytes=bytes)
        return _explain_model(program, inputs, on, kwargs, training, optimizer, loss, options)
    if kwargs is not None or training or optimizer is not None or loss is not None:
        raise usage_error("inputs, kwargs, training, optimizer and loss are those of a model; sizes of a program are keywords such as "
                          "B=64")
    if inputs is not None or others:
        count = 1 + len(others)
        raise usage_error(f"expected one program, found {count} more argument{'s' * (count > 1)}: pass sizes by name, such as B=64")
    on = text_of("one machine", on, "h200")
    for name, value in (("dtype", dtype), ("weights", weights), ("narrow", narrow)):
        if value is not None:
            text_of("a dtype's name", value, "bf16")
    if program is None:
        return _explain_work(flops, bytes, on, dtype)
    if flops is not None or bytes is not None:
        raise usage_error("expected a program, or flops and bytes, found both")
    program = _program_text(program)
    given = sizes_of(dims, _refuse_near_options(sizes, program))
    is_cached = _is_catalogued(on) and _is_text(program)
    call = _cached_explain if is_cached else _explain
    return call(program, on, tuple(sorted(given.items())), dtype, _split_of(split), _link_text("link", link),
                _link_text("memory", memory), weights, narrow, bool(plan), bool(sustained))


def _program_text(program):
    """Returns a program's text. Raises Error for a PyTorch module, which another function explains, and other objects."""
    if callable(program):
        raise usage_error("expected a program, such as 'bf16[B, D] * bf16[D, F] -> bf16[B, F]', found a callable: "
                          "ridge.torch.explain(model, inputs, on=...) takes PyTorch models")
    program = text_of("a program", program, "bf16[B, D] * bf16[D, F] -> bf16[B, F]")
    if not program.strip():
        raise usage_error("expected a program, such as 'bf16[B, D] * bf16[D, F] -> bf16[B, F]', found empty text")
    letters = program.replace(",", "").replace(" ", "")
    if "," in program and letters.isalpha() and letters.islower():
        raise usage_error(f"expected an einsum string with its result, such as 'ij,jk->ik', found {program!r}")
    return program


def _refuse_near_options(sizes, program):
    """Returns the sizes. Raises Error for a keyword that is a misspelled option and no name in the program."""
    for name in sizes:
        near = difflib.get_close_matches(name, _OPTIONS, 1, 0.8) if len(name) > 2 and name not in program else []
        if near:
            raise usage_error(f"unknown argument '{name}'; did you mean {near[0]}? Other keywords are sizes of dimensions")
    return sizes


def _explain_work(flops, bytes, on, dtype):
    if flops is None or bytes is None:
        raise usage_error("expected a program, or both flops and bytes")
    for name, value in (("flops", flops), ("bytes", bytes)):
        if isinstance(value, str) or not hasattr(value, "__float__") or not 0 < float(value) < 1e38:
            raise usage_error(f"{name}: expected a number above 0 and below 1e38, found {value!r}")
    return _ridge.explain_work(float(flops), float(bytes), on, dtype or "bf16")


def _split_of(split):
    """Returns the dimension and the number of chips that share it, or None."""
    if split is None:
        return None
    if not isinstance(split, (tuple, list)) or len(split) != 2 or not isinstance(split[0], str):
        raise usage_error(f"split: expected a dimension and how many chips share it, such as ('D', 4), found {split!r}")
    chips = check_count("split", split[1], "how many chips share the dimension")
    if chips < 1:
        raise usage_error(f"split: expected at least one chip, found {chips}")
    return split[0], chips


def _link_text(name, value):
    """Returns the name of a link or memory, or its rate as text, or None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__float__") or not math.isfinite(value):
        raise usage_error(f"{name}: expected a name, or a rate such as '100 GB/s', found {value!r}")
    return str(value)


def measure(program: str | os.PathLike[str], *, on: str = "cpu", dims: Mapping[str, int] | None = None,
            dtype: str | None = None, passes: int = 0, seconds: float = 0.0, threads: int = 0, seed: int = 0,
            **sizes: int) -> _ridge.Report:
    """Runs a program on random inputs, times it and checks it against an fp64 reference, as `ridge run` does.

    on       "cpu", or "cuda" if ridge was built with CUDA
    passes   number of passes; 0 for at least five and at least `seconds` (default 0.2 s)

    Returns a Report with one op for each kernel; `measured` has the time in seconds, the fraction of the roof and the
    largest error. Raises ridge.Error.
    """
    program = _program_text(program)
    on = text_of("a machine, 'cpu' or 'cuda'", on, "cpu")
    if on not in ("cpu", "cuda"):
        raise usage_error(f"on: expected 'cpu' or 'cuda', because a measurement runs here, found {on!r}: ridge.explain "
                          "predicts other machines")
    if dtype is not None:
        dtype = text_of("a dtype's name", dtype, "bf16")
    if not hasattr(seconds, "__float__") or not 0 <= float(seconds) < math.inf:
        raise usage_error(f"seconds: expected a number of at least 0, found {seconds!r}")
    passes = check_count("passes", passes, "0 for at least five")
    return _ridge.measure(program, on, sizes_of(dims, sizes), dtype, passes, float(seconds), check_threads(threads),
                          check_count("seed", seed, "the start of the random numbers"))


def _values(dim, given):
    """Returns the sizes of a dimension: one, several, or those of a range as text."""
    if isinstance(given, str):
        try:
            return _ridge.parse_range(f"{dim}={given}")
        except Error:
            raise usage_error(f"{dim}: expected sizes such as '64', '1,8,64', '1..4096:*2' or '128..512:128', found "
                              f"{given!r}") from None
    if hasattr(given, "__index__") and getattr(given, "shape", ()) == ():
        return [size_of(dim, given)]
    try:
        values = list(given)
    except TypeError:
        raise usage_error(f"{dim}: expected a size, several, or a range such as '1..4096:*2', found {given!r}") from None
    return [size_of(dim, value) for value in values]


def _list(name, given, such_as):
    """Returns one text or several as a list of texts."""
    if isinstance(given, (str, os.PathLike)):
        return [os.fspath(given)]
    try:
        return [text_of(f"{name} as text", each, such_as) for each in given]
    except TypeError:
        raise usage_error(f"{name}: expected one or several, such as {such_as!r}, found {given!r}") from None


def sweep(program: str | os.PathLike[str], *, on: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = "cpu",
          dims: Mapping[str, Any] | None = None, dtype: str | Iterable[str] = (),
          **sizes: int | str | Iterable[int]) -> _ridge.Sweep:
    """Explains a program at many sizes, on several machines, in several dtypes: where the limiter changes.

        ridge.sweep("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on=["h100", "h200"], B="1..4096:*2", D=4096, F=4096)

    A size is a number, an iterable of numbers, or a range in the syntax of the command line. Returns a Sweep: str() is
    the output of the command line, columns() a dict of lists, to_pandas() a data frame (seconds, FLOP, B). Raises
    ridge.Error.
    """
    program = _program_text(program)
    if dims is not None and not hasattr(dims, "items"):
        raise usage_error(f"dims: expected a mapping from dimensions to sizes, such as {{'B': 64}}, found {dims!r}")
    given = {**(dims or {}), **sizes}
    ranges = [(dim, _values(dim, values)) for dim, values in given.items()]
    for dim, values in ranges:
        if not values:
            raise usage_error(f"expected at least one value of dimension '{dim}'")
    machines = _list("on", on, "h200")
    if not machines:
        raise usage_error("on: expected at least one machine, such as 'h200', found none")
    return _ridge.sweep(program, machines, _list("dtype", dtype, "bf16"), ranges)
