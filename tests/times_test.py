#!/usr/bin/env python3
"""Every benchmark of tools/times runs from its command line to its result file, with stubs for PyTorch, the libraries of kernels
and all programs; the harness alternates, warms up and summarizes as it says."""
import ctypes
import io
import itertools
import json
import os
import pathlib
import random
import re
import runpy
import subprocess
import sys
import tempfile
import types
from unittest import mock

TIMES = pathlib.Path(__file__).resolve().parent.parent / "tools/times"
MODULES = ["torch", "torch.nn", "torch.nn.functional", "torch.nn.attention", "torch.distributed", "torch.distributed._symmetric_memory",
           "ridge", "ridge.torch", "flash_attn_interface"]
COMMANDS = """attention_times.py library OUT
attention_times.py library OUT --backward
cpu_times.py attention ridge OUT
cpu_times.py geglu ridge OUT
geglu_times.py library OUT
loops_times.py ridge OUT
loops_times.py ridge OUT --on cuda
grouped_times.py matmul_gpu OUT
psgemm_times.py ridge libraries OUT
python_times.py OUT
ranks_small.py 2 ranks_gpu OUT
ranks_times.py 2 ranks_gpu OUT
tensor_parallel_times.py ridge OUT
training_times.py OUT"""
REPORT = {"total": {"measured_s": {"median": 2e-3}, "max_rel_error": 0, "flops": 1e9, "bytes": 1 << 20, "time_network_s": 1, "time_upper_s": 4},
          "network": {"measured_s": 1, "computing_predicted_s": 1, "predicted_s": 1, "in_chunks": [], "carrier": "NCCL", "grid": "1 x 1 x 2"},
          "ranks": [{"compute_s": 1}], "provenance": {"memory_bytes": 1, "isa": "avx2"}}
MODES = "x product alone: 1.0 ms\nx in turn: 3.0 ms | 9 us predicted in 2 chunks, 11 us in turn\nx in chunks: 2.0 ms\n"
OUTPUT = {"ridge": json.dumps(REPORT), "nvidia-smi": "device\n", "mpirun": json.dumps({"1 x 2, 64": 2e-3}), "git": "abc1234\n",
          "ranks_gpu": MODES, "matmul_gpu": "groups,rows,n,k,kernel,predicted_us,alike_us,uneven_us\n4,64,8,8,a,3,4,5\n4,64,8,8,b,9,2,6\n"}


class Stub(mock.MagicMock):
    """Anything of PyTorch: a tensor of 8 x 8 x 8 x 8, an event, a module."""
    shape, cuda_stream = (8,) * 4, 0
    item = elapsed_time = lambda self, *_: 1 + random.random()
    numel = element_size = data_ptr = stride = memory_allocated = max_memory_allocated = lambda self, *_: 8
    get_device_name = lambda self: "device"  # noqa: E731
    mem_get_info = lambda self: (8, 8)  # noqa: E731
    chunk = lambda self, *_, **__: (self, self)  # noqa: E731
    grad = lambda self, *_, **__: (self, self, self)  # noqa: E731
    _flash_attn_forward = _scaled_dot_product_flash_attention = lambda self, *_, **__: (self, self, self)  # noqa: E731


def run(command, **_):
    """Stands in for subprocess.run."""
    output = json.dumps([1] * 8) if command[1].endswith("attention_library.py") else OUTPUT[command[0]]
    return types.SimpleNamespace(stdout=output, stderr="", returncode=0)


class Process:
    """Stands in for a process of ranks_times.py or of `ranks_gpu small`."""

    def __init__(self, command, **_):
        line = json.dumps({"product": 1, "network": 2, "in turn": 3}) + "\n"
        lines = [f"{shape} {mode}: 2.0 ms | 9 us predicted in 2 chunks, 11 us in turn\n" for shape in command[4:]
                 for mode in ("not sharded", "in turn", "in chunks") * int(command[3])]
        self.stdin, self.stdout, self.kill, self.wait = Stub(), io.StringIO("".join(lines) or line * 99), Stub(), Stub()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def run_benchmark(command, folder):
    """Returns the result of a benchmark, of one round; without rows if it is not formatted."""
    script, *words = f"{command} --rounds 1".split()
    out = folder / (re.sub(r"\W+", "_", command) + ".json")
    sys.argv = [script, *(str(out) if word == "OUT" else word for word in words)]
    runpy.run_path(str(TIMES / script), run_name="__main__")
    result = json.loads(out.read_text())
    return result if out.read_text() == sys.modules["harness"].format_result(result) else {"rows": []}


def check_harness():
    import harness

    calls = []
    found = harness.alternate({"a": "a", "b": "b"}, 50, lambda call: calls.append(call) or len(calls), warm_up=2, shuffle=True)
    pairs = ["".join(calls[i:i + 2]) for i in range(0, len(calls), 2)]
    yield len(calls) == 104 and set(pairs) == {"ab", "ba"}, "each round has each call once, in another order"
    yield min(found["a"] + found["b"]) == 5 and len(found["a"]) == 50, "rounds of the warm-up do not count"
    yield harness.ratio({"a": [2, 9, 8], "b": [1, 3, 2]}, "a", "b") == 3, "a ratio is the median of ratios within a round"
    yield harness.summarize({"a": [1, 3, 9]}, ["a"]) == {"a": {"us": {"median": 3, "min": 1, "max": 9}, "a_over_this": 1}}, "a summary"
    document = {"day": "2026-11-28", "rows": [{"a": [{"b": 1}]}, {"a": 2}]}
    text = harness.format_result(document)
    yield json.loads(text) == document and text.count("\n") == 7, "a result has one line per row"


def check_model_times():
    """With the stubs' clock, each of the 99 commands of the table takes a second."""
    for limit, code in (("98", 1), ("99", 0)):
        sys.argv = ["model_times.py", "ridge", "--rounds", "1", "--check", limit]
        try:
            runpy.run_path(str(TIMES / "model_times.py"), run_name="__main__")
            yield False, "model_times.py ended without an exit code"
        except SystemExit as end:
            yield int(end.code or 0) == code, f"model_times.py --check {limit} ended with {end.code}"


def main():
    torch = Stub(version=types.SimpleNamespace(cuda="0"))
    torch.__version__, torch.cuda.nccl.version = "0", lambda: (2, 28)
    library = Stub()
    for name in ("attention", "attention_backward", "geglu_forward", "geglu_backward"):
        getattr(library, f"ridge_{name}").return_value = 0
    for name in ("attention", "attention_backward", "geglu"):
        getattr(library, f"ridge_{name}_make").return_value = 1
    clock = itertools.count()
    sys.path.insert(0, str(TIMES))
    wrong = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, {name: torch for name in MODULES}), \
            mock.patch.object(ctypes, "CDLL", lambda path: library), mock.patch.object(subprocess, "run", run), \
            mock.patch.object(subprocess, "Popen", Process), mock.patch("time.perf_counter", lambda: next(clock)), \
            mock.patch("sys.stdout", io.StringIO()), mock.patch("os.environ", {}):
        sys.modules["torch.nn.functional"] = torch
        for command in COMMANDS.splitlines():
            result = run_benchmark(command, pathlib.Path(folder))
            if not result["rows"] or not all(result[key] for key in ("day", "device", "commit", "command", "driver", "clocks")):
                wrong.append(f"{command}: {result}")
        sys.argv, sys.stdin = ["ranks_times.py", "--serve"], io.StringIO('["gather", 8, 8, 8]\n["scatter", 8, 8, 8]\n["reduce", 8, 8, 8]\n')
        os.environ |= {"RANK": "0", "WORLD_SIZE": "2"}
        runpy.run_path(str(TIMES / "ranks_times.py"), run_name="__main__")
        answers = [json.loads(line) for line in sys.stdout.getvalue().splitlines()[-3:]]
        wrong += [f"a rank answered {answers}"] * ([*map(len, answers)] != [4, 4, 3])
        wrong += [what for right, what in [*check_harness(), *check_model_times()] if not right]
    print("\n".join(wrong) or f"{len(COMMANDS.splitlines())} benchmarks ran with stubs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
