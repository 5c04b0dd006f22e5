"""Roofline analysis of every operation of a JAX function, from its jaxpr."""
import dataclasses
import functools
import re

import jax
from jax.interpreters import partial_eval

from ridge._error import text_of, usage_error
from ridge.jax import _attention, _counts, _fuse
from ridge.jax._report import Work, make_report

_REFUSED = {"shard_map": "the function that shard_map maps", "xla_pmap": "the function that pmap maps"}
# Operations that are computed by a function of others.
_FUNCTIONS = {"ridge_attention_tangent": _attention._tangent}
_SPELLING = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16", "float8_e4m3fn": "e4m3",
             "float8_e5m2": "e5m2"}


# Operations whose jaxpr is for one element or one tile.
_OF_ELEMENTS = ("reduce", "scatter", "select_and", "pallas_call", "custom_partitioning")


def _called(params):
    """Returns the jaxpr of the function that an operation calls, without its derivatives, or None."""
    return next((params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "callee") if name in params), None)


class _Walk:
    """Records the operations of a jaxpr and of those that it calls."""

    def __init__(self):
        self.works, self.notes, self._groups = [], [], 0

    def walk(self, jaxpr, times=1, scope=""):
        """Records a jaxpr, of which each operation is called so many times."""
        level = _Level()
        level.kept.update(key for key, _ in self._visit_all(jaxpr, times, scope, (), level))
        groups, moved = _fuse.fuse(level.records, level.kept)
        of_group = {group: self._groups + place for place, group in enumerate(dict.fromkeys(groups))}
        self._groups += len(of_group)
        self.works += [dataclasses.replace(work, group=of_group[group], fused_bytes=count if record.is_fusible else work.bytes)
                       for work, record, group, count in zip(level.works, level.records, groups, moved)]

    def _visit_all(self, jaxpr, times, scope, operands, level):
        """Visits a jaxpr whose first operands show these elements. Returns the key and the bytes of each result."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)  # The open jaxpr of a closed one
        stored = dict(zip(jaxpr.invars, operands))  # By variable: key and bytes of the elements that it shows
        for eqn in jaxpr.eqns:
            inner_scope = "/".join(filter(None, [scope, str(eqn.source_info.name_stack)]))
            self._visit(eqn, times, inner_scope, stored, level)
        return [_source(var, stored) for var in jaxpr.outvars]

    def _visit(self, eqn, times, scope, stored, level):
        name, params = eqn.primitive.name, eqn.params
        if name in _REFUSED:
            raise usage_error(f"expected a function without {name}, whose shapes are those of one device; explain "
                              f"{_REFUSED[name]}, with the shapes of one device")
        if name in _counts.FREE:
            _share(eqn, stored, level)
        elif name in ("scan", "while", "cond") or name in _FUNCTIONS:
            level.kept.update(_source(var, stored)[0] for var in eqn.invars)
            self._visit_loop(eqn, times, scope)
        elif name.startswith(_OF_ELEMENTS) or not _called(params):
            _record(eqn, times, scope, stored, level)
        else:
            operands = [_source(var, stored) for var in eqn.invars]
            stored.update(zip(eqn.outvars, self._visit_all(_called(params), times, scope, operands, level)))

    def _visit_loop(self, eqn, times, scope):
        name, params = eqn.primitive.name, eqn.params
        if name == "scan":
            self.walk(params["jaxpr"], times * params["length"], scope)
        elif name == "while":
            self.notes.append("a while loop, whose number of iterations is unknown, is counted as one iteration")
            self.walk(params["cond_jaxpr"], times, scope)
            self.walk(params["body_jaxpr"], times, scope)
        elif name == "cond":
            self.notes.append("a conditional is counted as its most expensive branch")
            self._visit_branches(params["branches"], times, scope)
        else:
            operands = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
            self.walk(jax.make_jaxpr(functools.partial(_FUNCTIONS[name], **params))(*operands), times, scope)

    def _visit_branches(self, branches, times, scope):
        """Records the branch with the most FLOPs; of equal ones, that with the most bytes."""
        before, notes, first = self.works, self.notes, self._groups
        found = []
        for branch in branches:
            self.works, self.notes, self._groups = [], [], first
            self.walk(branch, times, scope)
            found.append((self.works, self.notes, self._groups))
        works, more, self._groups = max(found, key=lambda each: (sum((work.flops or 0) * work.calls for work in each[0]),
                                                                 sum(work.bytes * work.calls for work in each[0])))
        self.works, self.notes = before + works, notes + more


class _Level:
    """Operations that are called equally often, and the keys of what they must leave in memory."""

    def __init__(self):
        self.works, self.records, self.kept = [], [], set()


def _record(eqn, times, scope, stored, level):
    name = eqn.primitive.name
    avals, results = [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars]
    flops, on_matrix = _counts.count_flops(name, avals, eqn.params, results)
    reads = _read_bytes(eqn, stored)
    moved = _counts.count_bytes(name, reads.values(), avals, results)
    first = (avals or results)[0]
    phase = "backward" if "transpose(" in scope else "forward"
    path = re.sub(r"\w+\(|\)", "", scope).replace("/", ".").strip(".")
    dtype = _SPELLING.get(str(first.dtype), str(first.dtype))
    shapes = tuple(aval.shape for var, aval in zip(eqn.invars, avals) if not _is_literal(var))
    level.works.append(Work(name, path, shapes, dtype, flops, moved, on_matrix, phase, times))
    level.records.append(_fuse.Record(name, reads, {var: _counts.all_bytes(var.aval) for var in eqn.outvars}))


def _is_literal(var):
    return hasattr(var, "val")


def _source(var, stored):
    """Returns the key and the bytes of the elements that a variable shows. A literal is part of the program."""
    return (None, 0) if _is_literal(var) else stored.get(var, (var, _counts.all_bytes(var.aval)))


def _share(eqn, stored, level):
    """Records that a view shows elements of its operand. Values computed in place, such as iota, have no bytes."""
    key, held = _source(eqn.invars[0], stored) if eqn.invars else (None, 0)
    is_part = eqn.primitive.name in ("slice", "split")
    if is_part:
        level.kept.add(key)
    for var in eqn.outvars:
        stored[var] = (var if is_part else key, min(held, _counts.all_bytes(var.aval)))


def _read_bytes(eqn, stored):
    """Returns the bytes of the operands by key; an operand that is given twice is read once."""
    found = {}
    for var in eqn.invars:
        key, held = _source(var, stored)
        if key is not None:
            found[key] = max(found.get(key, 0), held)
    return found


def explain(function, *args, on="cpu", **kwargs):
    """Traces a JAX function and computes the roofline bound of each operation of its jaxpr. Nothing is computed.

    function  a function of arrays and pytrees of arrays, such as a model, its gradient (jax.grad inside or outside), or a step
    args      arrays or jax.ShapeDtypeStruct, in pytrees as the function takes them; kwargs likewise
    on        a machine of ridge.machines(), a .toml file, or "cpu"

    Returns a TracedReport; times are in seconds. A scan counts each operation `length` times, a while loop once, a conditional its
    most expensive branch; report.notes says so. Operations that no result needs are not counted. In report.time_lower, each
    operation reads its operands and writes its results once. In report.time_fused, chains of pointwise operations and reductions
    are one kernel each, which XLA can do for most of them. Views, broadcasts and iota cost nothing. An unknown operation is listed
    with its bytes. Raises ridge.Error for shard_map and pmap.
    """
    closed = jax.make_jaxpr(function)(*args, **kwargs)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    walk = _Walk()
    walk.walk(jaxpr)
    return make_report(getattr(function, "__name__", "function"), walk.works, walk.notes,
                       text_of("one machine", on, "h200"))
