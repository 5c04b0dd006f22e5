#!/usr/bin/env python3
"""Times grouped products against PyTorch's grouped_mm:

    grouped_times.py matmul_gpu OUT.json

Ours are `matmul_gpu grouped_times` with the planner's choice and the fastest configuration. Both are launches in a CUDA graph
over rotating operands, so that L2 is cold, and medians of nine replays. Groups of a shape are equal or uneven: in runs of
eight, each is half as long as the one before it."""
import csv
import statistics

import torch

import harness

SIZES = ("groups", "rows", "n", "k")
MIN_ROTATED = 256 << 20  # Bytes of operands, more than an L2 holds
GRAPH_S, FLOP_PER_S, LAUNCH_S = 2e-3, 6e14, 1e-5  # A graph has launches for about 2 ms.


def group_ends(groups, rows, equal):
    parts = [1.0 if equal else 2.0 ** -(g % 8) for g in range(groups)]
    return [round(rows * sum(parts[:g + 1]) / sum(parts)) for g in range(groups)]


def time_torch(groups, rows, n, k, equal, rounds):
    """Returns the microseconds of a call."""
    offsets = torch.tensor(group_ends(groups, rows, equal), device="cuda", dtype=torch.int32)
    sets = max(1, min(MIN_ROTATED // (2 * (rows * k + groups * n * k + rows * n)) + 1, 64))
    a, b = ([torch.randn(*size, device="cuda", dtype=torch.bfloat16) for _ in range(sets)] for size in ((rows, k), (groups, n, k)))
    launches = max(sets, min(256, int(GRAPH_S / (2 * rows * n * k / FLOP_PER_S + LAUNCH_S)) + 1))

    def launch(count):
        for i in range(count):
            torch._grouped_mm(a[i % sets], b[i % sets].transpose(-2, -1), offs=offsets)
    launch(3)
    graph, _ = harness.capture(lambda: launch(launches), warm_up=0)
    found = harness.alternate({"torch": graph.replay}, rounds, lambda replay: harness.time_repeated(replay, 1), warm_up=3)
    return round(statistics.median(found["torch"]) * 1e3 / launches, 2)


def main():
    arguments = harness.parse_arguments(__doc__, "program out", 9)
    result, ours = harness.Result(arguments.out, torch.cuda.get_device_name()), {}
    for row in csv.DictReader(harness.run_text([arguments.program, "grouped_times"]).splitlines()):
        ours.setdefault(tuple(int(row[x]) for x in SIZES), []).append(row)
    for shape, kernels in ours.items():
        chosen = kernels[0]  # the fastest by the model
        row = dict(zip(SIZES, shape), kernel=chosen["kernel"], predicted_us=float(chosen["predicted_us"]))
        for groups in ("alike", "uneven"):
            row[f"{groups}_us"] = float(chosen[f"{groups}_us"])
            row[f"{groups}_best_us"] = min(float(x[f"{groups}_us"]) for x in kernels)
            row[f"{groups}_torch_us"] = time_torch(*shape, groups == "alike", arguments.rounds)
            torch.cuda.empty_cache()
        result.add(row)


if __name__ == "__main__":
    main()
