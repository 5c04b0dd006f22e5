#!/usr/bin/env python3
"""Converts results of `ridge bench matmul` on a device to timings of the chosen plans, one per product, for
tools/fit_models: timings_of_results.py HEADER.csv MACHINE.toml RESULTS.json... > timings.csv. HEADER.csv is a file of
timings of the same kernel configurations, whose config lines are copied. Missing device properties are from the machine
file; the number of concurrent clusters is unknown."""
import json
import re
import sys
import tomllib

LETTERS = {"split_k": "k", "cooperative_split_k": "w", "cluster_split_k": "c"}


def device_properties(machine):
    value = lambda table, name: int(table[name]["value"])
    yield "multiprocessors", value(machine["numbers"], "cores")
    yield "clock_hz", value(machine["numbers"], "clock_hz")
    yield "memory_bytes_per_s", value(machine["memory"]["hbm"], "bandwidth")
    yield "l2_bytes", value(machine["memory"]["l2"], "capacity")


def format_plan(plan, configs):
    """Returns None if the result does not identify the plan: it does not say which operand was copied."""
    if plan["kernel"] == "sm90_gemv":
        return "gemv"
    if plan["kernel"] not in configs or plan["copies"]:
        return None
    cut = "s" if plan["split_mode"] == "stream_k" else ""
    if plan["split"] > 1 and not cut:
        cut = LETTERS[plan["split_mode"]] + str(plan["split"])
    return configs[plan["kernel"]] + cut


def main():
    header = [line for line in open(sys.argv[1]) if line.startswith("# config")]
    configs = {m[2]: m[1] for m in (re.match(r"# config (\d+): (\S+)", line) for line in header)}
    machine = tomllib.load(open(sys.argv[2], "rb"))
    results = [json.load(open(path)) for path in sys.argv[3:]]
    first = results[0]
    print(f"# Timings of the plans that were chosen, from {' '.join(sys.argv[3:])} by tools/timings_of_results.py.")
    print(f"# device: {first['device']}\n# day: {first['day']}\n# ridge: {first['version']} ({first['commit']})")
    print(f"# driver: {first['driver']}")
    for name, value in device_properties(machine):
        print(f"# {name}: {value}")
    print("".join(header) + "op,dtype,m,n,k,plans")
    for result in results:
        for row in result["rows"]:
            plan = format_plan(row["plan"], configs)
            if plan and row["out"] == row["dtype"]:
                time = f"{1e6 * row['ours_s']['median']:.4g}"
                print(f"{row['op']},{row['dtype']},{row['m']},{row['n']},{row['k']},{plan}={time}")


if __name__ == "__main__":
    main()
