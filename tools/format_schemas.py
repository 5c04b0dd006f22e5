#!/usr/bin/env python3
"""Formats the JSON Schemas in docs: lines are filled up to 120 columns, and a value that fits on one line is not split.
A property whose schema is split begins and ends a line. --check changes no file and fails if one would change.

    tools/format_schemas.py [--check] [FILE…]
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 120
MAPS_OF_SCHEMAS = ('"properties": ', '"$defs": ')


def to_line(value):
    return json.dumps(value, ensure_ascii=False)


def list_members(value):
    """Returns the members of an object or array, each with the text before its value, such as '"type": '."""
    if isinstance(value, list):
        return [("", inner) for inner in value]
    return [(to_line(key) + ": ", inner) for key, inner in value.items()]


def can_split(value):
    return bool(value) and isinstance(value, (dict, list))


def measure_start(label, value, column, after):
    """Returns the length of a member up to the first place where it is split if it begins a line at this column."""
    whole = len(label + to_line(value)) + after
    if not can_split(value) or column + whole <= WIDTH:
        return whole
    first = len(label) + 1
    return first + measure_start(*list_members(value)[0], column + first, 1)


def append_value(lines, value, depth, after, maps_schemas=False):
    """Appends a value to the last line and to new lines; `after` characters will follow it. True if it was split."""
    line = to_line(value)
    if not can_split(value) or len(lines[-1] + line) + after <= WIDTH:
        lines[-1] += line
        return False
    lines[-1] += line[0]
    members, was_split = list_members(value), False
    for number, (label, inner) in enumerate(members):
        is_last = number == len(members) - 1
        inner_after = after + 1 if is_last else 1
        if number > 0:
            whole = len(label + to_line(inner)) + inner_after
            start = whole if maps_schemas else measure_start(label, inner, depth + 1, inner_after)
            fits = len(lines[-1]) + 1 + start <= WIDTH and not (was_split and (maps_schemas or start < whole))
            lines[-1:] = [lines[-1] + " "] if fits else [lines[-1], " " * (depth + 1)]
        lines[-1] += label
        was_split = append_value(lines, inner, depth + 1, inner_after, not maps_schemas and label in MAPS_OF_SCHEMAS)
        lines[-1] += "" if is_last else ","
    lines[-1] += line[-1]
    return True


def main():
    names = [name for name in sys.argv[1:] if name != "--check"]
    paths = [pathlib.Path(name) for name in names] or sorted((ROOT / "docs").rglob("*.schema.json"))
    failed = [] if paths else ["found no schema"]
    for path in paths:
        text, lines = path.read_text(encoding="utf-8"), [""]
        append_value(lines, json.loads(text), 0, 0)
        formatted = "\n".join(lines) + "\n"
        if text != formatted and "--check" in sys.argv:
            failed.append(f"{path} is not formatted: run tools/format_schemas.py")
        elif text != formatted:
            path.write_text(formatted, encoding="utf-8")
    sys.exit("\n".join(failed) or None)


if __name__ == "__main__":
    main()
