#!/usr/bin/env python3
"""Times gathers, scatters, sums along an axis, recurrences, top-k and sorting on this CPU: `ridge run` and PyTorch, with one
and two threads. A figure is the median of at least five passes:

    loops_times.py ridge OUT.json"""
import statistics

import harness  # It cleans the environment before PyTorch reads it.

import torch

from cpu_times import DTYPES, Benchmark

THREADS = 1, 2
GATHER = "t: {dtype}[V, D]  i: int32[N]\ny: {dtype}[N, D] = gather(t, i over V)"
SCATTER = "x: {dtype}[N, D]  i: int32[N]\ny: {dtype}[V, D] = scatter(x, i over V)"
CUMSUM = "x: {dtype}[A, T, C]\ny: {dtype}[A, T, C] = cumsum(x over T)"
SCAN = "a: {dtype}[A, T, C]  x: {dtype}[A, T, C]\nh: {dtype}[A, T, C] = scan(a * h + x over T)"
TOPK = "x: {dtype}[N, E]\ni[N, {count}] = topk(x over E)"
ROWS = [dict(V=v, N=n, D=d) for v, n, d in
        ((50000, 8192, 1024), (128000, 2048, 4096), (32000, 512, 4096), (1000, 100000, 64), (100000, 200000, 8))]
LINES = [dict(A=a, T=t, C=c) for a, t, c in
         ((1, 1 << 22, 1), (1024, 4096, 1), (20000, 128, 1), (8, 2048, 256), (1, 1024, 4096), (1000, 50, 60))]
TOPS = [(dict(N=n, E=e), k) for n, e, k in
        ((64, 32000, 50), (4096, 128, 8), (1, 1000000, 10), (512, 4096, 64), (100, 1000, 1000), (8, 65536, 65536))]


def make_gather(dtype, V, N, D):
    t, i = torch.randn(V, D).to(dtype), torch.randint(0, V, (N,))
    return lambda: torch.index_select(t, 0, i)


def make_scatter(dtype, V, N, D):
    x, i = torch.randn(N, D).to(dtype), torch.randint(0, V, (N,))
    return lambda: torch.zeros(V, D, dtype=dtype).index_add_(0, i, x)


def make_cumsum(dtype, A, T, C):
    x = torch.randn(A, T, C).to(dtype)
    return lambda: torch.cumsum(x, 1)


def make_scan(dtype, A, T, C):
    a, x, h = (torch.rand(A, T, C).to(dtype) for _ in range(3))

    def run():
        step = torch.zeros(A, C, dtype=dtype)
        for t in range(T):
            step = torch.addcmul(x[:, t], a[:, t], step)
            h[:, t] = step

    return run


def list_cases():
    """Returns the name, program, sizes and PyTorch's call of each case."""
    for name, dtype in DTYPES.items():
        for sizes in ROWS:
            yield "gather", GATHER.format(dtype=name), sizes, make_gather(dtype, **sizes)
            yield "scatter", SCATTER.format(dtype=name), sizes, make_scatter(dtype, **sizes)
        for sizes in LINES:
            yield "cumsum", CUMSUM.format(dtype=name), sizes, make_cumsum(dtype, **sizes)
            if sizes["T"] <= 4096:  # PyTorch takes a call for each step
                yield "scan", SCAN.format(dtype=name), sizes, make_scan(dtype, **sizes)
        for sizes, count in TOPS:
            x = torch.randn(sizes["N"], sizes["E"]).to(dtype)
            call = (lambda x=x: torch.sort(x, dim=1, descending=True, stable=True)) if count == sizes["E"] else (
                lambda x=x, count=count: torch.topk(x, count, 1))
            yield "topk", TOPK.format(dtype=name, count=count), sizes, call


def main():
    arguments = harness.parse_arguments(__doc__, "ridge out", 3)
    result = harness.Result(arguments.out, f"{harness.name_cpu()}, {THREADS} threads")
    for kind, program, sizes, call in list_cases():
        words = [program, *(word for dim, size in sizes.items() for word in ("-d", f"{dim}={size}"))]
        for threads in THREADS:
            benchmark = Benchmark(arguments.ridge, arguments.rounds, threads)
            s, runs = benchmark.alternate(ridge=lambda: benchmark.run(*words), torch=lambda: benchmark.run_torch(call))
            total = runs["ridge"][-1]["total"]
            result.add({"kind": kind, "program": program, **sizes, "threads": threads, "ridge_s": statistics.median(s["ridge"]),
                        "torch_s": statistics.median(s["torch"]), "predicted_s": total.get("predicted_s")})


if __name__ == "__main__":
    main()
