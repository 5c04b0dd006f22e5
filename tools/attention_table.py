#!/usr/bin/env python3
"""The table of docs/performance/attention.md, from results/h100_attention.json (tools/times/attention_times.py measures it).
Prints it; `--update` writes it into the page; `--check` fails if the page differs."""
import json
import sys

import page_table

RESULTS = page_table.ROOT / "results/h100_attention.json"
HEAD = ["B, heads / key heads, queries, keys, width", "mask", "ours, us", "predicted", "FA3", "cuDNN", "PyTorch", "best / ours", "TFLOP/s", "error / best"]


def table() -> str:
    lines = []
    for row in json.loads(RESULTS.read_text())["rows"]:
        b, h, hk, s, t, d, causal = row["shape"]
        us = [f"{row['us'][name]:.1f}" if name in row["us"] else "–" for name in ("fa3", "cudnn", "torch")]
        lines.append([f"{b}, {h} / {hk}, {s}, {t}, {d}", "causal" if causal else "none", f"{row['us']['ridge']:.1f}", f"{row['predicted_us']:.1f}", *us,
                      f"{row['best_over_ours']:.3f}", f"{row['tflops']['ridge']:.0f}", f"{row['off']['ridge']:.2f}"])
    return page_table.tables(HEAD, lines, 2, [range(2, 6), range(6, 10)])


if __name__ == "__main__":
    sys.exit(page_table.serve("attention_table", "docs/performance/attention.md", table()))
