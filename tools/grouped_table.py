#!/usr/bin/env python3
"""The table of docs/performance/grouped.md, from results/h100_grouped.json (tools/times/grouped_times.py measures it). Prints
it; `--update` writes it into the page; `--check` fails if the page differs."""
import json
import sys

import page_table

RESULTS = page_table.ROOT / "results/h100_grouped.json"
HEAD = ["groups, rows, n, k", "equal groups, us", "PyTorch / ours", "uneven, us", "PyTorch / ours", "best tile / ours", "predicted"]


def table() -> str:
    lines = []
    for row in json.loads(RESULTS.read_text())["rows"]:
        ways = [[f"{row[way + '_us']:.0f}", f"{row[way + '_torch_us'] / row[way + '_us']:.2f}"] for way in ("alike", "uneven")]
        best = min(row[way + "_best_us"] / row[way + "_us"] for way in ("alike", "uneven"))
        lines.append([", ".join(str(row[x]) for x in ("groups", "rows", "n", "k")), *ways[0], *ways[1], f"{best:.2f}", f"{row['predicted_us']:.0f}"])
    return page_table.tables(HEAD, lines, 1, [range(1, 5), range(5, 7)])


if __name__ == "__main__":
    sys.exit(page_table.serve("grouped_table", "docs/performance/grouped.md", table()))
