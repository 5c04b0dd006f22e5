#!/usr/bin/env python3
"""Writes the tables of docs/ that come from results/, between `<!-- table: NAME -->` and `<!-- end of table -->`.

    result_tables.py [--ridge RIDGE] [NAME…]      prints the tables
    result_tables.py [--ridge RIDGE] --update     writes them, and their picture, into docs/
    result_tables.py [--ridge RIDGE] --check      fails if a page or the picture differs

A table is declared by its groups of columns, one group per line: `title = template | title = template`. A line that ends in "|"
goes on. A template is an f-string over the fields of a row; a cell that begins with "?" is "–" if the row lacks a field. Each
group becomes a Markdown table that begins with the columns of the first group; six columns fit a screen. Results with the same
heading share a table."""
import argparse
import functools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from typing import Callable

from tensor_parallel_picture import draw_picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end of table -->\n"
PREFIXES = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, " ": 1, "m": 1e-3, "µ": 1e-6}


# Functions that templates call.
def mean(values):
    """Returns the geometric mean."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def si(number, unit):
    """Returns "25.2 MB"."""
    prefix = next(prefix for prefix in "TGMk mµ" if number >= PREFIXES[prefix])
    return f"{number / PREFIXES[prefix]:.3g} {prefix.strip()}{unit}"


def interval(values):
    return " to ".join(dict.fromkeys(f"{x:.2f}" for x in (min(values), max(values))))


def median_time(seconds):
    return si(statistics.median(seconds), "s")


def tuning_gain(rows):
    """Returns the gain of the fastest timed plan over the model's choice, or "-" if the run had no --tune."""
    if not all("tuned_ratio" in row for row in rows):
        return "-"
    return f"{mean(row['tuned_ratio'] for row in rows) / mean(row['ratio'] for row in rows) - 1:.1%}"


@functools.cache
def read_machine(name):
    return tomllib.loads((ROOT / f"machines/{name}.toml").read_text())


def fractions_of_h200(row):
    """Returns a product's fractions of the roof's time and of the peak per cycle."""
    machine = read_machine("h200")
    peak, bandwidth = machine["matrix"]["bf16"]["value"], machine["memory"]["hbm"]["bandwidth"]["value"]  # FLOP/s, also of f16
    m, n, k, s = row["m"], row["n"], row["k"], row["ours_s"]["median"]
    roof_s = max(2 * m * n * k / peak, 2 * (m * k + n * k + m * n) / bandwidth)
    return roof_s / s, 2 * m * n * k / peak / s * machine["numbers"]["matrix_clock_hz"]["value"] / row["sm_hz"]


# Functions that yield the rows of a table.
# Classes of products: title, smallest and largest M, and whether n and k must be multiples of 8 or not.
CLASSES = {
    "h200_matmul_suite": [
        ("M ≤ 128", 1, 128), ("128 < M < 2048", 129, 2047), ("M ≥ 2048", 2048, math.inf), ("M ≥ 512", 512, math.inf)],
    "h200_matmul_random": [
        ("n and k multiples of 8", 1, math.inf, True), ("… M ≤ 128", 1, 128, True), ("… 128 < M < 2048", 129, 2047, True),
        ("… M ≥ 2048", 2048, math.inf, True), ("n or k not a multiple of 8", 1, math.inf, False)],
}
CPU_CLASSES = [("all", 1, math.inf), ("M > 8", 9, math.inf), ("M ≤ 8", 1, 8)]


def group_rows(rows, key):
    """Yields each key and its rows."""
    for value in dict.fromkeys(map(key, rows)):
        yield value, [row for row in rows if key(row) == value]


def to_columns(rows):
    """Returns the values of each field that all rows have."""
    return {key: [row[key] for row in rows] for key in rows[0] if all(key in row for row in rows)}


def product_classes(result, rows=None):
    """Yields the rows of each class, as lists of their fields."""
    for title, low, high, *aligned in CLASSES.get(result["name"], CPU_CLASSES):
        kept = [row for row in rows or result["rows"] if low <= row["m"] <= high and
                (not aligned or aligned[0] == (row["n"] % 8 == row["k"] % 8 == 0))]
        yield result | to_columns(kept) | {"title": title, "rows": kept}


def cpu_product_classes(result):
    for kind, rows in group_rows(result["rows"], lambda row: row["dtype"] + ("*" + row["weights"] if row.get("weights") else "")):
        yield from (row | {"kind": kind} for row in product_classes(result, rows))


def cpu_streams(result):
    for (kernel, dtype), rows in group_rows(result["rows"], lambda row: (row["kernel"], row["dtype"])):
        yield to_columns(rows) | {"kernel": kernel.replace("_", " "), "dtype": dtype}


def geglu_bounds(result):
    """Yields planned memory and bounds of each size, and the measured times of small ones."""
    def explain(*words):
        command = [result["ridge"], "explain", ROOT / "examples/geglu.ridge", "--json", "-d", f"N={n}", "-d", f"D={d}", *words]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    measured = {(row["N"], row["d"]): row for row in result["rows"]}
    for n, d in [(n, d) for d in (1024, 4096, 8192) for n in (1, 256, 2048, 4096, 8192, 32768)]:
        memory, parameters = explain("--on", "cpu", "--plan")["alive_bytes"], 2 * (8 * d * d + 8 * d)
        if memory["before"] != 2 * 13 * n * d + parameters or memory["after"] != 2 * 5 * n * d + parameters:
            sys.exit(f"N = {n}, d = {d}: expected 13*N*d and 5*N*d elements and the parameters, found {memory}")
        yield explain("--on", "h200") | {"n": n, "d": d, "parameters": parameters, "memory": memory} | measured.get((n, d), {})


def geglu_by_device(result):
    for device, rows in (("busy", result["rows"]), ("idle", result["rows_after_idle"])):
        yield from ({"device": device} | row | row["forward"] | row.get("forward_backward", {}) for row in rows)


@dataclass
class Table:
    page: str
    files: str  # Patterns of names in results/
    columns: str
    rows: Callable = lambda result: result["rows"]
    heading: str = ""

    def render(self, ridge):
        lines, sections = self.columns.strip().replace(" |\n", " | ").splitlines(), {}
        groups = [[cell.strip().split(" = ", 1) for cell in line.split(" | ")] for line in lines]
        head = [[title for title, _ in group] for group in groups]
        for result in read_results(self.files):
            for row in self.rows(result | {"ridge": ridge}):
                cells = [[fill(template, row) for _, template in group] for group in groups]
                sections.setdefault(fill(self.heading, result), []).append(cells)
        return "\n".join((heading and heading + "\n\n") + "\n".join(to_markdown(head, rows, i) for i in range(1, len(groups)))
                         for heading, rows in sections.items())


def fill(template, row):
    """Returns the text of a cell. Templates are constants of this file, so evaluating them is safe."""
    try:
        return eval(f'f"""{template.removeprefix("?")}"""', globals() | row)
    except (NameError, KeyError):
        return "–" if template.startswith("?") else sys.exit(f"no '{template}' in {row}")


def read_results(patterns):
    paths = [path for pattern in patterns.split() for path in sorted((ROOT / "results").glob(pattern))]
    results = [{"name": path.stem, **json.loads(path.read_text())} for path in paths]
    return [{"date": result.get("day"), **result} for result in results]


def to_markdown(head, rows, group):
    """Returns the table of the columns of the first group and of another."""
    kept = [head] + [row for row in rows if any(cell != "–" for cell in row[group])]
    lines = ["| " + " | ".join(row[0] + row[group]) + " |\n" for row in kept]
    return lines[0] + "|" + "---|" * len(head[0]) + "--:|" * len(head[group]) + "\n" + "".join(lines[1:])


TABLES = {
    "attention": Table("performance/attention.md", "h100_attention.json", """
B, heads / key heads, queries, keys, width = {shape[0]}, {shape[1]} / {shape[2]}, {shape[3]}, {shape[4]}, {shape[5]} |
    mask = {'causal' if shape[6] else 'none'}
ours, us = {us['ridge']:.1f} | predicted = {predicted_us:.1f} | FA3 = ?{us['fa3']:.1f} | cuDNN = ?{us['cudnn']:.1f}
PyTorch = ?{us['torch']:.1f} | best / ours = {best_over_ours:.3f} | TFLOP/s = {tflops['ridge']:.0f} |
    error / best = {off['ridge']:.2f}"""),
    "attention_backward": Table("performance/attention_backward.md", "h100_attention_backward.json", """
B, heads / key heads, rows, width = {shape[0]}, {shape[1]} / {shape[2]}, {shape[3]}, {shape[4]} |
    mask = {'causal' if shape[5] else 'none'}
ours, us = {us['ridge']:.1f} | predicted = {predicted_us:.1f} | deterministic = ?{us['ordered']:.1f} | FA3 = ?{us['fa3']:.1f}
cuDNN = ?{us['cudnn']:.1f} | PyTorch = ?{us['torch']:.1f} | best / ours = {best_over_ours:.3f} |
    ours / deterministic = {ours_over_ordered:.3f}
TFLOP/s = {tflops['ridge']:.0f} | error / best = ?{off['ridge']:.2f}"""),
    "cpu_attention": Table("performance/attention.md", "cpu_attention.json", """
dtype, rows, width = {dtype} {rows} {width} | mask = {'causal' if causal else 'none'}
ours, ms = {ridge_s * 1e3:.2f} | GFLOP/s = {flops_per_s / 1e9:.0f} | / product rate = {of_product:.2f} |
    PyTorch / ours = {torch_s / ridge_s:.2f}""",
        heading="{device}, {date}, commit {commit}, PyTorch {torch}; product rate, GFLOP/s: "
        "{', '.join(f'{rate / 1e9:.0f} in {dtype}' for dtype, rate in product_flops_per_s.items())}:"),
    "cpu_products": Table("performance/cpu.md", "cpu_matmul_*.json", """
formats = {kind}, {threads} thread{'s' if threads > 1 else ''} | class = {title}
shapes = {len(rows)} | best library / ours = {mean(ratio):.3f} | minimum = {min(ratio):.3f} |
    fraction of probed peak, median = {statistics.median(fraction_of_peak):.0%}""", cpu_product_classes, "{device}:"),
    "cpu_streams": Table("performance/cpu.md", "cpu_stream_*.json", """
kernel = {kernel} | format = {dtype}
from memory, fraction of roof = {interval(of_roof)} | goal = {bar[0]:.2f} | in cache, fraction of roof = {interval(in_cache)} |
    goal = {in_cache_bar[0]:.2f}""", cpu_streams, "{device}:"),
    "geglu": Table("performance/geglu.md", "cpu_geglu.json", """
N = {n} | d = {d}
parameters = {si(parameters, 'B')} | peak memory, unfused = {si(memory['before'], 'B')} |
    peak memory, fused = {si(memory['after'], 'B')} | saved / parameters = {n / (d + 1):.3g}
H200 bound, unfused = {si(total['time_lower_s'], 's')} | H200 bound, fused = {si(fused['time_lower_s'], 's')}
CPU, unfused = ?{median_time(apart_s)} | CPU, fused = ?{median_time(fused_s)} | PyTorch eager = ?{median_time(torch_s)}""",
        geglu_bounds),
    "geglu_torch": Table("performance/geglu.md", "h200_geglu_torch.json", """
device = {device} | N = {n} | d = {d}
linear = {linear['us']['median']:.0f} | layer (/ linear) = {ridge['us']['median']:.0f} ({1 / ridge['linear_over_this']:.3f}) |
    torch.compile (/ layer) = {forward['compile']['us']['median']:.0f} ({ridge['compile_over_this']:.2f})
training, keeping h = ?{keep_h['us']['median']:.0f} ({keep_h['compile_over_this']:.2f}) |
    training, only x = ?{keep_x['us']['median']:.0f} ({keep_x['compile_over_this']:.2f}) |
    training, torch.compile = ?{forward_backward['compile']['us']['median']:.0f}
memory, keeping h = ?{extra_bytes['keep_h'] / 1e6:.0f} MB | memory, only x = ?{extra_bytes['keep_x'] / 1e6:.0f} MB |
    memory, torch.compile = ?{extra_bytes['compile'] / 1e6:.0f} MB""", geglu_by_device),
    "grouped": Table("performance/grouped.md", "h100_grouped.json", """
groups, rows, n, k = {groups}, {rows}, {n}, {k}
equal groups, us = {alike_us:.0f} | PyTorch / ours = {alike_torch_us / alike_us:.2f} | uneven, us = {uneven_us:.0f} |
    PyTorch / ours = {uneven_torch_us / uneven_us:.2f}
best tile / ours = {min(alike_best_us / alike_us, uneven_best_us / uneven_us):.2f} | predicted = {predicted_us:.0f}"""),
    "products": Table("performance/products_h200.md", "h200_matmul_suite.json h200_matmul_random.json", """
products = {name.split('_')[-1]}, {title}
shapes = {len(rows)} | cuBLASLt's best of 8 / ours = {mean(ratio):.3f} | 5th percentile = {sorted(ratio)[len(ratio) // 20]:.3f} |
    minimum = {min(ratio):.3f}
cuBLASLt's first / ours = {mean(ratio_first):.3f} | fraction of roof = {mean(fractions_of_h200(row)[0] for row in rows):.0%} |
    per cycle = {mean(fractions_of_h200(row)[1] for row in rows):.0%} |
    prediction error = {statistics.fmean(abs(row['predicted_s'] / row['ours_s']['median'] - 1) for row in rows):.1%} |
    gain by tuning = {tuning_gain(rows)}""", product_classes),
    "psgemm": Table("distributed.md", "cpu_psgemm.json", """
ranks, m, n, k = {ranks}: {m} {n} {k}
grid: words moved = {grid.removeprefix('grid ').split(' words')[0]} | ours, ms = {ridge_s * 1e3:.1f} |
    psgemm, ms = {psgemm_s * 1e3:.1f} | psgemm grid, blocks = {psgemm_grid} | ours / psgemm = {ours_over_theirs:.2f}""",
        heading="{device}, ranks of one thread, f32, {date}, commit {commit}; {peer}:"),
    "ranks": Table("distributed.md", "*_ranks_*.json", """
collective, B, D = {case[0]} {case[1]} {case[2]}
product alone = {ridge['product alone']:.3f} | collective alone (NCCL) = {torch['network']:.3f} |
    in turn = {ridge['in turn']:.3f} | in chunks = {ridge['in chunks']:.3f} | of the larger = {over_bound:.2f}
predicted = ?{ridge['predicted chunk']:.3f} | PyTorch in turn = {torch['in turn']:.3f} |
    async tensor parallel = ?{torch['async_tp']:.3f} |
    ours / best of theirs = {min(ridge['in turn'], ridge['in chunks']) / min(torch['in turn'], torch.get('async_tp', math.inf)):.2f}""",
        heading="{device}, {date}, commit {commit}, PyTorch {torch}, NCCL {nccl}, ms:"),
    "tensor_parallel": Table("distributed.md", "*_tensor_parallel*.json", """
layer = {case} | GPUs = {gpus}
pass, us = {pass_s * 1e6:.0f} | predicted = {predicted_s * 1e6:.0f} | error = {abs(predicted_s / pass_s - 1):.1%}
communication, us = {network_s * 1e6:.0f} | predicted = {network_predicted_s * 1e6:.0f} |
    fraction = {network_s / (network_s + computing_s):.0%} | predicted fraction = {network_predicted_s / predicted_s:.0%}""",
        lambda result: [row | {"predicted_s": row["computing_predicted_s"] + row["network_predicted_s"]} for row in result["rows"]],
        "{device}, {date}, commit {commit}, {carrier}:"),
}


def write_pages(tables):
    """Returns the pages with these tables, and the picture, by path."""
    pages = {path: path.read_text() for path in {ROOT / "docs" / TABLES[name].page for name in tables}}
    for name, table in tables.items():
        path, begin = ROOT / "docs" / TABLES[name].page, f"<!-- table: {name} -->\n"
        before, mark, rest = pages[path].partition(begin)
        if not mark:
            sys.exit(f"{path.relative_to(ROOT)}: expected a line {begin.strip()}")
        pages[path] = before + begin + table + END + rest.partition(END)[2]
    return pages | {ROOT / "docs/images/tensor_parallel.svg": draw_picture(read_results(TABLES["tensor_parallel"].files))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--ridge", help="the program that computes the bounds of the table `geglu`, which is left out without it")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in arguments.names or TABLES if name != "geglu" or arguments.ridge]
    tables = {name: TABLES[name].render(arguments.ridge) for name in names}
    if not arguments.update and not arguments.check:
        print("\n".join(tables.values()), end="")
        return 0
    stale = {path: text for path, text in write_pages(tables).items() if path.read_text() != text}
    for path, text in stale.items():
        if arguments.update:
            path.write_text(text)
        else:
            print(f"{path.relative_to(ROOT)} differs from results/; run tools/result_tables.py --ridge RIDGE --update")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
