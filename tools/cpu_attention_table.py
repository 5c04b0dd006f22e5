#!/usr/bin/env python3
"""The CPU table of docs/performance/attention.md, from results/cpu_attention.json (tools/times/cpu_times.py
measures it). Prints it; `--update` writes it into the page; `--check` fails if the page differs."""
import json
import sys

import page_table

HEAD = ["dtype, rows, width", "mask", "ours, ms", "GFLOP/s", "/ product rate", "PyTorch / ours"]


def table() -> str:
    results = json.loads((page_table.ROOT / "results/cpu_attention.json").read_text())
    lines = [[f"{r['dtype']} {r['rows']} {r['width']}", "causal" if r["causal"] else "none", f"{r['ridge_s'] * 1e3:.2f}", f"{r['flops_per_s'] / 1e9:.0f}",
              f"{r['of_product']:.2f}", f"{r['torch_s'] / r['ridge_s']:.2f}"] for r in results["rows"]]
    rates = ", ".join(f"{rate / 1e9:.0f} in {dtype}" for dtype, rate in results["product_flops_per_s"].items())
    head = f"{results['device']}, {results['date']}, commit {results['commit']}, PyTorch {results['torch']}; product rate, GFLOP/s: {rates}:\n\n"
    return head + page_table.tables(HEAD, lines, 2, [range(2, 6)])


if __name__ == "__main__":
    sys.exit(page_table.serve("cpu_attention_table", "docs/performance/attention.md", table()))
