#!/usr/bin/env python3
"""Counts the instructions of one call of each function per lane of a Hopper, in the machine code of
ops/function/device_math.h, and writes data/models/functions.csv: count_instructions.py CUOBJDUMP. nvcc must be on the PATH.
Then, and with --machines only, writes the costs (cost_exp) of the machine files with kernels "sm90": two FLOPs for each of
the fewest instructions that a call takes, because the vector peak counts a multiply-add, one instruction, as two.

It counts the longest path without calls and without double precision, which only rare arguments use. The special function
unit has 16 lanes and runs concurrently with the other 128 lanes: its instructions count 8 each if that exceeds the total
number of instructions."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTIONS = ["gelu", "cos", "sin", "gelu_tanh", "tanh", "log", "silu", "sigmoid", "exp", "divide", "sqrt", "rsqrt", "erf", "softplus",
             "tan", "atan", "log1p", "expm1", "hard_swish", "mish", "pow"]
BINARY = ["divide", "pow"]
REPEATED_BODY = {"cos": "cos_in_unit_range"}  # further calls in a chain that have a separate body
APPROXIMATE = ["gelu", "gelu_tanh", "silu", "sigmoid"]  # name_16 is the version for 16-bit results
SPECIAL = re.compile(r"MUFU|FRND|F2I|I2F\b|F2F")
SLOW_PATH = re.compile(r"CALL|DMUL|DADD|DFMA")
HEADER = """# Instructions per lane of one call of a function, of each further call in a chain, and of a call with a 16-bit result;
# other functions count as 1. Derived: counted in machine code, without timings.
# tool: tools/count_instructions.py
# device: sm_90a
# day: {day}
# timings: none
function,first,again,rough,origin
"""


def kernel_source():
    """Returns kernels that call each function once and twice: a chain loads constants once."""
    out = '#include "ridge/ops/function/device_math.h"\nusing namespace ridge;\n'
    for name in FUNCTIONS + list(REPEATED_BODY.values()) + [f"{name}_16" for name in APPROXIMATE]:
        more = ", p[threadIdx.x + 32]" if name in BINARY else ""
        once = f"ops::device_math::{name}(p[threadIdx.x]{more})"
        twice = f"ops::device_math::{name}({once}{more})"
        for kernel, value in ((name, once), (f"{name}_twice", twice)):
            out += f'extern "C" __global__ void k_{kernel}(float* p) {{ p[threadIdx.x] = {value}; }}\n'
    return out


def disassemble_kernels(cuobjdump):
    """Yields the instructions of each kernel: address, predicate, text."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = pathlib.Path(folder) / "k.cu", pathlib.Path(folder) / "k.cubin"
        text.write_text(kernel_source())
        subprocess.run(["nvcc", "-arch=sm_90a", "-std=c++20", f"-I{ROOT}/src", "-cubin", "-o", cubin, text], check=True)
        sass = subprocess.run([cuobjdump, "-sass", cubin], check=True, capture_output=True, text=True).stdout
    for part in re.split(r"Function : k_", sass)[1:]:
        lines = re.findall(r"/\*([0-9a-f]{4})\*/\s+((?:@!?U?P\d+ )?)([^;]*);", part)
        yield part.split()[0], [(int(at, 16), predicate, words) for at, predicate, words in lines]


def longest_path(code):
    """Returns the number of instructions on the longest path, and the number of special ones on it."""
    place = {at: i for i, (at, _, _) in enumerate(code)}
    ways = [(0, 0)] * (len(code) + 1)
    never = (float("-inf"), 0)  # paths of rare arguments
    for i in reversed(range(len(code))):
        _, predicate, words = code[i]
        jump = re.match(r"BRA.*?(0x[0-9a-f]+)", words)
        after = ways[i + 1]
        if words.startswith("EXIT"):
            after = after if predicate else (0, 0)
        elif SLOW_PATH.match(words) or words.startswith("RET"):
            after = never
        elif jump:
            there = place[int(jump[1], 16)]
            to = ways[there] if there > i else never
            after = max(after, to) if predicate else to
        ways[i] = (1 + after[0], bool(SPECIAL.match(words)) + after[1])
    return ways[0]


def repeated_call_cost(once, twice):
    return max(twice[0] - once[0], 8 * (twice[1] - once[1]))


def cost_lines():
    """Returns the lines of a machine file for the functions of data/models/functions.csv."""
    text = (ROOT / "data/models/functions.csv").read_text()
    day = re.search(r"^# day: (\S+)", text, re.M)[1]
    rows = [line.split(",") for line in text.splitlines() if not line.startswith("#")][1:]
    return [f'cost_{name} = {{ value = {2 * min(map(int, counts))}, unit = "FLOP", source = "tools/count_instructions.py: 2 for each '
            f'instruction of Ridge\'s kernels", read = {day}, origin = "derived" }}\n' for name, *counts, _ in rows]


def write_machine_costs():
    for path in sorted((ROOT / "machines").glob("*.toml")):
        lines = path.read_text().splitlines(keepends=True)
        if 'kernels = "sm90"\n' not in lines:
            continue
        kept = [line for line in lines if not line.startswith("cost_")]
        start = kept.index("[numbers]\n") + 1
        end = next((i for i in range(start, len(kept)) if not kept[i].strip()), len(kept))
        path.write_text("".join(kept[:end] + cost_lines() + kept[end:]))


def main():
    if sys.argv[1:] == ["--machines"]:
        write_machine_costs()
        return
    counts = {name: longest_path(code) for name, code in disassemble_kernels(sys.argv[1])}
    of = {name: repeated_call_cost(counts[name], counts[f"{name}_twice"]) for name in counts if not name.endswith("_twice")}
    day = subprocess.run(["git", "log", "-1", "--format=%cs", "--", "src/ridge/ops/function/device_math.h"], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout.strip()
    lines = [f"{name},{of[name]},{of[REPEATED_BODY.get(name, name)]},{of[f'{name}_16' if name in APPROXIMATE else name]},derived\n"
             for name in FUNCTIONS]
    (ROOT / "data/models/functions.csv").write_text(HEADER.format(day=day) + "".join(lines))
    write_machine_costs()


if __name__ == "__main__":
    main()
