#!/usr/bin/env python3
"""The table of docs/performance/geglu.md that compares the gated layer with PyTorch's on an H200, from results/h200_geglu_torch.json
(tools/times/geglu_times.py measures it). Prints it; `--update` writes it into the page; `--check` fails if the page
differs."""
import json
import sys

import page_table

RESULTS = page_table.ROOT / "results/h200_geglu_torch.json"
HEAD = ["device", "N", "d", "linear", "layer (/ linear)", "torch.compile (/ layer)", "training, keeping h", "training, only x", "training, torch.compile",
        "memory, keeping h", "memory, only x", "memory, torch.compile"]


def table() -> str:
    results, lines = json.loads(RESULTS.read_text()), []
    for device, rows in (("busy", results["rows"]), ("idle", results["rows_after_idle"])):
        for row in rows:
            forward = row["forward"]
            time = {name: f"{forward[name]['us']['median']:.0f}" for name in forward}
            cells = [device, row["n"], row["d"], time["linear"], f"{time['ridge']} ({1 / forward['ridge']['linear_over_this']:.3f})",
                     f"{time['compile']} ({forward['ridge']['compile_over_this']:.2f})"]
            both = row.get("forward_backward")
            cells += [f"{both[name]['us']['median']:.0f} ({both[name]['compile_over_this']:.2f})" if both else "–" for name in ("keep_h", "keep_x")]
            cells.append(f"{both['compile']['us']['median']:.0f}" if both else "–")
            cells += [f"{row['extra_bytes'][name] / 1e6:.0f} MB" if both else "–" for name in ("keep_h", "keep_x", "compile")]
            lines.append(cells)
    return page_table.tables(HEAD, lines, 3, [range(3, 6), range(6, 9), range(9, 12)])


if __name__ == "__main__":
    sys.exit(page_table.serve("geglu_torch_table", "docs/performance/geglu.md", table()))
