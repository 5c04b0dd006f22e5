#!/usr/bin/env python3
"""Times attention on this CPU: `ridge run` and PyTorch's scaled_dot_product_attention alternate, with the same number of
threads. Our product of 2048 x 2048 x 2048 is timed for comparison. Prints a line per case and writes JSON:

    cpu_attention_times.py ridge OUT.json      (needs PyTorch)

A figure is the median of CPU_TURNS rounds (5), each a median of at least five passes."""
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import torch

THREADS, TURNS = len(os.sched_getaffinity(0)), int(os.environ.get("CPU_TURNS", "5"))
CASES = [(rows, heads, width, dtype, causal) for rows, heads in ((1024, 8), (4096, 2)) for width in (64, 128) for dtype in ("f32", "bf16")
         for causal in (False, True)]
TEXT = """dims S = {rows}, T = S, H = {heads}, E = {width}
q: {dtype}[S, H, E]   k: {dtype}[T, H, E]   v: {dtype}[T, H, E]
s[S, H, T] = q * k
p[S, H, T] = softmax({scores} over T)
o: {dtype}[S, H, E] = p * v
"""
SCORES = {False: "s * rsqrt(size(E))", True: "where(index(T) <= index(S), s * rsqrt(size(E)), -inf)"}
CLEAN_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "OMP_", "MKL_"))}


def run_ridge(ridge: str, *arguments: str) -> dict:
    done = subprocess.run([ridge, "run", *arguments, "--json"], capture_output=True, text=True, env=CLEAN_ENVIRONMENT)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["total"]


def time_ridge(ridge: str, folder: str, case) -> float:
    rows, heads, width, dtype, causal = case
    path = pathlib.Path(folder) / "attention.ridge"
    path.write_text(TEXT.format(rows=rows, heads=heads, width=width, dtype=dtype, scores=SCORES[causal]))
    return run_ridge(ridge, str(path))["measured_s"]["median"]


def time_torch(case) -> float:
    rows, heads, width, dtype, causal = case
    q, k, v = (torch.randn(1, heads, rows, width, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype]) for _ in range(3))
    times = []
    for _ in range(2 + 5):
        begin = time.perf_counter()
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def main() -> None:
    ridge, target = sys.argv[1:3]
    torch.set_num_threads(THREADS)
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    products = {}
    for dtype in ("f32", "bf16"):
        total = [run_ridge(ridge, f"{dtype}[M, K] * {dtype}[K, N] -> {dtype}[M, N]", "M=2048", "N=2048", "K=2048") for _ in range(TURNS)]
        products[dtype] = total[0]["flops"] / statistics.median(t["measured_s"]["median"] for t in total)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            turns = [(time_ridge(ridge, folder, case), time_torch(case)) for _ in range(TURNS)]
            mine, peer = (statistics.median(t[i] for t in turns) for i in (0, 1))
            count, heads, width, dtype, causal = case
            flops = 4 * count * count * heads * width / (2 if causal else 1)
            row = {"rows": count, "heads": heads, "width": width, "dtype": dtype, "causal": causal, "ridge_s": mine, "torch_s": peer,
                   "ridge_spread_s": max(t[0] for t in turns) - min(t[0] for t in turns), "torch_spread_s": max(t[1] for t in turns) - min(t[1] for t in turns),
                   "flops_per_s": flops / mine, "of_product": flops / mine / products[dtype]}
            rows.append(row)
            print(json.dumps(row), flush=True)
    document = {"date": datetime.date.today().isoformat(), "device": f"{cpu}, {THREADS} threads", "commit": os.environ.get("RIDGE_COMMIT", ""),
                "command": "tools/cpu_attention_times.py ridge OUT.json", "torch": torch.__version__, "product_flops_per_s": products, "rows": rows}
    pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
