#!/usr/bin/env python3
"""The tables of docs/performance/products_h200.md: Ridge's products against cuBLASLt's on an H200 by class, from results/h200_matmul_*.json
(`ridge bench matmul --against cublaslt` measures them). Prints them; `--update` writes them into the page; `--check` fails
if the page differs."""
import json
import math
import sys
import tomllib

import page_table

HEAD = ["products", "shapes", "cuBLASLt's best of 8 / ours", "5th percentile", "minimum", "cuBLASLt's first / ours", "fraction of roof",
        "per cycle", "prediction error", "gain by tuning"]
MACHINE = tomllib.loads((page_table.ROOT / "machines/h200.toml").read_text())
PEAK, MEMORY = MACHINE["matrix"]["bf16"]["value"], MACHINE["memory"]["hbm"]["bandwidth"]["value"]  # FLOP/s, the same for f16; bytes/s
FLOPS_PER_CYCLE = PEAK / MACHINE["numbers"]["matrix_clock_hz"]["value"]  # of all multiprocessors


def mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def roof_s(row: dict) -> float:
    m, n, k = row["m"], row["n"], row["k"]
    return max(2 * m * n * k / PEAK, 2 * (m * k + n * k + m * n) / MEMORY)


def fraction_of_peak_cycles(row: dict) -> float:
    return 2 * row["m"] * row["n"] * row["k"] / (row["ours_s"]["median"] * row["sm_hz"] * FLOPS_PER_CYCLE)


def is_aligned(row: dict) -> bool:
    return row["n"] % 8 == 0 and row["k"] % 8 == 0


CLASSES = {
    "suite": [("M ≤ 128", lambda r: r["m"] <= 128), ("128 < M < 2048", lambda r: 128 < r["m"] < 2048),
              ("M ≥ 2048", lambda r: r["m"] >= 2048), ("M ≥ 512", lambda r: r["m"] >= 512)],
    "random": [("n and k multiples of 8", is_aligned)]
    + [(f"… {name}", lambda r, low=low, high=high: is_aligned(r) and low <= r["m"] < high)
       for name, low, high in (("M ≤ 128", 1, 129), ("128 < M < 2048", 129, 2048), ("M ≥ 2048", 2048, 1 << 62))]
    + [("n or k not a multiple of 8", lambda r: not is_aligned(r))],
}


def format_tuning_gain(rows: list[dict]) -> str:
    """Returns the gain of the fastest timed plan over the model's choice, or "-" if the run had no `--tune`."""
    if not all("tuned_ratio" in row for row in rows):
        return "-"
    return f"{mean([row['tuned_ratio'] for row in rows]) / mean([row['ratio'] for row in rows]) - 1:.1%}"


def class_row(name: str, title: str, rows: list[dict]) -> list:
    ratios = sorted(row["ratio"] for row in rows)
    error = sum(abs(row["predicted_s"] / row["ours_s"]["median"] - 1) for row in rows) / len(rows)
    return [f"{name}, {title}", len(rows), f"{mean(ratios):.3f}", f"{ratios[len(ratios) // 20]:.3f}", f"{ratios[0]:.3f}",
             f"{mean([row['ratio_first'] for row in rows]):.3f}",
             f"{mean([roof_s(row) / row['ours_s']['median'] for row in rows]):.0%}",
             f"{mean(list(map(fraction_of_peak_cycles, rows))):.0%}",
             f"{error:.1%}", format_tuning_gain(rows)]


def table() -> str:
    lines = []
    for name, classes in CLASSES.items():
        rows = json.loads((page_table.ROOT / f"results/h200_matmul_{name}.json").read_text())["rows"]
        for title, belongs in classes:
            lines.append(class_row(name, title, [row for row in rows if belongs(row)]))
    return page_table.tables(HEAD, lines, 1, [range(1, 5), range(5, 10)])


if __name__ == "__main__":
    sys.exit(page_table.serve("product_table", "docs/performance/products_h200.md", table()))
