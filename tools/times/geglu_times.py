#!/usr/bin/env python3
"""Times the gated layer against PyTorch's: forward, and forward with backward, bf16, gelu_tanh, both biases, F = 4 d:

    geglu_times.py libridge_geglu.so OUT.json [N,d …]

With --idle-ms 0 the device throttles as in a long run, and host time that exceeds the overwriting of L2 is included
(torch.compile's backward at d = 1024). Memory is the call's peak above inputs and outputs: y, dx, dw and db; both sides keep
y alive. Errors are |x - f64| / |f64|, Frobenius. `keep_x` may use FREE of torch.compile's memory; the library's planner
chooses its chunks.

The library: cmake -DRIDGE_CUDA=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON … && ninja ridge_geglu"""
import ctypes

import torch
import torch.nn.functional as F

import harness

BF16, GELU_TANH = torch.bfloat16, 3
SHAPES = ["8192,1024", "4096,4096", "4096,8192", "32768,8192"]
FREE, FREE_ELSEWHERE = {8192: 0.30}, 0.35  # Fraction of torch.compile's extra memory, by d
UNLIMITED = 1 << 40
MAX_TRAINED = 8192 * 16384  # n * d


def geglu(x, w, b):
    value, gate = F.linear(x, w, b).chunk(2, dim=-1)
    return value * F.gelu(gate, approximate="tanh")


class GatedLayer:
    """One layer of the library in one mode; allocates with torch, so that its memory is counted like torch's."""

    def __init__(self, path, n, d, free_bytes):
        self.c = ctypes.CDLL(path)
        self.c.ridge_geglu_make.restype, self.c.ridge_geglu_error.restype = ctypes.c_void_p, ctypes.c_char_p
        plan = (ctypes.c_int64 * 5)()
        self.layer = self.c.ridge_geglu_make(*map(ctypes.c_int64, (n, 4 * d, d)), GELU_TANH, ctypes.c_int64(free_bytes), plan)
        if not self.layer:
            raise RuntimeError(self.c.ridge_geglu_error().decode())
        self.keeps, self.chunk, self.extra = bool(plan[0]), plan[1], plan[2]
        self.predicted_us = {"forward": plan[3] / 1e3, "backward": plan[4] / 1e3}
        self.n, self.f = n, 4 * d

    def call(self, name, *tensors, workspace):
        pointers = [ctypes.c_void_p(t.data_ptr() if t is not None else 0) for t in (*tensors, workspace)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if getattr(self.c, name)(ctypes.c_void_p(self.layer), *pointers, ctypes.c_int64(workspace.numel()), stream):
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


def torch_step(function, x, w, b, dy):
    y = function(x, w, b)
    return y, *torch.autograd.grad(y, (x, w, b), dy)


def measure_errors(calls, x, w, b, dy):
    """Returns the errors of each call's y, dx, dw and db against f64, by columns of the hidden dimension so that f64 fits."""
    wide = [t.detach().double() for t in (x, w, b, dy)]
    half, dx = w.shape[0] // 2, torch.zeros_like(wide[0])
    parts = {"y": [], "dw": [], "db": []}
    for first in range(0, half, 4096):
        columns = torch.arange(first, min(first + 4096, half))
        rows = torch.cat([columns, half + columns]).cuda()
        xs, ws, bs = (t.clone().requires_grad_() for t in (wide[0], wide[1][rows], wide[2][rows]))
        y = geglu(xs, ws, bs)
        part, dw, db = torch.autograd.grad(y, (xs, ws, bs), wide[3][:, rows[:len(rows) // 2]])
        dx += part
        for name, right in (("y", y.detach()), ("dw", dw), ("db", db)):
            parts[name].append((rows, right))
    found = {}
    for name, call in calls.items():
        y, gx, gw, gb = (t.detach() for t in call())
        off, size = {"dx": (gx - dx).square().sum()}, {"dx": dx.square().sum()}
        for what, out in (("y", y), ("dw", gw), ("db", gb)):
            pick = (lambda rows: out[:, rows[:len(rows) // 2]]) if what == "y" else (lambda rows: out[rows])
            off[what] = sum((pick(rows) - right).square().sum() for rows, right in parts[what])
            size[what] = sum(right.square().sum() for _, right in parts[what])
        found[name] = {what: (off[what] / size[what]).sqrt().item() for what in ("y", "dx", "dw", "db")}
        del y, gx, gw, gb
    return found


def time_layer(path, n, d, time_calls):
    torch.manual_seed(n + d)
    x = torch.randn(n, d, device="cuda", dtype=BF16)
    w = torch.randn(8 * d, d, device="cuda", dtype=BF16) * (1.2 / d ** 0.5)
    b = torch.randn(8 * d, device="cuda", dtype=BF16)
    compiled, ours = torch.compile(geglu), GatedLayer(path, n, d, UNLIMITED)
    calls = {"eager": lambda: geglu(x, w, b), "compile": lambda: compiled(x, w, b), "linear": lambda: F.linear(x, w),
             "linear_bias": lambda: F.linear(x, w, b), "ridge": lambda: ours.forward(x, w, b),
             "ridge_keeping_h": lambda: ours.forward(x, w, b, True)}
    for call in calls.values():
        call()
    row = {"n": n, "d": d, "f": 4 * d, "forward": time_calls(calls, ("compile", "linear")),
           "forward_predicted_us": ours.predicted_us["forward"]}
    if n * d > MAX_TRAINED:
        return row
    operands = (x.requires_grad_(), w.requires_grad_(), b.requires_grad_(), torch.randn(n, 4 * d, device="cuda", dtype=BF16))
    plain = tuple(t.detach() for t in operands)
    torch_step(compiled, *operands)
    budget = int(FREE.get(d, FREE_ELSEWHERE) * harness.count_extra_bytes(lambda: torch_step(compiled, *operands)))
    keep_h, keep_x = GatedLayer(path, n, d, UNLIMITED), GatedLayer(path, n, d, budget)
    calls = {"eager": lambda: torch_step(geglu, *operands), "compile": lambda: torch_step(compiled, *operands),
             "keep_h": lambda: keep_h.step(*plain), "keep_x": lambda: keep_x.step(*plain)}
    row["extra_bytes"] = {}
    for name, call in calls.items():
        call()
        row["extra_bytes"][name] = harness.count_extra_bytes(call)
    return row | {"forward_backward": time_calls(calls, ("compile",)), "keep_x_chunk": keep_x.chunk,
                  "predicted_us": {"keep_h": keep_h.predicted_us, "keep_x": keep_x.predicted_us},
                  "errors": measure_errors(calls, *plain)}


def main():
    arguments = harness.parse_arguments(__doc__, "library out shape...", 15, idle_ms=3.0)
    time_cold = harness.cold_timer(512, arguments.idle_ms)
    result = harness.Result(arguments.out, torch.cuda.get_device_name(), rounds=arguments.rounds, idle_ms=arguments.idle_ms)

    def time_calls(calls, against):
        us = harness.alternate(calls, arguments.rounds, time_cold, warm_up=2, shuffle=True)
        return harness.summarize(us, against)

    for shape in arguments.shape or SHAPES:
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        result.add(time_layer(arguments.library, *map(int, shape.split(",")), time_calls))


if __name__ == "__main__":
    main()
