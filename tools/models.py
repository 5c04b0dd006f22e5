#!/usr/bin/env python3
"""How many fitted numbers there are, and who made them: of kernels (data/models) and of machines ([plan] in machines/).
--check fails on a file that does not say its tool, device, day and timings, or a machine with more than ten numbers."""
import argparse
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAID = ("tool", "device", "day", "timings")
MOST_OF_A_MACHINE = 10
OF_DEVICE = 3  # cores, the L2's capacity, launch_s or the clock, which stand elsewhere in a machine file


def read(path):
    lines = path.read_text().splitlines()
    facts = dict(re.match(r"# (\w+): (.*)", line).groups() for line in lines if re.match(r"# \w+: ", line))
    rows = [line.split(",") for line in lines if line and not line.startswith("#")]
    return facts, rows[0], rows[1:]  # what is fitted stands behind the name


def numbers_in(columns, rows):
    """Cells that are numbers; of trees every edge, node and leaf. What is derived was not found by looking at timings."""
    if "origin" in columns:
        rows = [row for row in rows if row[columns.index("origin")] != "derived"]
    is_number = lambda word: bool(re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word))
    counted = [i for i, name in enumerate(columns) if i > 0 and name not in ("unit", "meaning", "start")]
    return sum(is_number(word) for row in rows for i in counted for word in re.split(r"[ :]", row[i]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="the counts alone")
    parser.add_argument("--check", action="store_true", help="fail where somebody is not named")
    arguments = parser.parse_args()
    wrong, total = [], 0
    for path in sorted((ROOT / "data/models").glob("*.csv")):
        facts, columns, rows = read(path)
        trees = sum(row[0] == "tree" for row in rows)
        count = numbers_in(columns, rows)
        total += count
        wrong += [f"{path.name} does not say its {fact}" for fact in SAID if not facts.get(fact)]
        line = f"{path.name:24} {count:6} numbers in {len(rows)} lines" + (f", {trees} trees" if trees else "")
        print(line if arguments.count else f"{line}: {'; '.join(f'{fact} {facts.get(fact)}' for fact in SAID)}")
    for path in sorted((ROOT / "machines").glob("*.toml")):
        machine = tomllib.loads(path.read_text())
        if machine.get("kernels") != "sm90":
            continue
        plan = machine.get("plan", {})
        total += len(plan)
        if len(plan) + OF_DEVICE > MOST_OF_A_MACHINE:
            wrong.append(f"{path.name} has {len(plan) + OF_DEVICE} numbers for plans, at most {MOST_OF_A_MACHINE}")
        print(f"{path.name:24} {len(plan):6} numbers" + ("" if plan else ": nobody timed plans there"))
    print(f"{'all':24} {total:6} numbers")
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
