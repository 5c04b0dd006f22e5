#!/usr/bin/env python3
"""The table of docs/distributed.md that compares products on CPU ranks with ScaLAPACK's psgemm, from results/cpu_psgemm.json
(tools/times/psgemm_times.py measures it). Prints it; `--update` writes it into the page; `--check` fails if the page
differs."""
import json
import sys

import page_table

HEAD = ["ranks, m, n, k", "grid: words moved", "ours, ms", "psgemm, ms", "psgemm grid, blocks", "ours / psgemm"]


def table() -> str:
    results = json.loads((page_table.ROOT / "results/cpu_psgemm.json").read_text())
    lines = []
    for row in results["rows"]:
        lines.append([f"{row['ranks']}: {row['m']} {row['n']} {row['k']}", row["grid"].removeprefix("grid ").split(" words")[0], f"{row['ridge_s'] * 1e3:.1f}", f"{row['psgemm_s'] * 1e3:.1f}", row["psgemm_grid"],
                      f"{row['ours_over_theirs']:.2f}"])
    head = f"{results['device']}, ranks of one thread, f32, {results['date']}, commit {results['commit']}; {results['peer']}:\n\n"
    return head + page_table.tables(HEAD, lines, 1, [range(1, 6)])


if __name__ == "__main__":
    sys.exit(page_table.serve("psgemm_table", "docs/distributed.md", table()))
