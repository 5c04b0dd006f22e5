#!/usr/bin/env python3
"""Counts the fitted numbers of kernels (data/models) and of machines ([plan] in machines/) and prints their provenance.
--check fails on a file without tool, device, day and timings, or a machine with more than ten numbers."""
import argparse
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER_KEYS = ("tool", "device", "day", "timings")
MAX_PER_MACHINE = 10
NUMBERS_ELSEWHERE = 3  # cores, L2 capacity, launch_s or the clock, which are in other sections of a machine file


def read_model(path):
    lines = path.read_text().splitlines()
    facts = dict(re.match(r"# (\w+): (.*)", line).groups() for line in lines if re.match(r"# \w+: ", line))
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    return facts, rows[0], rows[1:]  # the fitted numbers follow the name


def count_numbers(columns, rows):
    """Counts cells that are numbers; in trees every edge, node and leaf. Derived numbers do not count: they use no timings."""
    if "origin" in columns:
        rows = [row for row in rows if row[columns.index("origin")] != "derived"]
    is_number = lambda word: bool(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word))
    counted = [i for i, name in enumerate(columns) if i > 0 and name not in ("unit", "meaning", "start")]
    return sum(is_number(word) for row in rows for i in counted for word in re.split(r"[ :]", row[i]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="print only the counts")
    parser.add_argument("--check", action="store_true", help="fail if provenance is missing")
    arguments = parser.parse_args()
    wrong, total = [], 0
    for path in sorted((ROOT / "data/models").glob("*.csv")):
        facts, columns, rows = read_model(path)
        trees = sum(row[0] == "tree" for row in rows)
        count = count_numbers(columns, rows)
        total += count
        wrong += [f"{path.name} has no line '{fact}'" for fact in HEADER_KEYS if not facts.get(fact)]
        line = f"{path.name:24} {count:6} numbers in {len(rows)} lines" + (f", {trees} trees" if trees else "")
        print(line if arguments.count else f"{line}: {'; '.join(f'{fact} {facts.get(fact)}' for fact in HEADER_KEYS)}")
    for path in sorted((ROOT / "machines").glob("*.toml")):
        machine = tomllib.loads(path.read_text())
        if machine.get("kernels") != "sm90":
            continue
        plan = machine.get("plan", {})
        total += len(plan)
        if len(plan) + NUMBERS_ELSEWHERE > MAX_PER_MACHINE:
            wrong.append(f"{path.name} has {len(plan) + NUMBERS_ELSEWHERE} numbers for plans, at most {MAX_PER_MACHINE}")
        print(f"{path.name:24} {len(plan):6} numbers" + ("" if plan else ": no plans were timed"))
    print(f"{'all':24} {total:6} numbers")
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
