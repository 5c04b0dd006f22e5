#!/usr/bin/env python3
"""Times grouped products against PyTorch's grouped_mm, in one run: `grouped_times.py matmul_gpu OUT.json`. Ours are
`matmul_gpu grouped_times` with the planner's choice and the fastest configuration. Both are launches in a CUDA graph over
rotating operands, so that L2 is cold, and medians of nine replays. Groups of a shape are equal or uneven: in runs of eight,
each is half as long as the one before it."""
import csv
import datetime
import json
import statistics
import subprocess
import sys

import torch


def ends(groups, rows, alike):
    parts = [1.0 if alike else 2.0 ** -(g % 8) for g in range(groups)]
    out, before = [], 0.0
    for part in parts:
        before += part
        out.append(round(rows * before / sum(parts)))
    return out


def seconds(groups, rows, n, k, alike):
    offsets = torch.tensor(ends(groups, rows, alike), device="cuda", dtype=torch.int32)
    bytes_of_set = 2 * (rows * k + groups * n * k + rows * n)
    sets = max(1, min((256 << 20) // bytes_of_set + 1, 64))
    make = lambda *size: [torch.randn(*size, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    a, b = make(rows, k), make(groups, n, k)
    call = lambda i: torch._grouped_mm(a[i % sets], b[i % sets].transpose(-2, -1), offs=offsets)
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    launches = max(sets, min(256, int(2e-3 / (2 * rows * n * k / 6e14 + 1e-5)) + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            call(i)
    taken = []
    for i in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            taken.append(begin.elapsed_time(end) * 1e-3 / launches)
    return statistics.median(taken)


def main(program, out):
    ours = {}
    for row in csv.DictReader(subprocess.run([program, "grouped_times"], check=True, capture_output=True, text=True).stdout.splitlines()):
        ours.setdefault(tuple(int(row[x]) for x in ("groups", "rows", "n", "k")), []).append(row)
    rows = []
    for shape, kernels in ours.items():
        chosen = kernels[0]  # the fastest by the model
        line = dict(zip(("groups", "rows", "n", "k"), shape), kernel=chosen["kernel"], predicted_us=float(chosen["predicted_us"]))
        for way in ("alike", "uneven"):
            line[f"{way}_us"] = float(chosen[f"{way}_us"])
            line[f"{way}_best_us"] = min(float(x[f"{way}_us"]) for x in kernels)
            line[f"{way}_torch_us"] = round(seconds(*shape, way == "alike") * 1e6, 2)
            torch.cuda.empty_cache()
        rows.append(line)
        print(*line.values(), flush=True)
    head = {"date": datetime.date.today().isoformat(), "device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "command": "tests/gpu/grouped_times.py matmul_gpu OUT.json", "rows": rows}
    with open(out, "w") as file:
        json.dump(head, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:3])
