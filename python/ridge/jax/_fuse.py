"""Groups of operations that one kernel could run: chains of pointwise operations and reductions, whose intermediate results
need no memory."""
import dataclasses

from ridge.jax import _counts

_POINTWISE = _counts.POINTWISE | {"convert_element_type", "bitcast_convert_type", "reduce_precision"}
_REDUCTIONS = frozenset("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin".split())


@dataclasses.dataclass
class Record:
    """One operation of a jaxpr: the elements that it reads and writes, as bytes by key."""
    name: str
    reads: dict
    writes: dict

    @property
    def is_fusible(self):
        return self.name in _POINTWISE or self.name in _REDUCTIONS


def fuse(records, kept):
    """Returns the group of each record, as the index of one of its records, and the bytes that the record moves in it.

    `kept` has the keys that must be in memory: results, and operands of loops. A result that only records of its group read is
    not stored. A group reads each key once.
    """
    producers = {key: place for place, record in enumerate(records) for key in record.writes}
    consumers = {}
    for place, record in enumerate(records):
        for key in record.reads:
            consumers.setdefault(key, []).append(place)
    groups = list(range(len(records)))

    def find(place):
        while groups[place] != place:
            groups[place] = groups[groups[place]]
            place = groups[place]
        return place

    unstored = set()
    for key, place in producers.items():
        readers = consumers.get(key, [])
        if key in kept or not all(records[each].is_fusible for each in [place, *readers]):
            continue
        unstored.add(key)
        for each in readers:
            groups[find(each)] = find(place)
    moved, seen = [], set()
    for place, record in enumerate(records):
        group = find(place)
        total = sum(count for key, count in record.writes.items() if key not in unstored)
        for key, count in record.reads.items():
            if key not in unstored and (group, key) not in seen:
                seen.add((group, key))
                total += count
        moved.append(total)
    return [find(place) for place in range(len(records))], moved
