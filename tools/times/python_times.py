#!/usr/bin/env python3
"""Times the host cost of a call from Python on a CUDA device against PyTorch's: microseconds per queued call without waiting,
of alternating batches of CALLS. With --device cpu it times small calls on one thread of a CPU.

    PYTHONPATH=build-gpu/python tools/times/python_times.py OUT.json
    PYTHONPATH=build/python tools/times/python_times.py OUT.json --device cpu"""
import platform
import time

import torch
import torch.nn.functional as F

import harness
import ridge
import ridge.torch

CALLS, WARM_UP_CALLS = 200, 20
ops = torch.ops.ridge


def time_batch(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    found = (time.perf_counter() - start) / CALLS * 1e6
    synchronize()
    return found


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def torch_geglu(x, w, b):
    u, g = F.linear(x, w, b).chunk(2, dim=-1)
    return u * F.gelu(g)


def random_tensor(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


def list_cases():
    """Yields titles and contestants; the first is PyTorch's."""
    for dtype in (torch.bfloat16, torch.float32):
        a, b = random_tensor(64, 64, dtype=dtype), random_tensor(64, 64, dtype=dtype)
        out = torch.empty_like(a)
        yield f"products of 64 x 64 x 64, {dtype}", {
            "torch.matmul": lambda: torch.matmul(a, b), "torch.ops.ridge.matmul": lambda: ops.matmul(a, b),
            "ridge.matmul": lambda: ridge.matmul(a, b), "ridge.matmul(out=)": lambda: ridge.matmul(a, b, out),
            "ridge.run": lambda: ridge.run("ab,bc->ac", a, b)}
    x, w, bias, q = (random_tensor(*shape) for shape in ((64, 64), (128, 64), (128,), (1, 4, 64, 64)))
    yield "geglu", {"torch, three operators": lambda: torch_geglu(x, w, bias),
                    "torch.ops.ridge.geglu": lambda: ops.geglu(x, w, bias), "ridge.geglu": lambda: ridge.geglu(x, w, bias)}
    yield "attention", {"torch": lambda: F.scaled_dot_product_attention(q, q, q),
                        "torch.ops.ridge.attention": lambda: ops.attention(q, q, q), "ridge.attention": lambda: ridge.attention(q, q, q)}
    yield "softmax", {"torch": lambda: x.softmax(-1), "torch.ops.ridge.softmax": lambda: ops.softmax(x),
                      "ridge.softmax": lambda: ridge.softmax(x)}
    yield "rmsnorm", {"torch": lambda: F.rms_norm(x, (64,), w[0]), "torch.ops.ridge.rmsnorm": lambda: ops.rmsnorm(x, w[0]),
                      "ridge.rmsnorm": lambda: ridge.rmsnorm(x, w[0])}


def list_cpu_cases():
    """Yields cases as list_cases does, of f32 on one thread."""
    torch.set_num_threads(1)
    for size in (8, 64):
        a, b = torch.randn(size, size), torch.randn(size, size)
        out = torch.empty(size, size)
        yield f"products of {size} x {size} x {size}", {
            "torch.matmul": lambda: torch.matmul(a, b), "ridge.matmul": lambda: ridge.matmul(a, b, threads=1),
            "ridge.matmul(out=)": lambda: ridge.matmul(a, b, out, threads=1), "torch.ops.ridge.matmul": lambda: ops.matmul(a, b)}
    x = torch.randn(64, 64)
    for axis in (-1, 0):
        yield f"softmax of 64 x 64 along axis {axis}", {
            "torch": lambda: x.softmax(axis), "ridge.softmax": lambda: ridge.softmax(x, axis, threads=1),
            "torch.ops.ridge.softmax": lambda: ops.softmax(x, axis)}


def main():
    arguments = harness.parse_arguments(__doc__, "out", 30, device="cuda")
    on_cpu = arguments.device == "cpu"
    result = harness.Result(arguments.out, platform.machine() if on_cpu else torch.cuda.get_device_name())
    for title, calls in list_cpu_cases() if on_cpu else list_cases():
        for call in calls.values():
            for _ in range(WARM_UP_CALLS):
                call()
        synchronize()
        us = harness.medians(harness.alternate(calls, arguments.rounds, time_batch))
        peer = us[next(iter(us))]
        result.add({"case": title, "us": us, "over_torch": {name: round(x / peer, 2) for name, x in us.items()}})


if __name__ == "__main__":
    main()
