"""What a trace says: bounds of a model on one machine or several, as text, tables, JSON, SVG and data frames."""
import dataclasses
import functools
import html
import json

from ridge import _html
from ridge._html import _engineering
from ridge._traced import OperationReport
from ridge.torch._groups import group_by_module, group_by_operation, group_unknown, largest_limiter

_TIME_OF_UNKNOWN = 0.01  # Fraction of all bytes from which an unknown operation comes before the known ones


@dataclasses.dataclass(frozen=True)
class TracedMemory:
    """Bytes alive when most of them are, in PyTorch's eager order. Allocators round up, and kernels need workspace."""
    peak: int
    weights: int                    # Parameters and buffers
    cache: int                      # Keys and values of past_key_values
    gradients: int
    optimizer: int                  # State of the optimizer
    activations: int                # The rest at the peak: arguments, results, and what backward needs


@dataclasses.dataclass(frozen=True)
class Trace:
    """What was recorded, without a machine: Work of each operation, memory, and the device whose dispatch was traced."""
    title: str
    works: tuple
    memory: TracedMemory
    device: str
    names: object                   # LayerNames
    compulsory_bytes: int           # Arguments and weights that are read, and new results; in any order of the operations


def _percent(part, total):
    return f"{100 * part / total:.1f} %" if total else "0 %"


def _shapes(op):
    return " ".join("x".join(map(str, shape)) or "1" for shape in op.shapes[:3])


def _aligned(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


class TracedReport(OperationReport):
    """Operations of a model in call order. str() is a summary and tables of the slowest modules and operations; a notebook
    shows the same. Times are in seconds, work in FLOP and B."""

    _MODULE_HEAD = ("module", "work", "bytes", "limiter", "lower", "of time")
    _OPERATION_HEAD = ("calls", "operation", "module", "shapes", "dtype", "work", "bytes", "limiter", "lower", "of time")

    def __init__(self, machine, trace):
        self.machine, self.title, self.memory, self.device = machine.name, trace.title, trace.memory, trace.device
        self.ops = tuple(map(machine.time, trace.works))
        self.launch_overhead = machine.overhead  # Seconds, or None if the machine has none on record
        self.time_fused = machine.time_fused(self.ops, trace)
        self._names = trace.names

    @functools.cached_property
    def time_with_launches(self):
        """The same sum where each operation takes at least the time of a launch; None if the machine has none on record."""
        if self.launch_overhead is None:
            return None
        return sum(max(op.time_lower or 0.0, self.launch_overhead) for op in self.ops)

    @functools.cached_property
    def modules(self):
        """Groups of operations by module; equal layers are one group. The slowest is the first."""
        return tuple(group_by_module(self.ops, self._names))

    @functools.cached_property
    def operations(self):
        """Groups of equal operations on the same shapes in equal layers. The slowest is the first."""
        return tuple(group_by_operation(self.ops, self._names))

    def slowest(self, count=10):
        """Returns the operations with the largest lower bounds. Unknown operations with at least 1 % of all bytes come first,
        because their actual time is unknown."""
        least = _TIME_OF_UNKNOWN * self.bytes
        return sorted(self.ops, key=lambda op: (not op.known and op.bytes >= least, op.time_lower or 0.0), reverse=True)[:count]

    def _summary(self):
        """Returns the sentences above the tables; the first one says what limits the model."""
        counted = f", {len(self.unknown)} of them counted by bytes only" if self.unknown else ""
        lines = [self._verdict(), f"{_operations(len(self.ops))}{counted}: {_engineering(self.flops, 'FLOP')}, "
                                  f"{_engineering(self.bytes, 'B')}"]
        if self.launch_overhead is not None:
            lines[1] += (f"; as many launches of {_engineering(self.launch_overhead, 's')}: at least "
                         f"{_engineering(self.time_with_launches, 's')}")
        if self.untimed:
            dtypes = ", ".join(sorted({op.dtype for op in self.untimed}))
            lines.append(f"left out of the time: {_operations(len(self.untimed))}; {self.machine} has no matrix peak for {dtypes} on "
                         "record")
        lines.append(self._memory_line())
        lines.append(f"operations as PyTorch calls them on {self.device}, with attention as one operation")
        return lines

    def _verdict(self):
        one_by_one, fused = _engineering(self.time_lower, "s"), _engineering(self.time_fused, "s")
        limiter, part = largest_limiter(self.ops)
        is_launching = self.launch_overhead is not None and self.time_with_launches > 1.5 * self.time_lower and not self.untimed
        if is_launching:
            line = f"at least {_engineering(self.time_with_launches, 's')} on {self.machine}, limited by launches; {one_by_one} without"
        elif self.time_fused < 0.98 * self.time_lower:
            line = f"at least {fused} on {self.machine} however operations are fused, {one_by_one} one by one"
        else:
            line = f"at least {one_by_one} on {self.machine}"
        if limiter and not is_launching:
            line += f", {100 * part:.0f} % of it limited by {limiter}"
        if self.modules and self.time_lower:
            line += f"; {_count(self.modules[0])}{self.modules[0].label} has {_percent(self.modules[0].time_lower, self.time_lower)}"
        return line

    def _memory_line(self):
        parts = [f"{name} {_engineering(size, 'B')}" for name, size in dataclasses.asdict(self.memory).items()
                 if size and name != "peak"]
        return f"peak memory {_engineering(self.memory.peak, 'B')}: {', '.join(parts) or 'nothing'}"

    def _amounts(self, group):
        is_known = all(op.known for op in group.ops)
        is_timed = any(op.time_lower is not None for op in group.ops)
        return (_engineering(group.flops, "FLOP") if is_known else "unknown", _engineering(group.bytes, "B"), group.limiter or "?",
                _engineering(group.time_lower if is_timed else None, "s"), _percent(group.time_lower, self.time_lower))

    def _module_rows(self, count):
        for group in self.modules[:count]:
            yield f"{_count(group)}{group.label}", *self._amounts(group)

    def _operation_rows(self, count):
        least = _TIME_OF_UNKNOWN * self.bytes
        ranked = sorted(self.operations, key=lambda group: not group.ops[0].known and group.bytes >= least, reverse=True)
        for group in ranked[:count]:
            op = group.ops[0]
            yield str(len(group.ops)), op.name, group.label, _shapes(op), op.dtype, *self._amounts(group)

    def _last_line(self):
        if not self.unknown:
            return ""
        names = ", ".join(f"{group.label} {_engineering(group.bytes, 'B')}" for group in group_unknown(self.ops))
        return (f"unknown: {_operations(len(self.unknown))} with {_engineering(sum(op.bytes for op in self.unknown), 'B')}, "
                f"bounded by their bytes only: {names}")

    def __str__(self):
        lines = [*self._summary(), "", *_aligned([self._MODULE_HEAD, *self._module_rows(12)]), "",
                 *_aligned([self._OPERATION_HEAD, *self._operation_rows(20)])]
        return "\n".join(lines + ([self._last_line()] if self.unknown else []))

    def __repr__(self):
        return f"<ridge.torch.TracedReport of {len(self.ops)} operations on {self.machine}>"

    def _repr_html_(self):
        summary = "<br/>".join(map(html.escape, self._summary()))
        return (f"<div class='ridge'><p>{summary}</p>{_html._picture(self.svg(), 'time of each module')}"
                f"{_html.table(self._MODULE_HEAD, self._module_rows(12), words=1)}"
                f"{_html.table(self._OPERATION_HEAD, self._operation_rows(40), words=5)}"
                f"<p>{html.escape(self._last_line())}</p></div>")

    def columns(self):
        """Returns a dict of lists, one entry for each operation in call order."""
        names = [field.name for field in dataclasses.fields(self.ops[0])] if self.ops else []
        return {"machine": [self.machine] * len(self.ops),
                **{name + ("_s" if name == "time_lower" else ""): [getattr(op, name) for op in self.ops] for name in names}}

    def _tree(self):
        def of(group):
            return {"label": group.label, "layers": group.layers, "calls": len(group.ops), "flops": group.flops, "bytes": group.bytes,
                    "limiter": group.limiter, "time_lower_s": group.time_lower}

        operations = [{**of(group), "name": group.ops[0].name, "shapes": group.ops[0].shapes, "dtype": group.ops[0].dtype,
                       "phase": group.ops[0].phase, "known": group.ops[0].known} for group in self.operations]
        return {"title": self.title, "machine": self.machine, "device": self.device, "time_lower_s": self.time_lower,
                "time_fused_s": self.time_fused, "launches": self.launches, "launch_overhead_s": self.launch_overhead, "time_with_launches_s": self.time_with_launches,
                "flops": self.flops, "bytes": self.bytes, "memory": dataclasses.asdict(self.memory),
                "modules": [of(group) for group in self.modules], "operations": operations}

    def json(self):
        """Returns the totals and the groups as JSON: seconds, FLOP, B."""
        return json.dumps(self._tree(), indent=1)

    def svg(self):
        """Returns a picture: a bar for each module, as long as its lower bound."""
        bars = [(f"{_count(group)}{group.label}", group.time_lower, group.limiter) for group in self.modules[:12]]
        return draw_bars(f"{self.title} on {self.machine}: {_engineering(self.time_lower, 's')}", bars)

    to_json, to_svg = json, svg


def _operations(count):
    return f"{count} operation" + ("s" if count != 1 else "")


def _count(group):
    return f"{group.layers} x " if group.layers > 1 else ""


_COLORS = {"compute": "#c2410c", "memory": "#1d4ed8", None: "#6b7280"}


def draw_bars(title, bars):
    """Returns an SVG of horizontal bars (label, seconds, limiter)."""
    longest = max((seconds for _, seconds, _ in bars), default=0.0) or 1.0
    rows = []
    for place, (label, seconds, limiter) in enumerate(bars):
        y, width = 34 + 22 * place, max(420 * seconds / longest, 1)
        rows.append(f"<text x='192' y='{y + 12}' text-anchor='end'>{html.escape(label[-30:])}</text>"
                    f"<rect x='200' y='{y}' width='{width:.1f}' height='16' fill='{_COLORS.get(limiter, _COLORS[None])}'/>"
                    f"<text x='{206 + width:.1f}' y='{y + 12}'>{html.escape(_engineering(seconds, 's'))}, {limiter or '?'}</text>")
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 800 {44 + 22 * len(bars)}' font-family='sans-serif' "
            f"font-size='12'><text x='8' y='18' font-weight='bold'>{html.escape(title)}</text>{''.join(rows)}</svg>")


class TracedReports(tuple):
    """Reports of one trace on several machines. str() has a row for each; reports["h200"] is that of one machine."""

    _HEAD = ("machine", "fused", "one by one", "with launches", "limiter", "largest module")

    def __getitem__(self, key):
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        for report in self:
            if report.machine == key:
                return report
        raise KeyError(f"expected one of {', '.join(report.machine for report in self)}, found '{key}'")

    def _rows(self):
        for report in self:
            limiter, part = largest_limiter(report.ops)
            first = report.modules[0] if report.modules else None
            largest = f"{_count(first)}{first.label}, {_percent(first.time_lower, report.time_lower)}" if first else ""
            yield (report.machine, _engineering(report.time_fused, "s"), _engineering(report.time_lower, "s"),
                   _engineering(report.time_with_launches, "s"), f"{limiter} {100 * part:.0f} %" if limiter else "?", largest)

    def _first_line(self):
        best = min(self, key=lambda report: report.time_with_launches or report.time_lower)
        return f"lowest of {len(self)} machines: {best._verdict()}"

    def __str__(self):
        return "\n".join([self._first_line(), self[0]._memory_line(), "", *_aligned([self._HEAD, *self._rows()])])

    def __repr__(self):
        return f"<ridge.torch.TracedReports on {', '.join(report.machine for report in self)}>"

    def _repr_html_(self):
        return (f"<div class='ridge'><p>{html.escape(self._first_line())}<br/>{html.escape(self[0]._memory_line())}</p>"
                f"{_html._picture(self.svg(), 'time on each machine')}{_html.table(self._HEAD, self._rows(), words=1)}</div>")

    def columns(self):
        """Returns a dict of lists, one entry for each machine and operation."""
        parts = [report.columns() for report in self]
        return {name: [value for part in parts for value in part[name]] for name in parts[0]}

    def to_pandas(self):
        return _html.to_pandas(self)

    def json(self):
        """Returns a list of the reports of all machines as JSON."""
        return json.dumps([report._tree() for report in self], indent=1)

    def svg(self):
        """Returns a picture: a bar for each machine, as long as its lower bound."""
        bars = [(report.machine, report.time_lower, largest_limiter(report.ops)[0]) for report in self]
        return draw_bars(self[0].title, bars)

    to_json, to_svg = json, svg
