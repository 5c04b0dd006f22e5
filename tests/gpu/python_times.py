#!/usr/bin/env python3
"""Times the host cost of a call from Python on a CUDA device against PyTorch's: microseconds per queued call without waiting,
medians of alternating batches.

    PYTHONPATH=build-gpu/python tests/gpu/python_times.py [BATCHES]
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import ridge
import ridge.torch

CALLS = 200


def host_us(functions, batches):
    """Returns the median of each function, with alternating batches."""
    for function in functions.values():
        for _ in range(20):
            function()
    torch.cuda.synchronize()
    found = {name: [] for name in functions}
    for _ in range(batches):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            found[name].append((time.perf_counter() - start) / CALLS * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in found.items()}


def show(title, functions, batches):
    found = host_us(functions, batches)
    least = found[next(iter(found))]
    print(title)
    for name, us in found.items():
        print(f"  {name:28} {us:7.2f} us  {us / least:5.2f} x  {us - least:+6.2f} us", flush=True)


def main():
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(torch.cuda.get_device_name(), torch.__version__)
    for dtype in (torch.bfloat16, torch.float32):
        a, b = (torch.randn(64, 64, device="cuda").to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        show(f"products of 64 x 64 x 64, {dtype}",
             {"torch.matmul": lambda: torch.matmul(a, b), "torch.ops.ridge.matmul": lambda: torch.ops.ridge.matmul(a, b),
              "ridge.matmul": lambda: ridge.matmul(a, b), "ridge.matmul(out=)": lambda: ridge.matmul(a, b, out),
              "ridge.run": lambda: ridge.run("ab,bc->ac", a, b)}, batches)
    x, w, bias = (torch.randn(*shape, device="cuda").to(torch.bfloat16) for shape in ((64, 64), (128, 64), (128,)))
    q = torch.randn(1, 4, 64, 64, device="cuda").to(torch.bfloat16)

    def torch_geglu():
        u, g = F.linear(x, w, bias).chunk(2, dim=-1)
        return u * F.gelu(g)

    show("geglu", {"torch, three operators": torch_geglu, "torch.ops.ridge.geglu": lambda: torch.ops.ridge.geglu(x, w, bias),
                   "ridge.geglu": lambda: ridge.geglu(x, w, bias)}, batches)
    show("attention", {"torch": lambda: F.scaled_dot_product_attention(q, q, q),
                       "torch.ops.ridge.attention": lambda: torch.ops.ridge.attention(q, q, q),
                       "ridge.attention": lambda: ridge.attention(q, q, q)}, batches)
    show("softmax", {"torch": lambda: x.softmax(-1), "torch.ops.ridge.softmax": lambda: torch.ops.ridge.softmax(x),
                     "ridge.softmax": lambda: ridge.softmax(x)}, batches)
    show("rmsnorm", {"torch": lambda: F.rms_norm(x, (64,), w[0]), "torch.ops.ridge.rmsnorm": lambda: torch.ops.ridge.rmsnorm(x, w[0]),
                     "ridge.rmsnorm": lambda: ridge.rmsnorm(x, w[0])}, batches)


if __name__ == "__main__":
    main()
