#!/usr/bin/env python3
"""Times training steps through torch.ops.ridge and autograd against PyTorch's, alternating in one process, bf16. Prints a line
per row and writes JSON:

    PYTHONPATH=build-gpu/python tests/gpu/training_times.py OUT.json [ROUNDS [geglu|attention …]]

Gated layers: y = u * gelu(g) of x[n, d] * w[8 d, d]^T + b, and the gradients of x, w and b. `ridge` chooses by the free
memory; `ridge_full` is the same with so little free memory that h is not kept. Extra memory is the step's peak above its
inputs and y, dx, dw and db.

Attention: o and the gradients of q, k and v. `kernels` replays the step's kernels as a CUDA graph, without host and
autograd time; `ridge` is the step as training calls it.

Times are medians of events. `in_a_row`: ten steps back to back, as in a long run.
`after_idle`: around one step that is queued while the device writes 512 MB, so that the L2 is cold, and then waits for
3 ms, so that no host's time counts and the clock recovers. `host_us` is what the host takes to queue a step. Each round has
another order; ratios are medians of ratios within a round."""
import datetime
import json
import random
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

import ridge
import ridge.torch
from geglu_times import BF16, extra_bytes, in_turn, summary

LAYERS = [(8192, 1024), (8192, 2048), (8192, 4096)]
ATTENTIONS = [(4, 16, 2048, 128, True), (4, 16, 4096, 128, True), (4, 16, 4096, 128, False), (1, 16, 8192, 64, True)]


def torch_geglu(x, w, b):
    u, g = F.linear(x, w, b).chunk(2, dim=-1)
    return u * F.gelu(g)


def step_of(function, inputs, gradient):
    def step():
        y = function(*inputs)
        return y, *torch.autograd.grad(y, inputs, gradient)
    return step


def in_a_row(steps, rounds, calls=10):
    """Times calls of each back to back, alternating, as in training."""
    order, draw = list(steps), random.Random(1)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    us = {name: [] for name in steps}
    for i in range(rounds + 1):
        draw.shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            start.record()
            for _ in range(calls):
                steps[name]()
            stop.record()
            torch.cuda.synchronize()
            if i > 0:
                us[name].append(start.elapsed_time(stop) * 1e3 / calls)
    return us


def times(steps, rounds, flush, against):
    return {"in_a_row": summary(in_a_row(steps, rounds), against),
            "after_idle": summary(in_turn(steps, rounds, 3, flush), against)}


def host_us(step, calls=20):
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)  # so that no call waits for the device
    start = time.perf_counter()
    for _ in range(calls):
        step()
    found = (time.perf_counter() - start) / calls * 1e6
    torch.cuda.synchronize()
    return round(found, 1)


def filled(needed):
    """Allocates a tensor that leaves three times `needed` free: a layer may use a quarter of the free memory."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    return torch.empty(max(free - 3 * needed, 0), device="cuda", dtype=torch.uint8)


def layer(n, d, rounds, flush):
    torch.manual_seed(n + d)
    x = torch.randn(n, d, device="cuda", dtype=BF16).requires_grad_()
    w = (torch.randn(8 * d, d, device="cuda") * 1.2 / d ** 0.5).to(BF16).requires_grad_()
    b = torch.randn(8 * d, device="cuda", dtype=BF16).requires_grad_()
    gradient = torch.randn(n, 4 * d, device="cuda", dtype=BF16)
    steps = {"eager": torch_geglu, "compile": torch.compile(torch_geglu), "ridge": torch.ops.ridge.geglu}
    steps = {name: step_of(function, (x, w, b), gradient) for name, function in steps.items()}
    for step in steps.values():
        step()
    row = {"kind": "geglu", "n": n, "d": d, "extra_bytes": {name: extra_bytes(step) for name, step in steps.items()}}
    row |= times(steps, rounds, flush, ("compile",))
    row["host_us"] = {name: host_us(step) for name, step in steps.items()}
    exact = [t.detach().float().requires_grad_() for t in (x, w, b)]
    expected = step_of(torch_geglu, exact, gradient.float())()
    row["off"] = {name: [round(((is_ - e).norm() / e.norm()).item(), 5) for is_, e in zip(step(), expected)]
                  for name, step in steps.items()}
    del expected, exact
    full = filled(32 * n * d)
    steps = {"compile": steps["compile"], "ridge_full": steps["ridge"]}
    row["extra_bytes"] |= {"ridge_full": extra_bytes(steps["ridge_full"])}
    row["where_full"] = times(steps, rounds, flush, ("compile",))
    del full
    return row


def attention(b, h, s, e, causal, rounds, flush):
    torch.manual_seed(s)
    inputs = [torch.randn(b, h, s, e, device="cuda", dtype=BF16).requires_grad_() for _ in range(3)]
    gradient = torch.randn(b, h, s, e, device="cuda", dtype=BF16)
    ours = step_of(lambda q, k, v: torch.ops.ridge.attention(q, k, v, causal), inputs, gradient)
    theirs = step_of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), inputs, gradient)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        ours()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ours()
    steps = {"torch": theirs, "kernels": graph.replay, "ridge": ours}
    for step in steps.values():
        step()
    row = {"kind": "attention", "b": b, "h": h, "s": s, "e": e, "causal": causal}
    row |= times(steps, rounds, flush, ("kernels", "torch"))
    row["host_us"] = {name: host_us(step) for name, step in steps.items()}
    row["apart"] = [round(((a.float() - t.float()).norm() / t.float().norm()).item(), 5) for a, t in zip(ours(), theirs())]
    del captured
    return row


def main():
    out, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    requested = sys.argv[3:] or ["geglu", "attention"]
    flush = torch.empty(512 << 20, device="cuda", dtype=torch.uint8)
    measures = [lambda shape=shape: layer(*shape, rounds, flush) for shape in LAYERS if "geglu" in requested]
    measures += [lambda shape=shape: attention(*shape, rounds, flush) for shape in ATTENTIONS if "attention" in requested]
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    rows = []
    for measure in measures:
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        rows.append(measure())
        print(json.dumps(rows[-1]), flush=True)
        json.dump({"schema": "ridge.results/1", "kind": "training steps through torch.ops.ridge beside PyTorch's",
                   "date": str(datetime.date.today()), "device": torch.cuda.get_device_name(), "driver": driver.stdout.strip(),
                   "torch": torch.__version__, "cuda": torch.version.cuda, "command": " ".join(["training_times.py", *sys.argv[1:]]),
                   "rounds": rounds, "protocol": " ".join(__doc__.split("\n\n", 2)[2].split()), "rows": rows}, open(out, "w"), indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
