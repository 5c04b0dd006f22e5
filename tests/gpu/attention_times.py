#!/usr/bin/env python3
"""Times attention against FlashAttention-3 (if PYTHONPATH has it), cuDNN and PyTorch's own kernel, alternating in one
process. Prints a line per shape and writes JSON:

    attention_times.py libridge_attention.so OUT.json [forward|short|decode|parts|causal|wide …]

Every call is captured in a graph, which is replayed once between two events. Before it 256 MB are written, so that L2 is
cold, and 3 ms pass; each round has another order. Times are medians, ratios are medians of the ratios within a round. FLOPs are 4 B H S T D, halved under a causal mask. `off` is |ours - fp32 reference| divided by that of the best peer.

The library: cmake -DRIDGE_CUDA=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON … && ninja ridge_attention"""
import ctypes
import datetime
import json
import math
import os
import random
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    from flash_attn_interface import flash_attn_func
except ImportError:
    flash_attn_func = None

BF16, FAR = torch.bfloat16, 1 << 30
# B, heads, key heads, rows, keys, width, causal
SHAPES = {
    "forward": [(4, 16, 16, 4096, 4096, 128, False), (1, 16, 16, 16384, 16384, 128, False), (1, 64, 8, 8192, 8192, 128, False)],
    "causal": [(4, 16, 16, 4096, 4096, 128, True), (1, 16, 16, 16384, 16384, 128, True), (1, 64, 8, 8192, 8192, 128, True)],
    "wide": [(4, 32, 32, 4096, 4096, 64, False), (4, 32, 32, 4096, 4096, 64, True), (4, 8, 8, 4096, 4096, 256, False),
             (4, 8, 8, 4096, 4096, 256, True)],
    "short": [(16, 16, 16, 512, 512, 128, False), (16, 16, 16, 512, 512, 128, True), (16, 16, 16, 1024, 1024, 128, False),
              (16, 16, 16, 1024, 1024, 128, True), (8, 32, 8, 2048, 2048, 128, False), (8, 32, 8, 2048, 2048, 128, True)],
    "decode": [(1, 32, 8, 1, 8192, 128, False), (16, 32, 8, 1, 8192, 128, False), (1, 64, 8, 1, 32768, 128, False),
               (1, 32, 8, 1, 262144, 128, False)],
    # A sequence's heads on two and four devices: fewer tiles and more splits of the keys.
    "parts": [(1, 32, 8, 1, 4096, 128, False), (1, 16, 4, 1, 4096, 128, False), (1, 8, 2, 1, 4096, 128, False),
              (2, 16, 4, 1, 4096, 128, False), (1, 8, 2, 1, 32768, 128, False), (1, 16, 4, 1, 32768, 128, False)],
}


PLAN = """
import ctypes, json, sys
path, sizes, strides, scale = json.loads(sys.argv[1])
c = ctypes.CDLL(path)
c.ridge_attention_make.restype, c.ridge_attention_error.restype = ctypes.c_void_p, ctypes.c_char_p
plan = (ctypes.c_int64 * 6)(-1)
if not c.ridge_attention_make(0, (ctypes.c_int64 * 8)(*sizes), (ctypes.c_int64 * 12)(*strides), ctypes.c_double(scale), ctypes.c_double(0), plan):
    sys.exit(c.ridge_attention_error().decode())
print(json.dumps(list(plan)))
"""


class Ridge:
    """Plans in a separate process: the machine file reader and PyTorch need different C++ runtimes."""

    def __init__(self, path):
        self.path, self.c = path, ctypes.CDLL(path)
        self.c.ridge_attention_make.restype = ctypes.c_void_p
        self.c.ridge_attention_error.restype = ctypes.c_char_p

    def prepared(self, q, k, v, causal):
        """Takes tensors [B, S, H, D]. Returns the plan and a call that returns o."""
        (b, s, h, d), (t, hk) = q.shape, k.shape[1:3]
        o, scale = torch.empty_like(q), 1 / math.sqrt(d)
        sizes = [b, h, hk, s, t, d, -FAR, t - s if causal else FAR]
        strides = [x.stride(i) for x in (q, k, v, o) for i in (0, 2, 1)]
        said = subprocess.run([sys.executable, "-c", PLAN, json.dumps([self.path, sizes, strides, scale])], capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(said.stderr)
        plan = json.loads(said.stdout)
        made = self.c.ridge_attention_make(0, (ctypes.c_int64 * 8)(*sizes), (ctypes.c_int64 * 12)(*strides), ctypes.c_double(scale),
                                           ctypes.c_double(0), (ctypes.c_int64 * 6)(*plan))
        workspace = torch.zeros(65536 + plan[5], device="cuda", dtype=torch.uint8)
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o)]

        def call():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if self.c.ridge_attention(ctypes.c_void_p(made), *pointers, None, ctypes.c_void_p(workspace.data_ptr()),
                                      ctypes.c_int64(workspace.numel()), stream):
                raise RuntimeError(self.c.ridge_attention_error().decode())
            return o
        return {"config": plan[0], "parts": plan[2], "predicted_us": plan[4] / 1e3}, call


def peers(q, k, v, causal):
    by_head = [x.transpose(1, 2) for x in (q, k, v)]

    def of(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*by_head, is_causal=causal, enable_gqa=True).transpose(1, 2)
        return call

    def fa3():
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out
    out = {"cudnn": of(SDPBackend.CUDNN_ATTENTION), "torch": of(SDPBackend.FLASH_ATTENTION)}
    if flash_attn_func:
        out["fa3"] = fa3
    return out


def captured(fn):
    for _ in range(2):
        fn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return graph


def in_turn(graphs, rounds, flush):
    order, draw = list(graphs), random.Random(1)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    us = {name: [] for name in graphs}
    for i in range(rounds + 3):
        draw.shuffle(order)
        for name in order:
            flush.zero_()
            torch.cuda._sleep(int(3 * 1.75e6))
            start.record()
            graphs[name].replay()
            stop.record()
            torch.cuda.synchronize()
            if i > 2:
                us[name].append(start.elapsed_time(stop) * 1e3)
    return us


def reference(q, k, v, causal):
    """Returns the f32 reference for the first head of the first batch."""
    shared = q.shape[2] // k.shape[2]
    q, k, v = q[0, :, shared - 1].float(), k[0, :, 0].float(), v[0, :, 0].float()
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu(1 + s.shape[1] - s.shape[0]), -math.inf)
    return s.softmax(-1) @ v


def row(ridge, shape, flush):
    b, h, hk, s, t, d, causal = shape
    torch.manual_seed(1)
    q = torch.randn(b, s, h, d, device="cuda", dtype=BF16)
    k, v = (torch.randn(b, t, hk, d, device="cuda", dtype=BF16) for _ in range(2))
    plan, ours = ridge.prepared(q, k, v, causal)
    calls, graphs, found = {"ridge": ours, **peers(q, k, v, causal)}, {}, {}
    for name, fn in calls.items():
        try:
            graphs[name], found[name] = captured(fn), fn()
        except RuntimeError as why:
            print(f"{name}: {str(why).splitlines()[0]}", file=sys.stderr)
    right = reference(q, k, v, causal)
    off = {name: (o[0, :, h // hk - 1].float() - right).norm().item() / right.norm().item() for name, o in found.items()}
    us = in_turn(graphs, 20, flush)
    times = {name: round(statistics.median(x), 2) for name, x in us.items()}
    best = min((name for name in times if name != "ridge"), key=times.get, default="ridge")
    ratio = statistics.median(o / m for o, m in zip(us[best], us["ridge"]))
    flops = 4 * b * h * s * t * d * (0.5 if causal else 1)
    key_bytes = 4 * b * hk * t * d
    out = {"shape": shape, **plan, "us": times, "spread": {n: [round(min(x), 2), round(max(x), 2)] for n, x in us.items()},
           "best": best, "best_over_ours": round(ratio, 4), "tflops": {n: round(flops / x * 1e-6, 1) for n, x in times.items()},
           "gbytes_per_s": {n: round(key_bytes / x * 1e-3) for n, x in times.items()},
           "off": {n: round(x / max(min(y for m, y in off.items() if m != "ridge"), 1e-9), 3) for n, x in off.items()}}
    print(json.dumps(out), flush=True)
    return out


def main():
    ridge, requested = Ridge(os.path.abspath(sys.argv[1])), sys.argv[3:] or list(SHAPES)
    flush = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    rows = [row(ridge, shape, flush) for name in requested for shape in SHAPES[name]]
    clock = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"], capture_output=True, text=True)
    results = {"device": torch.cuda.get_device_name(), "day": str(datetime.date.today()), "torch": torch.__version__,
               "clocks": clock.stdout.strip(), "command": "attention_times.py " + " ".join(requested), "rows": rows}
    with open(sys.argv[2], "w") as out:
        json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
