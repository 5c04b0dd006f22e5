#!/usr/bin/env python3
"""Times gathers, scatters, sums along an axis, recurrences, top-k, sorting and depthwise convolutions: `ridge run` and PyTorch.

    loops_times.py ridge OUT.json               on this CPU with one and two threads; medians of at least five passes
    loops_times.py ridge OUT.json --on cuda     on a device: launches in a CUDA graph over rotating operands, so that L2 is cold;
                                                with --only gather,scatter these kinds alone"""
import statistics
from functools import partial

import harness  # It cleans the environment before PyTorch reads it.

import torch

from cpu_times import DTYPES, Benchmark

THREADS = 1, 2
GATHER = "t: {dtype}[V, D]  i: int32[N]\ny: {dtype}[N, D] = gather(t, i over V)"
SCATTER = "x: {dtype}[N, D]  i: int32[N]\ny: {dtype}[V, D] = scatter(x, i over V)"
CUMSUM = "x: {dtype}[A, T, C]\ny: {dtype}[A, T, C] = cumsum(x over T)"
SCAN = "a: {dtype}[A, T, C]  x: {dtype}[A, T, C]\nh: {dtype}[A, T, C] = scan(a * h + x over T)"
TOPK = "x: {dtype}[N, E]\ni[N, {count}] = topk(x over E)"
CONV = "x: {dtype}[N, C, H, W]  w: {dtype}[C, 1, {k}, {k}]\ny: {dtype}[N, C, H, W] = conv(x, w, padding = {padding}, groups = C)"
ROWS = [dict(V=v, N=n, D=d) for v, n, d in
        ((50000, 8192, 1024), (128000, 2048, 4096), (32000, 512, 4096), (1000, 100000, 64), (100000, 200000, 8))]
LINES = [dict(A=a, T=t, C=c) for a, t, c in
         ((1, 1 << 22, 1), (1024, 4096, 1), (20000, 128, 1), (8, 2048, 256), (1, 1024, 4096), (1000, 50, 60))]
TOPS = [(dict(N=n, E=e), k) for n, e, k in
        ((64, 32000, 50), (4096, 128, 8), (1, 1000000, 10), (512, 4096, 64), (100, 1000, 1000), (8, 65536, 65536))]
CONVS = [(dict(N=n, C=c, H=h, W=h), k) for n, c, h, k in ((32, 256, 56, 3), (64, 384, 28, 7), (64, 768, 14, 7), (128, 1024, 7, 3))]
MIN_ROTATED, GRAPH_S = 256 << 20, 2e-3  # Bytes of operands, more than an L2 holds; seconds of a graph's launches


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


def make_topk(dtype, N, E, count):
    x = torch.randn(N, E).to(dtype)
    return (lambda: torch.sort(x, dim=1, descending=True, stable=True)) if count == E else (lambda: torch.topk(x, count, 1))


def make_convolution(dtype, N, C, H, W, k):
    x, w = torch.randn(N, C, H, W).to(dtype), torch.randn(C, 1, k, k).to(dtype)
    return lambda: torch.nn.functional.conv2d(x, w, padding=k // 2, groups=C)


def list_cases(on_cuda):
    """Returns the name, program and sizes of each case, and a function that makes PyTorch's call on new operands."""
    for name, dtype in DTYPES.items():
        for sizes in ROWS:
            yield "gather", GATHER.format(dtype=name), sizes, partial(make_gather, dtype, **sizes)
            yield "scatter", SCATTER.format(dtype=name), sizes, partial(make_scatter, dtype, **sizes)
        for sizes in LINES:
            yield "cumsum", CUMSUM.format(dtype=name), sizes, partial(make_cumsum, dtype, **sizes)
            if sizes["T"] <= 4096:  # PyTorch takes a call for each step
                yield "scan", SCAN.format(dtype=name), sizes, partial(make_scan, dtype, **sizes)
        for sizes, count in TOPS:
            yield "topk", TOPK.format(dtype=name, count=count), sizes, partial(make_topk, dtype, **sizes, count=count)
        for sizes, k in CONVS if on_cuda else ():
            yield "depthwise", CONV.format(dtype=name, k=k, padding=k // 2), sizes, partial(make_convolution, dtype, **sizes, k=k)


def time_torch_on_device(make_call, operand_bytes, rounds):
    """Returns the median seconds of a call."""
    with torch.no_grad(), torch.device("cuda"):
        calls = [make_call() for _ in range(max(1, min(MIN_ROTATED // operand_bytes + 1, 16)))]
        one_s = harness.time_repeated(calls[0], 2) / 1e3
        launches = max(len(calls), min(256, int(GRAPH_S / one_s) + 1)) if one_s < GRAPH_S else 1
        graph, _ = harness.capture(lambda: [calls[i % len(calls)]() for i in range(launches)] and None, warm_up=1)
        found = harness.alternate({"torch": graph.replay}, rounds, lambda replay: harness.time_repeated(replay, 1), warm_up=2)
    return statistics.median(found["torch"]) / 1e3 / launches


def time_on_device(ridge, out, rounds, only):
    result = harness.Result(out, torch.cuda.get_device_name())
    for kind, program, sizes, make_call in list_cases(on_cuda=True):
        if only and kind not in only.split(","):
            continue
        total = harness.run_json([ridge, "run", program, *size_words(sizes), "--on", "cuda", "--json"])["total"]
        row = {"kind": kind, "program": program, **sizes, "ridge_s": total["measured_s"]["median"],
               "torch_s": time_torch_on_device(make_call, total["bytes"], rounds), "predicted_s": total.get("expected_s"),
               "bytes_per_s": total["bytes"] / total["measured_s"]["median"]}
        torch.cuda.empty_cache()
        result.add(row)


def size_words(sizes):
    return [word for dim, size in sizes.items() for word in ("-d", f"{dim}={size}")]


def main():
    arguments = harness.parse_arguments(__doc__, "ridge out", 3, on="cpu", only="")
    if arguments.on == "cuda":
        return time_on_device(arguments.ridge, arguments.out, arguments.rounds, arguments.only)
    result = harness.Result(arguments.out, f"{harness.name_cpu()}, {THREADS} threads")
    for kind, program, sizes, make_call in list_cases(on_cuda=False):
        call, words = make_call(), [program, *size_words(sizes)]
        for threads in THREADS:
            benchmark = Benchmark(arguments.ridge, arguments.rounds, threads)
            s, runs = benchmark.alternate(ridge=lambda: benchmark.run(*words), torch=lambda: benchmark.run_torch(call))
            total = runs["ridge"][-1]["total"]
            result.add({"kind": kind, "program": program, **sizes, "threads": threads, "ridge_s": statistics.median(s["ridge"]),
                        "torch_s": statistics.median(s["torch"]), "predicted_s": total.get("expected_s")})


if __name__ == "__main__":
    main()
