#!/usr/bin/env python3
"""Times products and their collectives on several GPUs: Ridge, PyTorch's product and NCCL in sequence, and PyTorch's async
tensor parallelism (fused_all_gather_matmul, fused_matmul_reduce_scatter), in milliseconds:

    ranks_times.py RANKS ranks_gpu OUT.json [KIND B D F …]

A round has at least five samples of at least 5 ms. Ours replays a recorded pass; PyTorch's calls are queued back to back, so
that the device never waits for the host at these sizes. NVLink multicast stays off."""
import json
import math
import os
import re
import statistics
import subprocess
import sys

import harness

CASES = [("gather", 4096, 4096), ("gather", 4096, 8192), ("gather", 4096, 16384), ("gather", 8192, 4096), ("gather", 8192, 8192),
         ("gather", 8192, 16384), ("scatter", 4096, 8192), ("scatter", 8192, 4096), ("scatter", 8192, 8192),
         ("scatter", 8192, 16384), ("reduce", 8192, 2048), ("reduce", 8192, 8192)]
WIDTH = 8192
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
SERVE = "--serve"


def time_ridge(binary, ranks, case):
    found = {}
    for line in harness.run_text([binary, "times", ranks, *case], timeout=120).splitlines():
        ms = re.search(r"(product alone|in turn|in chunks): ([0-9.]+) ms", line)
        if not ms:
            raise SystemExit(f"{binary} printed: {line}")
        found[ms[1]] = float(ms[2])
        for value, unit, way in re.findall(r"([0-9.]+) (us|ms) (?:predicted )?in (turn|[0-9]+ chunks?)", line):
            found["predicted " + way.split()[-1].rstrip("s")] = float(value) * (1e-3 if unit == "us" else 1)
        if chunks := re.search(r"in ([0-9]+) chunk", line):
            found["chunks"] = int(chunks[1])
    return found


class TorchRanks:
    """One process per rank, controlled through pipes, so that both contestants alternate on the same devices."""

    def __init__(self, ranks):
        env = {**os.environ, **ENVIRONMENT, "WORLD_SIZE": str(ranks)}
        self.processes = [subprocess.Popen([sys.executable, __file__, SERVE], env={**env, "RANK": str(rank)},
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for rank in range(ranks)]

    def time_case(self, case):
        for process in self.processes:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for process in self.processes]
        return {name: max(a[name] for a in answers) for name in answers[0]}

    def end(self):
        for process in self.processes:
            process.kill()  # leaving a process group would wait for its watchdogs
            process.wait()


def make_calls(kind, b, d, f, rank_count, group):
    """Returns what a rank of PyTorch runs."""
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory  # noqa: F401  registers torch.ops.symm_mem

    def normal(*sizes):
        return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)

    if kind == "gather":
        x, w, full = normal(b // rank_count, d), normal(d, f // rank_count), normal(b, d)
        return {"product": lambda: full @ w, "network": lambda: dist.all_gather_into_tensor(full, x),
                "in turn": lambda: (dist.all_gather_into_tensor(full, x), full @ w),
                "async_tp": lambda: torch.ops.symm_mem.fused_all_gather_matmul(x, [w], gather_dim=0, group_name=group)}
    x, w = normal(b, d // rank_count), normal(d // rank_count, f)
    y, part = normal(b, f), normal(b // rank_count, f)
    if kind == "reduce":
        return {"product": lambda: x @ w, "network": lambda: dist.all_reduce(y), "in turn": lambda: dist.all_reduce(x @ w)}
    return {"product": lambda: x @ w, "network": lambda: dist.reduce_scatter_tensor(part, y),
            "in turn": lambda: dist.reduce_scatter_tensor(part, x @ w),
            "async_tp": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", scatter_dim=0, group_name=group)}


def serve():
    import torch
    import torch.distributed as dist

    rank, rank_count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))

    def time_calls(call, calls):
        dist.barrier()
        return harness.time_repeated(call, calls)

    def time_call(call):
        time_calls(call, 3)
        once = torch.tensor([time_calls(call, 3)], device="cuda")
        dist.all_reduce(once, dist.ReduceOp.MAX)
        return statistics.median(time_calls(call, max(3, math.ceil(5 / once.item()))) for _ in range(5))

    for line in sys.stdin:
        calls = make_calls(*json.loads(line), rank_count, dist.group.WORLD.group_name)
        print(json.dumps({name: time_call(call) for name, call in calls.items()}), flush=True)


def main():
    import torch

    arguments = harness.parse_arguments(__doc__, "ranks program out case...", 3)
    ranks, given = int(arguments.ranks), arguments.case
    cases = [(given[i], *map(int, given[i + 1:i + 4])) for i in range(0, len(given), 4)] or [(*c, WIDTH) for c in CASES]
    result = harness.Result(arguments.out, f"{ranks} x {torch.cuda.get_device_name()}", unit="ms",
                            nccl=".".join(map(str, torch.cuda.nccl.version())))
    theirs = TorchRanks(ranks)
    for case in cases:
        contestants = {"ridge": lambda: time_ridge(arguments.program, ranks, case), "torch": lambda: theirs.time_case(case)}
        row = {"case": case}
        for name, rounds in harness.alternate(contestants, arguments.rounds).items():
            row[name] = harness.medians({key: [r[key] for r in rounds if key in r] for key in rounds[0]}, 5)
        row["bound"] = max(row["ridge"]["product alone"], row["torch"]["network"])
        row["over_bound"] = round(row["ridge"]["in chunks"] / row["bound"], 3)
        result.add(row)
    theirs.end()


if __name__ == "__main__":
    serve() if sys.argv[1:] == [SERVE] else main()
