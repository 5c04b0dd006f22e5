#!/usr/bin/env python3
"""Times training steps through torch.ops.ridge and autograd against PyTorch's, bf16:

    PYTHONPATH=build-gpu/python tools/times/training_times.py OUT.json [geglu|attention …]

Gated layers: y = u * gelu(g) of x[n, d] * w[8 d, d]^T + b, and the gradients of x, w and b. `ridge` chooses by the free
memory; `ridge_full` is the same with so little free memory that h is not kept. Extra memory is the step's peak above its
inputs and y, dx, dw and db.

Attention: o and the gradients of q, k and v. `kernels` replays the step's kernels as a CUDA graph, without host and
autograd time; `ridge` is the step as training calls it.

`in_a_row`: ten steps back to back, as in a long run. `after_idle`: one step on an idle device with a cold L2. `host_us` is
what the host takes to queue a step."""
import time

import torch
import torch.nn.functional as F

import harness
import ridge
import ridge.torch

BF16 = torch.bfloat16
LAYERS = [(8192, 1024), (8192, 2048), (8192, 4096)]
ATTENTIONS = [(4, 16, 2048, 128, True), (4, 16, 4096, 128, True), (4, 16, 4096, 128, False), (1, 16, 8192, 64, True)]


def torch_geglu(x, w, b):
    u, g = F.linear(x, w, b).chunk(2, dim=-1)
    return u * F.gelu(g)


def make_step(function, inputs, gradient):
    def step():
        y = function(*inputs)
        return y, *torch.autograd.grad(y, inputs, gradient)
    return step


def time_host(step, calls=20):
    """Returns the microseconds that the host takes to queue a step."""
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)  # The device is busy, so no call waits for it.
    start = time.perf_counter()
    for _ in range(calls):
        step()
    found = (time.perf_counter() - start) / calls * 1e6
    torch.cuda.synchronize()
    return round(found, 1)


def fill_memory(needed):
    """Allocates a tensor that leaves three times `needed` free: a layer may use a quarter of the free memory."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    return torch.empty(max(free - 3 * needed, 0), device="cuda", dtype=torch.uint8)


def relative_error(x, right):
    return round(((x - right).norm() / right.norm()).item(), 5)


class Timer:
    def __init__(self, rounds):
        self.rounds, self.time_cold = rounds, harness.cold_timer(512)

    def time_steps(self, steps, against):
        in_a_row = harness.alternate(steps, self.rounds, lambda step: harness.time_repeated(step, 10) * 1e3, warm_up=1, shuffle=True)
        after_idle = harness.alternate(steps, self.rounds, self.time_cold, warm_up=2, shuffle=True)
        return {"in_a_row": harness.summarize(in_a_row, against), "after_idle": harness.summarize(after_idle, against)}

    def time_geglu(self, n, d):
        torch.manual_seed(n + d)
        x = torch.randn(n, d, device="cuda", dtype=BF16).requires_grad_()
        w = (torch.randn(8 * d, d, device="cuda") * 1.2 / d ** 0.5).to(BF16).requires_grad_()
        b = torch.randn(8 * d, device="cuda", dtype=BF16).requires_grad_()
        gradient = torch.randn(n, 4 * d, device="cuda", dtype=BF16)
        steps = {"eager": torch_geglu, "compile": torch.compile(torch_geglu), "ridge": torch.ops.ridge.geglu}
        steps = {name: make_step(function, (x, w, b), gradient) for name, function in steps.items()}
        for step in steps.values():
            step()
        row = {"kind": "geglu", "n": n, "d": d, "extra_bytes": {name: harness.count_extra_bytes(step) for name, step in steps.items()}}
        row |= self.time_steps(steps, ("compile",))
        row["host_us"] = {name: time_host(step) for name, step in steps.items()}
        exact = [t.detach().float().requires_grad_() for t in (x, w, b)]
        expected = make_step(torch_geglu, exact, gradient.float())()
        row["off"] = {name: [relative_error(*pair) for pair in zip(step(), expected)] for name, step in steps.items()}
        del expected, exact
        full = fill_memory(32 * n * d)
        steps = {"compile": steps["compile"], "ridge_full": steps["ridge"]}
        row["extra_bytes"] |= {"ridge_full": harness.count_extra_bytes(steps["ridge_full"])}
        row["where_full"] = self.time_steps(steps, ("compile",))
        del full
        return row

    def time_attention(self, b, h, s, e, causal):
        torch.manual_seed(s)
        inputs = [torch.randn(b, h, s, e, device="cuda", dtype=BF16).requires_grad_() for _ in range(3)]
        gradient = torch.randn(b, h, s, e, device="cuda", dtype=BF16)
        ours = make_step(lambda q, k, v: torch.ops.ridge.attention(q, k, v, causal), inputs, gradient)
        theirs = make_step(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), inputs, gradient)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            ours()
        side.synchronize()
        graph, captured = harness.capture(ours, warm_up=0)
        steps = {"torch": theirs, "kernels": graph.replay, "ridge": ours}
        for step in steps.values():
            step()
        row = {"kind": "attention", "b": b, "h": h, "s": s, "e": e, "causal": causal, **self.time_steps(steps, ("kernels", "torch"))}
        row["host_us"] = {name: time_host(step) for name, step in steps.items()}
        row["apart"] = [relative_error(a.float(), t.float()) for a, t in zip(ours(), theirs())]
        del captured
        return row


def main():
    arguments = harness.parse_arguments(__doc__, "out kind...", 15)
    timer = Timer(arguments.rounds)
    result = harness.Result(arguments.out, torch.cuda.get_device_name(), rounds=arguments.rounds)
    for kind, time_case, shapes in (("geglu", timer.time_geglu, LAYERS), ("attention", timer.time_attention, ATTENTIONS)):
        for shape in shapes if kind in (arguments.kind or kind) else []:
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            result.add(time_case(*shape))


if __name__ == "__main__":
    main()
