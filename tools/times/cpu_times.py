#!/usr/bin/env python3
"""Times attention or GEGLU layers (examples/geglu.ridge) on this CPU: `ridge run` and PyTorch, with the same number of threads. A
round is a median of at least five passes:

    cpu_times.py attention ridge OUT.json      our product of 2048 x 2048 x 2048 is timed for comparison
    cpu_times.py geglu ridge OUT.json          ours fused and unfused, bf16, on two threads; a row has the figures of all rounds"""
import itertools
import os
import statistics
import time

import harness  # It cleans the environment before PyTorch reads it.

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
ATTENTIONS = itertools.product([(1024, 8), (4096, 2)], [64, 128], DTYPES, [False, True])
ATTENTION = """dims S = {rows}, T = S, H = {heads}, E = {width}
q: {dtype}[S, H, E]   k: {dtype}[T, H, E]   v: {dtype}[T, H, E]
s[S, H, T] = q * k
p[S, H, T] = softmax({scores} over T)
o: {dtype}[S, H, E] = p * v
"""
SCORES = {False: "s * rsqrt(size(E))", True: "where(index(T) <= index(S), s * rsqrt(size(E)), -inf)"}
LAYERS = itertools.product((1024, 4096, 8192), (1, 256, 2048, 4096, 8192, 32768))
MAX_FLOP = 1e11  # Per pass of a layer; about a second on two cores
PASSES, MIN_S, LAYER_THREADS = 5, 0.5, 2


def time_torch(call):
    """Returns the median of a call's passes, in seconds."""
    times = []
    with torch.no_grad():
        for _ in range(2):
            call()
        while len(times) < PASSES or sum(times) < MIN_S:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


class Benchmark:
    def __init__(self, ridge, rounds, threads):
        self.ridge, self.rounds, self.threads = ridge, rounds, threads
        torch.set_num_threads(threads)

    def run(self, *words):
        return harness.run_json([self.ridge, "run", *words, "--threads", self.threads, "--json"])

    def run_torch(self, call):
        """Returns the time of a call in the form of the program's report."""
        return {"total": {"measured_s": {"median": time_torch(call)}}}

    def alternate(self, **calls):
        """Returns the seconds and the reports of each round of each call."""
        runs = harness.alternate(calls, self.rounds)
        return {name: [run["total"]["measured_s"]["median"] for run in all_of] for name, all_of in runs.items()}, runs


def time_attention(ridge, out, rounds):
    benchmark = Benchmark(ridge, rounds, len(os.sched_getaffinity(0)))
    rates = {}
    for dtype in DTYPES:
        product = (f"{dtype}[M, K] * {dtype}[K, N] -> {dtype}[M, N]", "M=2048", "N=2048", "K=2048")
        s, runs = benchmark.alternate(product=lambda: benchmark.run(*product))
        rates[dtype] = runs["product"][0]["total"]["flops"] / statistics.median(s["product"])
    result = harness.Result(out, f"{harness.name_cpu()}, {benchmark.threads} threads", product_flops_per_s=rates)
    for (rows, heads), width, dtype, causal in ATTENTIONS:
        program = ATTENTION.format(rows=rows, heads=heads, width=width, dtype=dtype, scores=SCORES[causal])
        q, k, v = (torch.randn(1, heads, rows, width, dtype=DTYPES[dtype]) for _ in range(3))
        call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
        s, _ = benchmark.alternate(ridge=lambda: benchmark.run(program), torch=lambda: benchmark.run_torch(call))
        ours, theirs = statistics.median(s["ridge"]), statistics.median(s["torch"])
        rate = 4 * rows * rows * heads * width / (2 if causal else 1) / ours
        result.add({"rows": rows, "heads": heads, "width": width, "dtype": dtype, "causal": causal, "ridge_s": ours,
                    "torch_s": theirs, "ridge_spread_s": harness.spread(s["ridge"]), "torch_spread_s": harness.spread(s["torch"]),
                    "flops_per_s": rate, "of_product": rate / rates[dtype]})


def time_geglu(ridge, out, rounds):
    benchmark = Benchmark(ridge, rounds, LAYER_THREADS)
    result = harness.Result(out, f"{harness.name_cpu()}, {LAYER_THREADS} threads")
    for d, n in LAYERS:
        if 16.0 * n * d * d > MAX_FLOP:
            continue
        words = [str(harness.ROOT / "examples/geglu.ridge"), "-d", f"N={n}", "-d", f"D={d}"]
        x, w, b = (torch.randn(*shape).bfloat16() for shape in ((n, d), (8 * d, d), (8 * d,)))

        def layer():
            value, gate = F.linear(x, w, b).chunk(2, dim=-1)
            return value * F.gelu(gate)

        s, runs = benchmark.alternate(fused_s=lambda: benchmark.run(*words), apart_s=lambda: benchmark.run(*words, "--no-fuse"),
                                      torch_s=lambda: benchmark.run_torch(layer))
        about = {name: runs[name][-1]["provenance"] for name in ("fused_s", "apart_s")}
        result.add({"N": n, "d": d, **s, "memory_bytes": {name: x["memory_bytes"] for name, x in about.items()}},
                   isa=about["fused_s"]["isa"])


def main():
    arguments = harness.parse_arguments(__doc__, "kind ridge out", 0)
    time_kind, rounds = {"attention": (time_attention, 5), "geglu": (time_geglu, 3)}[arguments.kind]
    time_kind(arguments.ridge, arguments.out, arguments.rounds or rounds)


if __name__ == "__main__":
    main()
