#!/usr/bin/env python3
"""The table of docs/performance/geglu.md: memory and time of a GEGLU layer over a range of sizes.

    tools/geglu_table.py build/ridge            prints the table of memory and bounds; runs nothing
    tools/geglu_table.py build/ridge --measure  also runs the small rows on this CPU and writes results/cpu_geglu.json
    tools/geglu_table.py build/ridge --check    fails if docs/performance/geglu.md differs
    tools/geglu_table.py build/ridge --update   writes it there

--only N,d measures one row and keeps the others. With --torch PYTHON that interpreter's PyTorch also runs the measured
rows, alternating with ours: eager, bf16, two threads."""
import json
import os
import pathlib
import subprocess
import sys

import page_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYER = str(ROOT / "examples/geglu.ridge")
RESULTS, PAGE = ROOT / "results/cpu_geglu.json", ROOT / "docs/performance/geglu.md"
ROWS = [(n, d) for d in (1024, 4096, 8192) for n in (1, 256, 2048, 4096, 8192, 32768)]
MAX_FLOP = 1e11  # per pass of a measured row: about a second on two cores
TORCH = """
import sys, time, torch
n, d = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(2)
x, w, b = torch.randn(n, d).bfloat16(), torch.randn(8 * d, d).bfloat16(), torch.randn(8 * d).bfloat16()
def layer():
    value, gate = torch.nn.functional.linear(x, w, b).chunk(2, dim=-1)
    return value * torch.nn.functional.gelu(gate)
times = []
with torch.no_grad():
    layer()
    while len(times) < 5 or sum(times) < 0.5:
        start = time.perf_counter(); layer(); times.append(time.perf_counter() - start)
print(sorted(times)[len(times) // 2])
"""


def run_ridge(binary: str, verb: str, *options: str) -> dict:
    done = subprocess.run([binary, verb, LAYER, "--json", *options], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def size_options(n: int, d: int) -> list[str]:
    return ["-d", f"N={n}", "-d", f"D={d}"]


def measure(binary: str, torch: str, only: str) -> dict:
    rows = json.loads(RESULTS.read_text())["rows"] if only else []
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    for n, d in ROWS:
        if 16.0 * n * d * d > MAX_FLOP or only not in ("", f"{n},{d}"):
            continue
        rows = [row for row in rows if (row["N"], row["d"]) != (n, d)]
        row = {"N": n, "d": d, "fused_s": [], "apart_s": [], "torch_s": []}
        for _ in range(3):
            for key, options in (("fused_s", []), ("apart_s", ["--no-fuse"])):
                run = run_ridge(binary, "run", *size_options(n, d), "--threads", "2", *options)
                row[key].append(run["total"]["measured_s"]["median"])
                row.setdefault("memory_bytes", {})[key] = run["provenance"]["memory_bytes"]
                about = {"date": run["provenance"]["day"], "commit": run["provenance"]["commit"],
                         "machine": run["machine"]["title"], "isa": run["provenance"]["isa"], "threads": 2}
            if torch:
                done = subprocess.run([torch, "-c", TORCH, str(n), str(d)], capture_output=True, text=True, env=env, check=True)
                row["torch_s"].append(float(done.stdout))
        rows.append(row)
    rows.sort(key=lambda row: (row["d"], row["N"]))
    return {"command": "tools/geglu_table.py build/ridge --measure --torch PYTHON", **about, "rows": rows}


def format_number(number: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number} {unit}"


def table(binary: str) -> str:
    measured = {}
    if RESULTS.exists():
        for row in json.loads(RESULTS.read_text())["rows"]:
            measured[row["N"], row["d"]] = row
    head = ["N", "d", "parameters", "peak memory, unfused", "peak memory, fused", "saved / parameters", "H200 bound, unfused", "H200 bound, fused",
            "CPU, unfused", "CPU, fused", "PyTorch eager"]
    out = []
    for n, d in ROWS:
        plan = run_ridge(binary, "explain", "--on", "cpu", "--plan", *size_options(n, d))
        bound = run_ridge(binary, "explain", "--on", "h200", *size_options(n, d))
        parameters, alive = 2 * (8 * d * d + 8 * d), plan["alive_bytes"]
        if alive["before"] != 2 * 13 * n * d + parameters or alive["after"] != 2 * 5 * n * d + parameters:
            sys.exit(f"N = {n}, d = {d}: expected 13*N*d and 5*N*d elements plus the parameters, found {alive}")
        row = measured.get((n, d))
        middle = lambda key: format_number(sorted(row[key])[len(row[key]) // 2], "s") if row and row[key] else "–"  # noqa: E731
        out.append([n, d, format_number(parameters, "B"), format_number(alive["before"], "B"), format_number(alive["after"], "B"),
                    f"{n / (d + 1):.3g}",
                    format_number(bound["total"]["time_lower_s"], "s"), format_number(bound["fused"]["time_lower_s"], "s"),
                    middle("apart_s"), middle("fused_s"), middle("torch_s")])
    return page_table.tables(head, out, 2, [range(2, 6), range(6, 8), range(8, 11)])


def main() -> int:
    binary, options = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if "--measure" in options:
        torch, only = (options[options.index(o) + 1] if o in options else "" for o in ("--torch", "--only"))
        RESULTS.write_text(json.dumps(measure(binary, torch, only), indent=1) + "\n")
    found = table(binary)
    if "--check" not in options and "--update" not in options:
        print(found, end="")
        return 0
    before, _, rest = PAGE.read_text().partition("<!-- table: tools/geglu_table.py -->\n")
    _, _, after = rest.partition("<!-- end of table -->\n")
    page = before + "<!-- table: tools/geglu_table.py -->\n" + found + "<!-- end of table -->\n" + after
    if "--update" in options:
        PAGE.write_text(page)
    elif page != PAGE.read_text():
        print("docs/performance/geglu.md: the table is out of date; run tools/geglu_table.py build/ridge --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
