#!/usr/bin/env python3
"""Compiles all CUDA product kernels of bf16 with nvcc (no GPU needed) and compares them with a golden file: registers,
spills (none), shared memory, and the counts of important instructions. Kernels of f16 differ only in the type of an
instruction, so one part of them is compiled and must have the same properties. One part of those of e4m3, tf32, int8 and
e4m3_128 is compiled and must not spill. The gated layer of bf16 and the input gradients of bf16 and f16 (rows dx0 …) have a golden
file of their own, which also has the bytes of spill stores.
`--update` rewrites the files. Without nvcc the tool prints "not checked" and exits with 0.

The kind of an instruction is read from the machine code: 16 bytes per instruction, the low 12 bits are the opcode (the
numbers below are from cuobjdump's listing)."""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "data/cubins_sm90.csv"
GATED_GOLDEN = ROOT / "data/gated_cubins_sm90.csv"
FLAGS = ["-gencode=arch=compute_90a,code=sm_90a", "-std=c++20", "--expt-relaxed-constexpr", "-O3", f"-I{ROOT / 'src'}"]
OPCODES = {0x9F0: "wgmma", 0x5B4: "tma_load", 0x3B5: "tma_store", 0x844: "stmatrix", 0x9C8: "setmaxnreg", 0x983: "local_load",
         0x387: "local_store"}
COUNTED = ["wgmma", "tma_load", "tma_store", "stmatrix", "setmaxnreg"]
HEADER = "type,config,registers,shared_bytes," + ",".join(COUNTED)
SIXTEEN_BITS = ("Bf16", "F16")  # types whose kernels differ only in the type of an instruction
FIRST_GRADIENT_ROW = 1000  # rows of the input gradient are numbered from here, so that they sort last
GATED_HEADER = "type,config,registers,spilled_bytes," + ",".join(COUNTED)


def find_nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def count_config_parts() -> int:
    text = (ROOT / "src/ridge/ops/product/sm90.h").read_text()
    return int(re.search(r"int config_parts = device::has_all_kernels \? (\d+)", text).group(1))


def list_operand_types() -> list[str]:
    """Returns the types for which the build compiles the product kernels."""
    text = (ROOT / "cmake/RidgeCuda.cmake").read_text()
    return re.search(r"foreach\(type IN ITEMS ([\w ]+)\)  # operands of products", text).group(1).split()


def read_elf_sections(elf: bytes):
    """Yields (name, contents) of every section of a 64-bit ELF file."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    base = headers[names][4]
    for name, _, _, _, at, length in headers:
        end = elf.index(b"\0", base + name)
        yield elf[base + name:end].decode(), elf[at:at + length]


def parse_kernel_name(mangled: str):
    found = re.search(r"(Matmul|Gated|InputGradient)KernelILi(\d+)E(?:NS_(\d+)|([fa])E)", mangled)
    if not found:
        return None
    # A class is its length and its name; float is "f" and int8_t is "a".
    kind = mangled[found.end():found.end() + int(found.group(3))] if found.group(3) else {"f": "float", "a": "int8_t"}[found.group(4)]
    return kind, int(found.group(2)) + (FIRST_GRADIENT_ROW if found.group(1) == "InputGradient" else 0)


def compile_part(compiler: str, folder: str, kind: str, part: int | str) -> dict:
    """Compiles a part of the product kernels, or another file, which may spill. Returns the properties of each kernel."""
    gated = isinstance(part, str)
    out = pathlib.Path(folder) / f"{kind}_{str(part).replace('/', '_')}.cubin"
    source, define = (part, []) if gated else ("product/sm90.cu", [f"-DRIDGE_PART={part}"])
    run = subprocess.run([compiler, *FLAGS, "-Xptxas", "-v", f"-DRIDGE_TYPE={kind}", *define, "-cubin",
                          str(ROOT / "src/ridge/ops" / source), "-o", str(out)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"check_cubins: nvcc failed on {kind} part {part}:\n{run.stderr}")
    if "C75" in run.stderr:
        sys.exit(f"check_cubins: ptxas serialises wgmma or ignores setmaxnreg:\n{run.stderr}")
    rows: dict = {}
    name, spilled = None, []
    for line in run.stderr.splitlines():
        if "Compiling entry function" in line:
            name = parse_kernel_name(line)
        elif name and "spill stores" in line:
            spilled = [int(x) for x in re.findall(r"(\d+) bytes", line)]
        elif name and "Used " in line:
            rows[name] = {"registers": int(re.search(r"Used (\d+) registers", line).group(1)),
                          "spilled_bytes": spilled[1], "stack": spilled[0]}
    for section, code in read_elf_sections(out.read_bytes()):
        row = parse_kernel_name(section) if section.startswith(".text.") else None
        if not row:
            continue
        counts = dict.fromkeys(OPCODES.values(), 0)
        for at in range(0, len(code), 16):
            kind_of = OPCODES.get(struct.unpack_from("<Q", code, at)[0] & 0xFFF)
            if kind_of:
                counts[kind_of] += 1
        if not rows[row]["stack"] and (counts["local_load"] or counts["local_store"]):
            sys.exit(f"check_cubins: {row[0]} row {row[1]}: expected no local memory, found loads or stores of it")
        rows[row].update(counts)
    return rows


def list_shared_bytes(compiler: str, folder: str) -> list[int]:
    """Returns the shared memory of each kernel config, printed by a program that needs no device."""
    source = pathlib.Path(folder) / "shared.cu"
    source.write_text('#include "ridge/ops/product/sm90.h"\n#include <cstdio>\n#include <utility>\n'
                      "using namespace ridge::ops;\n"
                      "template <int... i> void print(std::integer_sequence<int, i...>) {\n"
                      '  (std::printf("%d\\n", ridge::tile::sm90::shared_bytes<cuda::MatmulKernel<i, ridge::Bf16>>), ...);\n}\n'
                      "int main() { print(std::make_integer_sequence<int, static_cast<int>(sm90_kernel_configs.size())>{}); }\n")
    program = source.with_suffix("")
    subprocess.run([compiler, *FLAGS, str(source), "-o", str(program)], check=True)
    return [int(x) for x in subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()]


def product_lines(compiler: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        shared, (first, *others) = list_shared_bytes(compiler, folder), list_operand_types()
        parts = [(first, part) for part in range(count_config_parts())] + [(kind, 0) for kind in others]
        jobs = [pool.submit(compile_part, compiler, folder, *part) for part in parts]
        rows = {name: row for job in jobs for name, row in job.result().items()}
    if spills := [f"{kind} row {row}: {x['stack']} bytes of stack" for (kind, row), x in sorted(rows.items()) if x["stack"]]:
        sys.exit("check_cubins: expected no spills, found " + ", ".join(spills))
    for kind in others:
        of_kind = {row: rows.pop((name, row)) for name, row in list(rows) if name == kind}
        if not of_kind:
            sys.exit(f"check_cubins: expected kernels of {kind}, found none")
        for row, found in of_kind.items() if kind in SIXTEEN_BITS else ():
            if found != rows[first, row]:
                sys.exit(f"check_cubins: row {row} of {kind}: expected the properties of {first}, {rows[first, row]}, found {found}")
    return [",".join(map(str, [name[0].lower(), name[1], rows[name]["registers"], shared[name[1]],
                               *(rows[name][kind] for kind in COUNTED)])) for name in sorted(rows)]


def gated_lines(compiler: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows: dict = {}
        files = [("Bf16", "gated/sm90.cu"), ("both", "gated/input_gradient.cu")]
        for found in pool.map(lambda file: compile_part(compiler, folder, *file), files):
            rows.update(found)
    def label(row: int):
        return f"dx{row - FIRST_GRADIENT_ROW}" if row >= FIRST_GRADIENT_ROW else row
    return [",".join(map(str, [name[0].lower(), label(name[1]), *(rows[name][key] for key in ("registers", "spilled_bytes", *COUNTED))]))
            for name in sorted(rows)]


def compare_with_golden(golden_file: pathlib.Path, header: str, lines: list[str]) -> int:
    golden = golden_file.read_text().splitlines()
    if golden[0] != lines[0]:
        print(f"check_cubins: checked for serialised products but not the counts: expected {golden[0][2:]}, found {lines[0][2:]}")
        return 0
    wrong = [f"expected {a}\nfound    {b}" for a, b in zip(golden, lines) if a != b]
    if len(golden) != len(lines):
        wrong.append(f"expected {len(golden)} lines, found {len(lines)}")
    if wrong:
        print("check_cubins: the code differs from the golden file (--update rewrites it):\n" + header + "\n" + "\n".join(wrong))
        return 1
    print(f"check_cubins: {len(lines) - 2} kernels as expected")
    return 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--update", action="store_true")
    update = arguments.parse_args().update
    compiler = find_nvcc()
    if not compiler:
        print("check_cubins: not checked: nvcc was not found")
        return 0
    version = re.search(r"release ([\d.]+)", subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout).group(1)
    wrong = 0
    for golden, header, made in ((GOLDEN, HEADER, product_lines), (GATED_GOLDEN, GATED_HEADER, gated_lines)):
        lines = [f"# nvcc {version}", header, *made(compiler)]
        if update:
            golden.write_text("\n".join(lines) + "\n")
        else:
            wrong |= compare_with_golden(golden, header, lines)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
