#!/usr/bin/env python3
"""The tables of docs/distributed.md of products and their collectives on several GPUs, from results/*_ranks_*.json
(tools/times/ranks_times.py measures them). Prints them; `--update` writes them into the page; `--check` fails if the page
differs."""
import json
import sys

import page_table

HEAD = ["collective, B, D", "product alone", "collective alone (NCCL)", "in turn", "in chunks", "of the larger", "predicted", "PyTorch in turn",
        "async tensor parallel", "ours / best of theirs"]


def table(results) -> str:
    lines = []
    for row in results["rows"]:
        ours, theirs = row["ridge"], row["torch"]
        peers = [theirs[name] for name in ("in turn", "async_tp") if name in theirs]
        best = min(ours["in turn"], ours["in chunks"])
        lines.append([" ".join(map(str, row["case"][:3])), f"{ours['product alone']:.3f}", f"{theirs['network']:.3f}", f"{ours['in turn']:.3f}",
                      f"{ours['in chunks']:.3f}", f"{row['over_bound']:.2f}", f"{ours['predicted chunk']:.3f}" if "predicted chunk" in ours else "–",
                      f"{theirs['in turn']:.3f}", f"{theirs['async_tp']:.3f}" if "async_tp" in theirs else "–", f"{best / min(peers):.2f}"])
    head = f"{results['device']}, {results['date']}, commit {results['commit']}, PyTorch {results['torch']}, NCCL {results['nccl']}, ms:\n\n"
    return head + page_table.tables(HEAD, lines, 1, [range(1, 6), range(6, 10)])


def tables() -> str:
    return "\n".join(table(json.loads(path.read_text())) for path in sorted(page_table.ROOT.glob("results/*_ranks_*.json")))


if __name__ == "__main__":
    sys.exit(page_table.serve("ranks_table", "docs/distributed.md", tables()))
