"""Groups of operations: equal layers together, by module and by operation."""
import dataclasses
from typing import Optional


@dataclasses.dataclass(frozen=True)
class Group:
    """Operations of one kind, in sequence."""
    label: str                      # For example "self_attn"; of an operation, its module's path with "*" for layer numbers
    layers: int                     # Number of equal layers that the operations belong to
    ops: tuple

    @property
    def time_lower(self):
        return sum(op.time_lower or 0.0 for op in self.ops)

    @property
    def flops(self):
        return sum(op.flops or 0 for op in self.ops)

    @property
    def bytes(self):
        return sum(op.bytes for op in self.ops)

    @property
    def limiter(self) -> Optional[str]:
        """The limiter of most of the time; None if most of it is of operations without one."""
        return largest_limiter(self.ops)[0]


def largest_limiter(ops):
    """Returns the limiter of most of the operations' time, and its fraction of that time."""
    times = {}
    for op in ops:
        times[op.limiter] = times.get(op.limiter, 0.0) + (op.time_lower or 0.0)
    total = sum(times.values())
    if not total:
        return None, 0.0
    limiter = max(times, key=times.get)
    return limiter, times[limiter] / total


class LayerNames:
    """Patterns of module paths: numbers of equal layers become "*". Layers are equal if all modules of their list have one type."""

    def __init__(self, modules):
        """`modules` is a mapping from paths to modules."""
        self._types = {}
        for path, module in modules.items():
            parent, _, name = path.rpartition(".")
            if name.isdigit():
                self._types.setdefault(parent, []).append(f"{type(module).__module__}.{type(module).__qualname__}")

    def pattern(self, path):
        parts = path.split(".")
        for position, part in enumerate(parts):
            of_list = self._types.get(".".join(path.split(".")[:position]), [])
            if part.isdigit() and len(of_list) > 1 and len(set(of_list)) == 1:
                parts[position] = "*"
        return ".".join(parts)

    def split(self, path):
        """Returns the pattern and the path of the part of a layer that a module belongs to: ("layers.*.mlp", "layers.3.mlp")."""
        parts = self.pattern(path).split(".")
        kept = parts.index("*") + 2 if "*" in parts else len(parts)
        return ".".join(parts[:kept]), ".".join(path.split(".")[:kept])


def group_by_module(ops, names):
    """Returns a Group for each part of the model, the slowest first."""
    found, layers = {}, {}
    for op in ops:
        pattern, path = names.split(op.module) if op.phase != "step" else ("optimizer", "optimizer")
        found.setdefault(pattern, []).append(op)
        layers.setdefault(pattern, set()).add(path)
    short = {pattern: _last_name(pattern) for pattern in found}
    repeated = {name for name in short.values() if list(short.values()).count(name) > 1}
    groups = [Group(short[pattern] if short[pattern] not in repeated else pattern, len(layers[pattern]), tuple(each))
              for pattern, each in found.items()]
    return sorted(groups, key=lambda group: group.time_lower, reverse=True)


def _last_name(pattern):
    names = [part for part in pattern.split(".") if part != "*"]
    return names[-1] if names and names[-1] else pattern or "(model)"


def group_by_operation(ops, names):
    """Returns a Group for each operation on the same shapes in equal layers, the slowest first."""
    found = {}
    for op in ops:
        found.setdefault((names.pattern(op.module), op.name, op.shapes, op.dtype, op.phase), []).append(op)
    groups = [Group(key[0], len({op.module for op in each}), tuple(each)) for key, each in found.items()]
    return sorted(groups, key=lambda group: group.time_lower, reverse=True)


def group_unknown(ops):
    """Returns a Group for each name of an unknown operation, the one with the most bytes first."""
    found = {}
    for op in ops:
        if not op.known:
            found.setdefault(op.name, []).append(op)
    groups = [Group(name, len({op.module for op in each}), tuple(each)) for name, each in found.items()]
    return sorted(groups, key=lambda group: group.bytes, reverse=True)
