#!/usr/bin/env python3
"""The table of docs/performance/attention_backward.md, from results/h100_attention_backward.json
(tools/times/attention_times.py --backward measures it). Prints it; `--update` writes it into the page; `--check` fails if
the page differs."""
import json
import sys

import page_table

RESULTS = page_table.ROOT / "results/h100_attention_backward.json"
HEAD = ["B, heads / key heads, rows, width", "mask", "ours, us", "predicted", "deterministic", "FA3", "cuDNN", "PyTorch", "best / ours", "ours / deterministic", "TFLOP/s", "error / best"]


def table() -> str:
    lines = []
    for row in json.loads(RESULTS.read_text())["rows"]:
        b, h, hk, s, d, causal = row["shape"]
        us = [f"{row['us'][name]:.1f}" if name in row["us"] else "–" for name in ("ordered", "fa3", "cudnn", "torch")]
        off = f"{row['off']['ridge']:.2f}" if row["off"] else "–"
        lines.append([f"{b}, {h} / {hk}, {s}, {d}", "causal" if causal else "none", f"{row['us']['ridge']:.1f}", f"{row['predicted_us']:.1f}", *us,
                      f"{row['best_over_ours']:.3f}", f"{row['ours_over_ordered']:.3f}", f"{row['tflops']['ridge']:.0f}", off])
    return page_table.tables(HEAD, lines, 2, [range(2, 6), range(6, 10), range(10, 12)])


if __name__ == "__main__":
    sys.exit(page_table.serve("attention_backward_table", "docs/performance/attention_backward.md", table()))
