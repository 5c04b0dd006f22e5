#!/usr/bin/env python3
"""Times the gradients of attention against FlashAttention-3 (if PYTHONPATH has it), cuDNN and PyTorch's own kernel,
alternating in one process like attention_times.py. Prints a line per shape and writes JSON:

    attention_backward_times.py libridge_attention.so OUT.json [full|causal|wide|short …]

`ordered` is our deterministic mode, `fa3_ordered` that of FlashAttention-3. FLOPs are 10 B H S T D,
halved under a causal mask. `off` is |dq - fp32 reference| divided by that of the best peer, for one head."""
import ctypes
import datetime
import json
import math
import os
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_times import BF16, FAR, captured, in_turn

try:
    from flash_attn_interface import _flash_attn_backward, _flash_attn_forward
except ImportError:
    _flash_attn_backward = None

# B, heads, key heads, rows, width, causal
SHAPES = {
    "full": [(4, 16, 16, 4096, 128, False), (1, 16, 16, 16384, 128, False), (1, 64, 8, 8192, 128, False)],
    "causal": [(4, 16, 16, 4096, 128, True), (1, 16, 16, 16384, 128, True), (1, 64, 8, 8192, 128, True)],
    "wide": [(4, 32, 32, 4096, 64, False), (4, 32, 32, 4096, 64, True), (4, 8, 8, 4096, 256, False), (4, 8, 8, 4096, 256, True)],
    "short": [(16, 16, 16, 1024, 128, True), (8, 32, 8, 1024, 128, True), (32, 16, 16, 512, 128, True)],
}

PLAN = """
import ctypes, json, sys
path, sizes, strides, scale, ordered = json.loads(sys.argv[1])
c = ctypes.CDLL(path)
c.ridge_attention_backward_make.restype, c.ridge_attention_error.restype = ctypes.c_void_p, ctypes.c_char_p
plan = (ctypes.c_int64 * 8)(-1)
if not c.ridge_attention_backward_make(0, (ctypes.c_int64 * 8)(*sizes), (ctypes.c_int64 * 24)(*strides), ctypes.c_double(scale), ordered, plan):
    sys.exit(c.ridge_attention_error().decode())
print(json.dumps(list(plan)))
"""


class Ridge:
    def __init__(self, path):
        self.path, self.c = path, ctypes.CDLL(path)
        self.c.ridge_attention_backward_make.restype = ctypes.c_void_p
        self.c.ridge_attention_error.restype = ctypes.c_char_p

    def prepared(self, tensors, lse, causal, ordered):
        """Takes q, k, v, o and the gradient of o, [B, S, H, D]. Returns the plan and a call that returns dq, dk, dv."""
        q, k = tensors[0], tensors[1]
        (b, s, h, d), (t, hk) = q.shape, k.shape[1:3]
        grads = [torch.empty_like(x) for x in tensors[:3]]
        sizes, scale = [b, h, hk, s, t, d, -FAR, t - s if causal else FAR], 1 / math.sqrt(d)
        strides = [x.stride(i) for x in [*tensors, *grads] for i in (0, 2, 1)]
        said = subprocess.run([sys.executable, "-c", PLAN, json.dumps([self.path, sizes, strides, scale, int(ordered)])], capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(said.stderr)
        plan = json.loads(said.stdout)
        made = self.c.ridge_attention_backward_make(0, (ctypes.c_int64 * 8)(*sizes), (ctypes.c_int64 * 24)(*strides), ctypes.c_double(scale),
                                                    int(ordered), (ctypes.c_int64 * 8)(*plan))
        workspace = torch.zeros(65536 + sum(plan[5:]), device="cuda", dtype=torch.uint8)
        held = [*tensors, lse, *grads]
        pointers = (ctypes.c_void_p * 9)(*(x.data_ptr() for x in held))

        def call():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if self.c.ridge_attention_backward(ctypes.c_void_p(made), pointers, ctypes.c_void_p(workspace.data_ptr()),
                                               ctypes.c_int64(workspace.numel()), stream):
                raise RuntimeError(self.c.ridge_attention_error().decode())
            return held[6:]
        return {"config": plan[0], "width": plan[1], "predicted_us": plan[4] / 1e3, "workspace_bytes": workspace.numel()}, call


def forward(q, k, v, causal):
    """Returns o and the log-sum-exp [B, H, S]."""
    if _flash_attn_backward and q.shape[-1] <= 128:
        out = _flash_attn_forward(q, k, v, softmax_scale=q.shape[-1] ** -0.5, causal=causal)
        return out[0], out[1]
    shared = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(shared, 2) for x in (k, v))
    o, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal)
    return o.transpose(1, 2).contiguous(), lse


def peers(tensors, lse, causal):
    q, k, v, o, dout = tensors
    out = {}

    def of(backend):
        by_head = [x.transpose(1, 2).detach().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(backend):
            result = F.scaled_dot_product_attention(*by_head, is_causal=causal, enable_gqa=q.shape[2] != k.shape[2])
        grad = dout.transpose(1, 2)
        return lambda: [x.transpose(1, 2) for x in torch.autograd.grad(result, by_head, grad, retain_graph=True)]

    def fa3(ordered):
        grads = [torch.empty_like(x) for x in (q, k, v)]

        def call():
            _flash_attn_backward(dout, q, k, v, o, lse, None, None, None, None, None, None, *grads, softmax_scale=q.shape[-1] ** -0.5,
                                 is_causal=causal, deterministic=ordered)
            return grads
        return call
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("torch", SDPBackend.FLASH_ATTENTION)):
        try:
            out[name] = of(backend)
        except RuntimeError as why:
            print(f"{name}: {str(why).splitlines()[0]}", file=sys.stderr)
    if _flash_attn_backward and q.shape[-1] <= 128:  # this build has no wider heads
        out |= {"fa3": fa3(False), "fa3_ordered": fa3(True)}
    return out


def reference(tensors, causal):
    """Returns dq in f32 for the last head of the first batch that uses the first key head."""
    q, k, v, _, dout = tensors
    shared = q.shape[2] // k.shape[2]
    q, k, v, dout = q[0, :, shared - 1].float(), k[0, :, 0].float(), v[0, :, 0].float(), dout[0, :, shared - 1].float()
    q.requires_grad_()
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1 + s.shape[1] - s.shape[0]), -math.inf)
    return torch.autograd.grad(s.softmax(-1) @ v, q, dout)[0]


def row(ridge, shape, flush):
    b, h, hk, s, d, causal = shape
    torch.manual_seed(1)
    q, dout = (torch.randn(b, s, h, d, device="cuda", dtype=BF16) for _ in range(2))
    k, v = (torch.randn(b, s, hk, d, device="cuda", dtype=BF16) for _ in range(2))
    o, lse = forward(q, k, v, causal)
    tensors = [q, k, v, o, dout]
    plan, ours = ridge.prepared(tensors, lse, causal, False)
    calls, graphs, found = {"ridge": ours, "ordered": ridge.prepared(tensors, lse, causal, True)[1], **peers(tensors, lse, causal)}, {}, {}
    for name, fn in calls.items():
        try:
            graphs[name], found[name] = captured(fn), fn()[0].clone()
        except RuntimeError as why:
            print(f"{name}: {str(why).splitlines()[0]}", file=sys.stderr)
    off = {}
    if s <= 8192:
        right = reference(tensors, causal)
        off = {name: (x[0, :, h // hk - 1].float() - right).norm().item() / right.norm().item() for name, x in found.items()}
    us = in_turn(graphs, 12, flush)
    times = {name: round(statistics.median(x), 2) for name, x in us.items()}
    others = [name for name in times if name not in ("ridge", "ordered", "fa3_ordered")]
    best = min(others, key=times.get, default="ridge")
    flops = 10 * b * h * s * s * d * (0.5 if causal else 1)
    least = max(min((x for n, x in off.items() if n in others), default=1), 1e-9)
    out = {"shape": shape, **plan, "us": times, "spread": {n: [round(min(x), 2), round(max(x), 2)] for n, x in us.items()}, "best": best,
           "best_over_ours": round(statistics.median(o / m for o, m in zip(us[best], us["ridge"])), 4),
           "ours_over_ordered": round(statistics.median(o / m for o, m in zip(us["ridge"], us["ordered"])), 4),
           "tflops": {n: round(flops / x * 1e-6, 1) for n, x in times.items()}, "off": {n: round(x / least, 3) for n, x in off.items()}}
    print(json.dumps(out), flush=True)
    return out


def main():
    ridge, requested = Ridge(os.path.abspath(sys.argv[1])), sys.argv[3:] or list(SHAPES)
    flush = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    row(ridge, (1, 2, 2, 256, 128, False), flush)  # warms up one-time work of the libraries
    rows = [row(ridge, shape, flush) for name in requested for shape in SHAPES[name]]
    clock = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"], capture_output=True, text=True)
    results = {"device": torch.cuda.get_device_name(), "day": str(datetime.date.today()), "torch": torch.__version__,
               "clocks": clock.stdout.strip(), "command": "attention_backward_times.py " + " ".join(requested), "rows": rows}
    with open(sys.argv[2], "w") as out:
        json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
