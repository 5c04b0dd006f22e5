#!/usr/bin/env python3
"""Times attention, or with --backward its gradients, against FlashAttention-3 (if PYTHONPATH has it), cuDNN and PyTorch's own
kernel:

    attention_times.py libridge_attention.so OUT.json [forward|short|decode|parts|causal|wide …]
    attention_times.py libridge_attention.so OUT.json --backward [full|causal|wide|short …]

Every call is captured in a graph, which is replayed once. FLOPs are 4 B H S T D, of the gradients 10 B H S T D, and half of
that under a causal mask. `off` is |x - fp32 reference| divided by that of the best peer, for one head, where x is o or dq.
`ordered` is our deterministic mode, `fa3_ordered` that of FlashAttention-3."""
import math
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import harness
from attention_library import AttentionLibrary

try:
    from flash_attn_interface import _flash_attn_backward, _flash_attn_forward, flash_attn_func
except ImportError:
    flash_attn_func = None

MAX_FA3_WIDTH = 128  # The tested build has no backward kernel for wider heads.
MAX_REFERENCE_ROWS = 8192
# B, heads, key heads, rows, keys, width, causal
FORWARD = {
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
# B, heads, key heads, rows, width, causal
BACKWARD = {
    "full": [(4, 16, 16, 4096, 128, False), (1, 16, 16, 16384, 128, False), (1, 64, 8, 8192, 128, False)],
    "causal": [(4, 16, 16, 4096, 128, True), (1, 16, 16, 16384, 128, True), (1, 64, 8, 8192, 128, True)],
    "wide": [(4, 32, 32, 4096, 64, False), (4, 32, 32, 4096, 64, True), (4, 8, 8, 4096, 256, False), (4, 8, 8, 4096, 256, True)],
    "short": [(16, 16, 16, 1024, 128, True), (8, 32, 8, 1024, 128, True), (32, 16, 16, 512, 128, True)],
}
BACKWARD_WARM_UP = (1, 2, 2, 256, 128, False)  # Runs one-time work of the libraries
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "torch": SDPBackend.FLASH_ATTENTION}


def random_tensors(count, *sizes):
    return [torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) for _ in range(count)]


def by_head(tensors):
    return [x.transpose(1, 2) for x in tensors]


def weigh_values(q, k, v, causal):
    """Returns attention of one head in f32."""
    s = q @ k.T / math.sqrt(q.shape[1])
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1 + s.shape[1] - s.shape[0]), -math.inf)
    return s.softmax(-1) @ v


def print_refusal(name, why):
    print(f"{name}: {str(why).splitlines()[0]}", file=sys.stderr)


class Forward:
    groups, warm_up, rounds, flops = FORWARD, [], 20, 4

    def __init__(self, library, b, h, hk, s, t, d, causal):
        self.sizes, self.causal = (b, h, hk, s, t, d), causal
        [q], (k, v) = random_tensors(1, b, s, h, d), random_tensors(2, b, t, hk, d)
        self.q, self.k, self.v = q, k, v
        self.plan, ours = library.forward(q, k, v, causal)
        self.calls = {"ridge": ours, **{name: self.peer(backend) for name, backend in BACKENDS.items()}}
        if flash_attn_func:
            self.calls["fa3"] = self.fa3

    def peer(self, backend):
        q, k, v = by_head((self.q, self.k, self.v))

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True).transpose(1, 2)
        return call

    def fa3(self):
        out = flash_attn_func(self.q, self.k, self.v, causal=self.causal)
        return out[0] if isinstance(out, tuple) else out

    def output(self, out):
        return out

    def reference(self, head):
        q, k, v = self.q[0, :, head].float(), self.k[0, :, 0].float(), self.v[0, :, 0].float()
        return weigh_values(q, k, v, self.causal)

    def more(self, us):
        b, _, hk, _, t, d = self.sizes
        return {"gbytes_per_s": {n: round(4 * b * hk * t * d / x * 1e-3) for n, x in harness.medians(us).items()}}


class Backward:
    groups, warm_up, rounds, flops = BACKWARD, [BACKWARD_WARM_UP], 12, 10

    def __init__(self, library, b, h, hk, s, d, causal):
        self.sizes, self.causal = (b, h, hk, s, s, d), causal
        (q, dout), (k, v) = random_tensors(2, b, s, h, d), random_tensors(2, b, s, hk, d)
        self.has_fa3 = flash_attn_func and d <= MAX_FA3_WIDTH
        o, self.lse = self.forward(q, k, v)
        self.tensors = [q, k, v, o, dout]
        self.plan, ours = library.backward(self.tensors, self.lse, causal, False)
        self.calls = {"ridge": ours, "ordered": library.backward(self.tensors, self.lse, causal, True)[1]}
        for name, backend in BACKENDS.items():
            try:
                self.calls[name] = self.peer(backend)
            except RuntimeError as why:
                print_refusal(name, why)
        if self.has_fa3:
            self.calls |= {"fa3": self.fa3(False), "fa3_ordered": self.fa3(True)}

    def forward(self, q, k, v):
        """Returns o and the log-sum-exp [B, H, S]."""
        if self.has_fa3:
            return _flash_attn_forward(q, k, v, softmax_scale=q.shape[-1] ** -0.5, causal=self.causal)[:2]
        shared = q.shape[2] // k.shape[2]
        operands = by_head((q, k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)))
        o, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(*operands, is_causal=self.causal)
        return o.transpose(1, 2).contiguous(), lse

    def peer(self, backend):
        q, k, _, _, dout = self.tensors
        operands = [x.detach().requires_grad_() for x in by_head(self.tensors[:3])]
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*operands, is_causal=self.causal, enable_gqa=q.shape[2] != k.shape[2])
        grad = dout.transpose(1, 2)
        return lambda: by_head(torch.autograd.grad(out, operands, grad, retain_graph=True))

    def fa3(self, ordered):
        q, k, v, o, dout = self.tensors
        grads = [torch.empty_like(x) for x in (q, k, v)]

        def call():
            _flash_attn_backward(dout, q, k, v, o, self.lse, None, None, None, None, None, None, *grads,
                                 softmax_scale=q.shape[-1] ** -0.5, is_causal=self.causal, deterministic=ordered)
            return grads
        return call

    def output(self, out):
        return out[0].clone()

    def reference(self, head):
        if self.sizes[3] > MAX_REFERENCE_ROWS:
            return None
        q, k, v, _, dout = self.tensors
        q, k, v, dout = q[0, :, head].float(), k[0, :, 0].float(), v[0, :, 0].float(), dout[0, :, head].float()
        q.requires_grad_()
        return torch.autograd.grad(weigh_values(q, k, v, self.causal), q, dout)[0]

    def more(self, us):
        return {"ours_over_ordered": harness.ratio(us, "ridge", "ordered")}


def time_case(kind, library, shape, rounds, time_cold):
    torch.manual_seed(1)
    case = kind(library, *shape)
    b, h, hk, s, t, d = case.sizes
    graphs, found = {}, {}
    for name, call in case.calls.items():
        try:
            graph, out = harness.capture(call)[0], case.output(call())
        except RuntimeError as why:
            print_refusal(name, why)
            continue
        graphs[name], found[name] = graph.replay, out
    head, off = h // hk - 1, {}
    right = case.reference(head)  # The last head that uses the first key head
    if right is not None:
        off = {name: (x[0, :, head].float() - right).norm().item() / right.norm().item() for name, x in found.items()}
    us = harness.alternate(graphs, rounds, time_cold, warm_up=3, shuffle=True)
    times = harness.medians(us)
    others = [name for name in times if name not in ("ridge", "ordered", "fa3_ordered")]
    best = min(others, key=times.get, default="ridge")
    least = max(min((x for name, x in off.items() if name in others), default=1), 1e-9)
    flops = kind.flops * b * h * s * t * d * (0.5 if case.causal else 1)
    return {"shape": shape, **case.plan, "us": times, "spread": {n: [round(min(x), 2), round(max(x), 2)] for n, x in us.items()},
            "best": best, "best_over_ours": harness.ratio(us, best, "ridge"), **case.more(us),
            "tflops": {n: round(flops / x * 1e-6, 1) for n, x in times.items()}, "off": {n: round(x / least, 3) for n, x in off.items()}}


def main():
    arguments = harness.parse_arguments(__doc__, "library out group...", 0, backward=False)
    kind = Backward if arguments.backward else Forward
    library, time_cold, rounds = AttentionLibrary(arguments.library), harness.cold_timer(256), arguments.rounds or kind.rounds
    result = harness.Result(arguments.out, torch.cuda.get_device_name())
    for shape in kind.warm_up:
        time_case(kind, library, shape, rounds, time_cold)
    for name in arguments.group or kind.groups:
        for shape in kind.groups[name]:
            result.add(time_case(kind, library, shape, rounds, time_cold))


if __name__ == "__main__":
    main()
