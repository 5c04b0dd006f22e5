"""Attention of a library of kernels, through ctypes. Plans are made in a process without PyTorch, which runs this file: the
reader of machine files and PyTorch need different C++ runtimes.

The library: cmake -DRIDGE_CUDA=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON … && ninja ridge_attention"""
import ctypes
import json
import math
import os
import sys

from harness import run_json

FAR = 1 << 30  # Bound of a mask that masks nothing


def int64s(values):
    return (ctypes.c_int64 * len(values))(*values)


def make_plan(path, function, sizes, strides, numbers, plan):
    """Returns the library, a handle, and the plan. The library chooses the plan if its first number is negative."""
    library, chosen = ctypes.CDLL(path), int64s(plan)
    make = getattr(library, function + "_make")
    make.restype, library.ridge_attention_error.restype = ctypes.c_void_p, ctypes.c_char_p
    numbers = [ctypes.c_double(x) if isinstance(x, float) else x for x in numbers]
    handle = make(0, int64s(sizes), int64s(strides), *numbers, chosen)
    if not handle:
        raise SystemExit(library.ridge_attention_error().decode())
    return library, ctypes.c_void_p(handle), list(chosen)


class AttentionLibrary:
    """Takes tensors [B, S, H, D]. Returns the plan's properties and a call."""

    def __init__(self, path):
        self.path = os.path.abspath(path)

    def prepare(self, function, tensors, causal, number, plan_size):
        """Returns the plan, the size of its workspace, and a call with pointers."""
        import torch

        (b, s, h, d), (t, hk) = tensors[0].shape, tensors[1].shape[1:3]
        request = [self.path, function, [b, h, hk, s, t, d, -FAR, t - s if causal else FAR],
                   [x.stride(i) for x in tensors for i in (0, 2, 1)], [1 / math.sqrt(d), number]]
        plan = run_json([sys.executable, __file__, json.dumps([*request, [-1] + [0] * (plan_size - 1)])])
        library, handle, _ = make_plan(*request, plan)
        workspace = torch.zeros(65536 + sum(plan[5:]), device="cuda", dtype=torch.uint8)

        def call(*pointers):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if getattr(library, function)(handle, *pointers, ctypes.c_void_p(workspace.data_ptr()),
                                          ctypes.c_int64(workspace.numel()), stream):
                raise RuntimeError(library.ridge_attention_error().decode())
        return plan, workspace.numel(), call

    def forward(self, q, k, v, causal):
        """The call returns o."""
        import torch

        tensors = [q, k, v, torch.empty_like(q)]
        plan, _, run = self.prepare("ridge_attention", tensors, causal, 0.0, 6)

        def call():
            run(*(ctypes.c_void_p(x.data_ptr()) for x in tensors), None)
            return tensors[3]
        return {"config": plan[0], "parts": plan[2], "predicted_us": plan[4] / 1e3}, call

    def backward(self, tensors, lse, causal, ordered):
        """Takes q, k, v, o and the gradient of o. The call returns dq, dk and dv."""
        import torch

        grads = [torch.empty_like(x) for x in tensors[:3]]
        plan, workspace_bytes, run = self.prepare("ridge_attention_backward", [*tensors, *grads], causal, int(ordered), 8)
        operands = [*tensors, lse, *grads]

        def call():
            run((ctypes.c_void_p * 9)(*(x.data_ptr() for x in operands)))
            return grads
        return {"config": plan[0], "width": plan[1], "predicted_us": plan[4] / 1e3, "workspace_bytes": workspace_bytes}, call


if __name__ == "__main__":
    print(json.dumps(make_plan(*json.loads(sys.argv[1]))[2]))
