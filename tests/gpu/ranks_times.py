#!/usr/bin/env python3
"""Times products and their collectives on several GPUs in one run: Ridge, PyTorch's product and NCCL in sequence, and PyTorch's
async tensor parallelism (fused_all_gather_matmul, fused_matmul_reduce_scatter). Prints a line per case and writes JSON:

    ranks_times.py RANKS ranks_gpu OUT.json [KIND B D F …]

Each case is timed RANKS_ROUNDS times (3), ours and theirs alternating, with at least five samples of at least 5 ms; the figures
are medians. Ours replays a recorded pass; PyTorch's calls are queued back to back, so that the device never waits for the host
at these sizes. NVLink multicast stays off."""
import datetime
import json
import math
import os
import re
import statistics
import subprocess
import sys

CASES = [("gather", 4096, 4096), ("gather", 4096, 8192), ("gather", 4096, 16384), ("gather", 8192, 4096), ("gather", 8192, 8192),
         ("gather", 8192, 16384), ("scatter", 4096, 8192), ("scatter", 8192, 4096), ("scatter", 8192, 8192), ("scatter", 8192, 16384),
         ("reduce", 8192, 2048), ("reduce", 8192, 8192)]
WIDTH, ROUNDS = 8192, int(os.environ.get("RANKS_ROUNDS", "3"))
ENVIRONMENT = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def ours(binary: str, ranks: int, case) -> dict:
    out = subprocess.run([binary, "times", str(ranks), *map(str, case)], capture_output=True, text=True, timeout=120).stdout
    found = {}
    for line in out.splitlines():
        ms = re.search(r"(product alone|in turn|in chunks): ([0-9.]+) ms", line)
        if not ms:
            raise SystemExit(f"{binary} said: {line}")
        found[ms[1]] = float(ms[2])
        for value, unit, way in re.findall(r"([0-9.]+) (us|ms) (?:predicted )?in (turn|[0-9]+ chunks?)", line):
            found["predicted " + way.split()[-1].rstrip("s")] = float(value) * (1e-3 if unit == "us" else 1)
        if chunks := re.search(r"in ([0-9]+) chunk", line):
            found["chunks"] = int(chunks[1])
    return found


class Theirs:
    """One process per rank, controlled through pipes, so that both alternate on the same devices."""

    def __init__(self, ranks: int):
        env = {**os.environ, **ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "WORLD_SIZE": str(ranks)}
        self.all = [subprocess.Popen([sys.executable, __file__, "--serve"], env={**env, "RANK": str(r)}, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True) for r in range(ranks)]

    def ask(self, case) -> dict:
        for process in self.all:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for process in self.all]
        return {name: max(a[name] for a in answers) for name in answers[0]}

    def end(self) -> None:
        for process in self.all:
            process.kill()  # leaving a process group would wait for its watchdogs
            process.wait()


def serve() -> None:
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory  # noqa: F401  registers torch.ops.symm_mem

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    group = dist.group.WORLD.group_name

    def normal(*sizes):
        return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)

    def ways(kind, b, d, f):
        if kind == "gather":
            x, w, whole = normal(b // world, d), normal(d, f // world), normal(b, d)
            collective = lambda: dist.all_gather_into_tensor(whole, x)
            return {"product": lambda: whole @ w, "network": collective, "in turn": lambda: (collective(), whole @ w),
                    "async_tp": lambda: torch.ops.symm_mem.fused_all_gather_matmul(x, [w], gather_dim=0, group_name=group)}
        x, w = normal(b, d // world), normal(d // world, f)
        y, part = normal(b, f), normal(b // world, f)
        if kind == "reduce":
            return {"product": lambda: x @ w, "network": lambda: dist.all_reduce(y), "in turn": lambda: dist.all_reduce(x @ w)}
        return {"product": lambda: x @ w, "network": lambda: dist.reduce_scatter_tensor(part, y),
                "in turn": lambda: dist.reduce_scatter_tensor(part, x @ w),
                "async_tp": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, "sum", scatter_dim=0, group_name=group)}

    def timed(call, repetitions) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repetitions):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / repetitions

    def measured(call) -> float:
        timed(call, 3)
        once = torch.tensor([timed(call, 3)], device="cuda")
        dist.all_reduce(once, dist.ReduceOp.MAX)
        return statistics.median(timed(call, max(3, math.ceil(5 / once.item()))) for _ in range(5))

    for line in sys.stdin:
        print(json.dumps({name: measured(call) for name, call in ways(*json.loads(line)).items()}), flush=True)


def main() -> int:
    ranks, binary, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    given = sys.argv[4:]
    cases = [(given[i], *map(int, given[i + 1:i + 4])) for i in range(0, len(given), 4)] or [(*c, WIDTH) for c in CASES]
    import torch

    def said(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    head = {"date": datetime.date.today().isoformat(), "device": f"{ranks} x {torch.cuda.get_device_name()}",
            "commit": os.environ.get("RIDGE_COMMIT", ""), "command": f"RANKS_ROUNDS={ROUNDS} ranks_times.py {ranks} ranks_gpu OUT.json", "unit": "ms",
            "torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]}
    theirs = Theirs(ranks)
    rows = []
    for case in cases:
        rounds = [(ours(binary, ranks, case), theirs.ask(case)) for _ in range(ROUNDS)]
        row = {"case": case}
        for name, at in (("ridge", 0), ("torch", 1)):
            row[name] = {key: round(statistics.median(r[at][key] for r in rounds if key in r[at]), 5) for key in rounds[0][at]}
        row["bound"] = max(row["ridge"]["product alone"], row["torch"]["network"])
        row["over_bound"] = round(row["ridge"]["in chunks"] / row["bound"], 3)
        rows.append(row)
        print(json.dumps(row), flush=True)
        with open(out, "w") as file:
            json.dump({**head, "rows": rows}, file, indent=1)
    theirs.end()
    return 0


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["--serve"] else main())
