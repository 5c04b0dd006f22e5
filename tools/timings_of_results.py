#!/usr/bin/env python3
"""Turns results of `ridge bench matmul --on a device` into timings of the plans that were chosen, one a product, for
tools/fit_models: timings_of_results.py HEADER.csv RESULTS.json... > timings.csv. HEADER.csv is a file of timings of
the same menu, whose lines of configs are kept."""
import json
import re
import sys

LETTERS = {"split_k": "k", "cooperative_split_k": "w", "cluster_split_k": "c"}
FACTS = {"multiprocessors": 132, "clock_hz": 1980000000, "memory_bytes_per_s": 4800000000000, "l2_bytes": 62914560,
         "clusters_at_once": "132 66 39 30 22 17 15 15"}


def plan_text(plan, configs):
    """None where a result does not tell the plan apart from others: which operand was copied."""
    if plan["kernel"] not in configs or plan["copies"]:
        return None
    cut = "s" if plan["split_mode"] == "stream_k" else ""
    if plan["split"] > 1 and not cut:
        cut = LETTERS[plan["split_mode"]] + str(plan["split"])
    return configs[plan["kernel"]] + cut


def main():
    header = [line for line in open(sys.argv[1]) if line.startswith("# config")]
    configs = {m[2]: m[1] for m in (re.match(r"# config (\d+): (\S+)", line) for line in header)}
    results = [json.load(open(path)) for path in sys.argv[2:]]
    first = results[0]
    print(f"# Timings of the plans that were chosen, from {' '.join(sys.argv[2:])} by tools/timings_of_results.py.")
    print(f"# device: {first['device']}\n# day: {first['day']}\n# ridge: {first['version']} ({first['commit']})")
    print(f"# driver: {first['driver']}")
    for name, value in FACTS.items():
        print(f"# {name}: {value}")
    print("".join(header) + "op,dtype,m,n,k,plans")
    for result in results:
        for row in result["rows"]:
            plan = plan_text(row["plan"], configs)
            if plan and row["out"] == row["dtype"]:
                time = f"{1e6 * row['ours_s']['median']:.4g}"
                print(f"{row['op']},{row['dtype']},{row['m']},{row['n']},{row['k']},{plan}={time}")


if __name__ == "__main__":
    main()
