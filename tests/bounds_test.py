#!/usr/bin/env python3
"""Forty programs and their bounds: bounds_test.py RIDGE [--run [OPTION...]].

Without --run, `explain` names the limiter of every statement on an H100 and on this CPU. Half of the limiter's rate must raise
the statement's bound, and twice the rate of the others must leave it. With --run, every program runs on this CPU; the shortest
time of a run must not be below the bound, unless memory limits it and the report says that the data stays in a cache. `ridge run`
takes the options (--threads 1). Run `ridge probe` first: the bounds of a CPU that was not measured are guesses."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = """attention | attention_backward | bottleneck | cos_chain N=4194304 | decode B=4 T=2048 | dot N=33554432
embedding N=512 V=8192 | flash_attention S=512 | gda | geglu N=64 | geglu_backward N=64 | llama_decoder D=1024 F=2048 T=512
mlp B=64 D=512 F=1024 | rmsnorm_backward | softmax N=2048"""
TEXTS = """f32[M,K] * f32[K,N] -> f32[M,N] ; M=768 K=768 N=768
bf16[M,K] * bf16[K,N] -> bf16[M,N] ; M=768 K=768 N=768
bf16[M,K] * bf16[K,N] -> f32[M,N] ; M=8 K=4096 N=4096
int8[M,K] * int8[K,N] -> int32[M,N] ; M=512 K=512 N=512
f32[M,K] * f32[K] -> f32[M] ; M=8192 K=4096
f32[B,M,K] * f32[B,K,N] -> f32[B,M,N] ; B=16 M=128 N=128 K=128
x: f32[N]  y: f32[N] = x + 1 ; N=33554432
x: f32[N]  z: f32[N]  y: f32[N] = x * 2 + z ; N=33554432
x: f32[N]  y: f32[N] = exp(x) ; N=16777216
x: f32[N]  y: f32[N] = log(abs(x)) ; N=16777216
x: f32[N]  y: f32[N] = cos(cos(x)) ; N=16777216
x: bf16[N]  y: bf16[N] = gelu(x) ; N=16777216
x: f32[N]  y: f32[N] = repeat(16, tanh, x) ; N=2097152
x: f32[N]  z: f32[N]  y: f32[N] = x / z ; N=16777216
x: f32[N]  y: f32[N] = sqrt(abs(x)) ; N=16777216
x: f32[N]  y: f32[N] = silu(x) * x ; N=16777216
x: f32[N]  z: f32[N]  y: f32[N] = abs(x) ** z ; N=4194304
x: f32[M,N]  y: f32[M] = sum(x over N) ; M=4096 N=4096
x: f32[M,N]  y: f32[M] = max(x over N) ; M=4096 N=4096
x: f32[M,N]  y: f32[N] = mean(x over M) ; M=4096 N=4096
x: f32[M,N]  y: f32[M,N] = softmax(x over N) ; M=4096 N=2048
x: bf16[M,N]  g: bf16[N]  y: bf16[M,N] = rmsnorm(x over N) * g ; M=8192 N=2048
x: f32[M,N]  y: f32[M,N] = layernorm(x over N) ; M=4096 N=2048
x: f32[M,N]  y: f32[N,M] = x ; M=4096 N=2048
x: f32[M,K]  w: f32[K,N]  h[M,N] = x * w  y: f32[M,N] = relu(h) ; M=512 K=512 N=512"""


def programs():
    """Returns [name, arguments] of each program."""
    examples = [words.split() for words in re.split(r"[|\n]", EXAMPLES)]
    out = [[words[0], [str(ROOT / "examples" / (words[0] + ".ridge")), *words[1:]]] for words in examples]
    for line in TEXTS.split("\n"):
        text, dims = line.split(" ; ")
        out.append([text, [re.sub(r"  (?=\w+[:\[])", "\n", text), *dims.split()]])
    return out


def call(ridge, verb, arguments, *more):
    """Returns the report of a command, or exits with its error."""
    done = subprocess.run([ridge, verb, *arguments, *more, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{verb} {' '.join(arguments)} {' '.join(more)}: {done.stderr}")
    return json.loads(done.stdout)


def with_scaled_rate(toml, limiter, factor):
    """Returns a machine file whose compute peaks, or memory bandwidths, are `factor` times as high."""
    section, lines = "", []
    for line in toml.split("\n"):
        if line.startswith("["):
            section = line
        scaled = "[matrix" in section or "[vector" in section if limiter == "compute" else "[memory" in section and "bandwidth" in line
        lines.append(re.sub(r"value = ([\d.e+]+)", lambda m: f"value = {float(m[1]) * factor!r}", line, count=1) if scaled else line)
    return "\n".join(lines)


def check_statements(ridge, arguments, toml, folder):
    """Returns the number of statements with a limiter, and those whose bound does not follow the limiter's rate."""
    def ops(limiter, factor):
        path = folder / f"{limiter}_{factor}.toml"
        path.write_text(with_scaled_rate(toml, limiter, factor))
        return call(ridge, "explain", arguments, "--on", str(path))["ops"]

    checked, faults, given = 0, [], ops("compute", 1)
    changed = {(limiter, factor): ops(limiter, factor) for limiter in ("compute", "memory") for factor in (0.5, 2)}
    for i, op in enumerate(given):
        bound, limiter = op["time_lower_s"], op["limiter"]
        if limiter not in ("compute", "memory") or not bound:
            continue
        checked += 1
        other = "memory" if limiter == "compute" else "compute"
        slower, faster, unchanged = (changed[key][i]["time_lower_s"] / bound for key in ((limiter, 0.5), (limiter, 2), (other, 2)))
        if slower <= 1.001 or faster >= 1 or abs(unchanged - 1) > 1e-9:
            faults.append(f"{op['name']}: limited by {limiter}, but half of its rate takes {slower:.3f} of the time, "
                          f"twice {faster:.3f}; twice the rate of {other} {unchanged:.3f}")
    return checked, faults


def check_limiters(ridge, folder):
    checked = faults = 0
    for machine in ("h100", "cpu"):
        toml = (ROOT / "machines" / "h100.toml").read_text() if machine == "h100" else cpu_toml()
        for name, arguments in programs():
            count, wrong = check_statements(ridge, arguments, toml, folder)
            checked, faults = checked + count, faults + len(wrong)
            for fault in wrong:
                print(f"{machine}, {name}: {fault}")
    print(f"{checked - faults} of {checked} bounds follow the rate of their limiter")
    return faults


def cpu_toml():
    """Returns the machine file of `ridge probe`, or the fixed numbers of a CPU if there is none."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    path = pathlib.Path(home) / "ridge/machines/cpu.toml"
    if path.is_file():
        return path.read_text()
    number = 'value = {}, unit = "{}", source = "for the test", read = 2026-11-28'
    return "\n".join(['name = "cpu"', 'title = "a CPU"', "[matrix]", *(f"{d} = {{ {number.format(r, u)} }}" for d, r, u in (
        ("bf16", 4e11, "FLOP/s"), ("f16", 2e11, "FLOP/s"), ("int8", 8e11, "OP/s"))), "[vector]",
        f"f32 = {{ {number.format(2e11, 'FLOP/s')} }}", "[memory.dram]", f"bandwidth = {{ {number.format(3e10, 'B/s')} }}"])


def check_runs(ridge, options):
    """Runs each program and returns how many ran faster than their bound. A machine may have no kernels for a program."""
    faults = 0
    for name, arguments in programs():
        done = subprocess.run([ridge, "run", *arguments, *options, "--json"], capture_output=True, text=True)
        if done.returncode:
            print(f"not run: {name}: {done.stderr.splitlines()[0]}", flush=True)
            continue
        total = json.loads(done.stdout)["total"]
        measured, bound = total["measured_s"]["min"], total["time_lower_s"]
        is_fault = measured < bound and not (total.get("in_cache") and total["limiter"] == "memory")
        faults += is_fault
        print(f"{100 * bound / measured:6.1f} %  {measured * 1e3:10.3f} ms  {total['limiter']:8}"
              f"{'in ' + total['in_cache'] if total.get('in_cache') else '':10}{'ABOVE ' if is_fault else ''}{name}", flush=True)
    return faults


def main():
    ridge = os.path.abspath(sys.argv[1])
    if len(programs()) != 40:
        sys.exit(f"expected 40 programs, found {len(programs())}")
    if sys.argv[2:3] == ["--run"]:
        faults = check_runs(ridge, sys.argv[3:])
    else:
        with tempfile.TemporaryDirectory() as folder:
            faults = check_limiters(ridge, pathlib.Path(folder))
    sys.exit(f"{faults} bounds are wrong" if faults else 0)


if __name__ == "__main__":
    main()
