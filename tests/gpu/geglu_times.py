#!/usr/bin/env python3
"""Times the gated layer against PyTorch's, alternating in one process: forward, and forward with backward, bf16, gelu_tanh,
both biases, F = 4 d. Prints a line per figure and writes JSON:

    geglu_times.py libridge_geglu.so OUT.json [ROUNDS [IDLE_MS [N,d …]]]

Times are medians of events around one call. The call is queued while the device writes 512 MB, so that L2 is cold, and
then waits for IDLE_MS (3). With 0 the device throttles as in a long run; host time that exceeds the write is included
(torch.compile's backward at d = 1024). Each round has another order; ratios are medians of the ratios within a round.
Memory is the call's peak above inputs and outputs: y, dx, dw and db; both sides keep y alive. Errors are |x - f64| / |f64|,
Frobenius. `keep_x` may use FREE (below) of torch.compile's memory; the library's planner chooses its chunks.

The library: cmake -DRIDGE_CUDA=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON … && ninja ridge_geglu"""
import ctypes
import json
import random
import statistics
import sys

import torch
import torch.nn.functional as F

BF16, GELU_TANH = torch.bfloat16, 3
SHAPES = [(8192, 1024), (4096, 4096), (4096, 8192), (32768, 8192)]
FREE = {8192: 0.30}  # fraction of torch.compile's extra memory, by d
ELSEWHERE = 0.35


def geglu(x, w, b):
    value, gate = F.linear(x, w, b).chunk(2, dim=-1)
    return value * F.gelu(gate, approximate="tanh")


class Ridge:
    """One layer in one mode; allocates with torch, so that its memory is counted like torch's."""

    def __init__(self, path, n, d, free_bytes):
        self.c = ctypes.CDLL(path)
        self.c.ridge_geglu_make.restype = ctypes.c_void_p
        self.c.ridge_geglu_error.restype = ctypes.c_char_p
        facts = (ctypes.c_int64 * 5)()
        self.layer = self.c.ridge_geglu_make(*(ctypes.c_int64(v) for v in (n, 4 * d, d)), GELU_TANH, ctypes.c_int64(free_bytes), facts)
        if not self.layer:
            raise RuntimeError(self.c.ridge_geglu_error().decode())
        self.keeps, self.chunk, self.extra = bool(facts[0]), facts[1], facts[2]
        self.predicted_us = {"forward": facts[3] / 1e3, "backward": facts[4] / 1e3}
        self.n, self.f = n, 4 * d

    def call(self, name, *tensors, workspace):
        pointers = [ctypes.c_void_p(t.data_ptr() if t is not None else 0) for t in tensors]
        size = ctypes.c_int64(workspace.numel())
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if getattr(self.c, name)(ctypes.c_void_p(self.layer), *pointers, ctypes.c_void_p(workspace.data_ptr()), size, stream):
            raise RuntimeError(self.c.ridge_geglu_error().decode())

    def forward(self, x, w, b, keep=False):
        y = torch.empty(self.n, self.f, device="cuda", dtype=BF16)
        h = torch.empty(self.n, 2 * self.f, device="cuda", dtype=BF16) if keep else None
        workspace = torch.empty(max(self.extra - 4 * self.n * self.f * self.keeps, 256), device="cuda", dtype=torch.uint8)
        self.call("ridge_geglu_forward", x, w, b, y, h, workspace=workspace)
        return y, h, workspace

    def step(self, x, w, b, dy):
        y, h, workspace = self.forward(x, w, b, self.keeps)
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
        self.call("ridge_geglu_backward", x, w, b, dy, h, dx, dw, db, workspace=workspace)
        return y, dx, dw, db


def torch_step(fn):
    def step(x, w, b, dy):
        y = fn(x, w, b)
        return y, *torch.autograd.grad(y, (x, w, b), dy)
    return step


def extra_bytes(fn):
    """Returns a call's peak memory beyond its inputs and results."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    out = fn()
    torch.cuda.synchronize()
    outputs = sum(t.numel() * t.element_size() for t in (out if isinstance(out, tuple) else (out,)) if t is not None)
    return torch.cuda.max_memory_allocated() - base - outputs


def in_turn(calls, rounds, idle_ms, flush):
    order, draw = list(calls), random.Random(1)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    us = {name: [] for name in calls}
    for i in range(rounds + 2):
        draw.shuffle(order)
        for name in order:
            flush.zero_()
            torch.cuda._sleep(int(idle_ms * 1.75e6))  # clock cycles
            start.record()
            calls[name]()
            stop.record()
            torch.cuda.synchronize()
            if i > 1:
                us[name].append(start.elapsed_time(stop) * 1e3)
    return us


def errors(calls, x, w, b, dy):
    """Returns the errors of each call's y, dx, dw and db against f64, by columns of the hidden dimension so that f64 fits."""
    wide = [t.detach().double() for t in (x, w, b, dy)]
    half, dx = w.shape[0] // 2, torch.zeros_like(wide[0])
    parts = {"y": [], "dw": [], "db": []}
    for first in range(0, half, 4096):
        rows = torch.cat([torch.arange(first, min(first + 4096, half)), half + torch.arange(first, min(first + 4096, half))]).cuda()
        xs, ws, bs = (t.clone().requires_grad_() for t in (wide[0], wide[1][rows], wide[2][rows]))
        y = geglu(xs, ws, bs)
        part, dw, db = torch.autograd.grad(y, (xs, ws, bs), wide[3][:, rows[:len(rows) // 2]])
        dx += part
        parts["y"].append((rows, y.detach())), parts["dw"].append((rows, dw)), parts["db"].append((rows, db))
    found = {}
    for name, fn in calls.items():
        y, gx, gw, gb = (t.detach() for t in fn())
        off, size = {"dx": (gx - dx).square().sum()}, {"dx": dx.square().sum()}
        for what, is_ in (("y", y), ("dw", gw), ("db", gb)):
            pick = (lambda rows: is_[:, rows[:len(rows) // 2]]) if what == "y" else (lambda rows: is_[rows])
            off[what] = sum((pick(rows) - right).square().sum() for rows, right in parts[what])
            size[what] = sum(right.square().sum() for _, right in parts[what])
        found[name] = {what: (off[what] / size[what]).sqrt().item() for what in ("y", "dx", "dw", "db")}
        del y, gx, gw, gb
    return found


def summary(us, against):
    def spread(values):
        return {"median": round(statistics.median(values), 2), "min": round(min(values), 2), "max": round(max(values), 2)}
    out = {}
    for name, values in us.items():
        out[name] = {"us": spread(values)}
        for other in against:
            out[name][f"{other}_over_this"] = round(statistics.median(o / v for o, v in zip(us[other], values)), 4)
    return out


def measure(path, n, d, rounds, idle_ms, flush):
    torch.manual_seed(n + d)
    x = torch.randn(n, d, device="cuda", dtype=BF16)
    w = torch.randn(8 * d, d, device="cuda", dtype=BF16) * (1.2 / d ** 0.5)
    b = torch.randn(8 * d, device="cuda", dtype=BF16)
    compiled = torch.compile(geglu)
    row = {"n": n, "d": d, "f": 4 * d}
    forward = Ridge(path, n, d, 1 << 40)
    calls = {"eager": lambda: geglu(x, w, b), "compile": lambda: compiled(x, w, b), "linear": lambda: F.linear(x, w),
             "linear_bias": lambda: F.linear(x, w, b), "ridge": lambda: forward.forward(x, w, b),
             "ridge_keeping_h": lambda: forward.forward(x, w, b, True)}
    for fn in calls.values():
        fn()
    row["forward"] = summary(in_turn(calls, rounds, idle_ms, flush), ("compile", "linear"))
    row["forward_predicted_us"] = forward.predicted_us["forward"]
    if n * d > 8192 * 16384:
        return row
    x.requires_grad_(), w.requires_grad_(), b.requires_grad_()
    dy = torch.randn(n, 4 * d, device="cuda", dtype=BF16)
    eager_step, compiled_step = torch_step(geglu), torch_step(compiled)
    compiled_step(x, w, b, dy)
    budget = int(FREE.get(d, ELSEWHERE) * extra_bytes(lambda: compiled_step(x, w, b, dy)))
    keep_h, keep_x = Ridge(path, n, d, 1 << 40), Ridge(path, n, d, budget)
    with_grad = (x, w, b, dy)
    plain = tuple(t.detach() for t in with_grad)
    calls = {"eager": lambda: eager_step(*with_grad), "compile": lambda: compiled_step(*with_grad),
             "keep_h": lambda: keep_h.step(*plain), "keep_x": lambda: keep_x.step(*plain)}
    row["extra_bytes"] = {}
    for name, fn in calls.items():
        fn()
        row["extra_bytes"][name] = extra_bytes(fn)
    row["forward_backward"] = summary(in_turn(calls, rounds, idle_ms, flush), ("compile",))
    row["keep_x_chunk"] = keep_x.chunk
    row["predicted_us"] = {"keep_h": keep_h.predicted_us, "keep_x": keep_x.predicted_us}
    row["errors"] = errors(calls, *plain)
    return row


def main():
    path, out = sys.argv[1], sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    idle_ms = float(sys.argv[4]) if len(sys.argv) > 4 else 3.0
    shapes = [tuple(map(int, s.split(","))) for s in sys.argv[5:]] or SHAPES
    flush = torch.empty(512 << 20, device="cuda", dtype=torch.uint8)
    rows = []
    for n, d in shapes:
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        rows.append(measure(path, n, d, rounds, idle_ms, flush))
        print(json.dumps(rows[-1]), flush=True)
        json.dump({"schema": "ridge.results/1", "kind": "gated layer against PyTorch, forward and backward",
                   "device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda, "rounds": rounds,
                   "idle_ms": idle_ms, "protocol": __doc__.split("\n\n")[2].replace("\n", " "), "rows": rows}, open(out, "w"), indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
