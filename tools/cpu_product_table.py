#!/usr/bin/env python3
"""The tables of docs/performance/cpu.md: Ridge's products on CPUs against OpenBLAS, oneDNN and PyTorch by class, and its
memory-bound kernels against a plain stream, from results/cpu_matmul_*.json and results/cpu_stream_*.json (`ridge bench matmul` and
`ridge bench stream` measure them). Prints them; `--update` writes them into the page; `--check` fails if the page differs."""
import json
import math
import statistics
import sys

import page_table

PRODUCTS = ["formats", "class", "shapes", "best library / ours", "minimum", "fraction of probed peak, median"]
STREAMS = ["kernel", "format", "from memory, fraction of roof", "goal", "in cache, fraction of roof", "goal"]
CLASSES = [("all", lambda m: True), ("M > 8", lambda m: m > 8), ("M ≤ 8", lambda m: m <= 8)]


def read_results(kind: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((page_table.ROOT / "results").glob(f"cpu_{kind}_*.json"))]


def format_dtypes(row: dict) -> str:
    return row["dtype"] + ("*" + row["weights"] if row.get("weights") else "")


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def tables_by_machine(runs: list[dict], head: list, rows_of) -> str:
    """Returns one table per machine, after its name."""
    out = {}
    for run in runs:
        out.setdefault(run["device"], []).extend(rows_of(run))
    return "\n".join(f"{device}:\n\n" + page_table.tables(head, rows, 2, [range(2, 6)]) for device, rows in out.items())


def product_rows(run: dict) -> list:
    out = []
    for kind in dict.fromkeys(map(format_dtypes, run["rows"])):
        for title, belongs in CLASSES:
            rows = [row for row in run["rows"] if format_dtypes(row) == kind and belongs(row["m"])]
            peak = statistics.median(row["fraction_of_peak"] for row in rows)
            ratios = [row["ratio"] for row in rows]
            threads = f"{run['threads']} thread" + ("s" if run["threads"] > 1 else "")
            out.append([f"{kind}, {threads}", title, len(rows), f"{mean(ratios):.3f}", f"{min(ratios):.3f}", f"{peak:.0%}"])
    return out


def stream_rows(run: dict) -> list:
    out = []
    for kernel, dtype in dict.fromkeys((row["kernel"], row["dtype"]) for row in run["rows"]):
        rows = [row for row in run["rows"] if (row["kernel"], row["dtype"]) == (kernel, dtype)]
        memory, cache = [sorted(row[key] for row in rows) for key in ("of_roof", "in_cache")]
        span = [f"{x[0]:.2f}" if len(x) == 1 else f"{x[0]:.2f} to {x[-1]:.2f}" for x in (memory, cache)]
        out.append([kernel.replace("_", " "), dtype, span[0], f"{rows[0]['bar']:.2f}", span[1], f"{rows[0]['in_cache_bar']:.2f}"])
    return out


if __name__ == "__main__":
    tables = (tables_by_machine(read_results("matmul"), PRODUCTS, product_rows) + "\n" +
              tables_by_machine(read_results("stream"), STREAMS, stream_rows))
    sys.exit(page_table.serve("cpu_product_table", "docs/performance/cpu.md", tables))
