#!/usr/bin/env python3
"""How far predictions of a library's products are off, fitted on one half of the sites (n, k) and tested on the other: one line
for each set of timings at hand. Sets of others lie beside the repository (../shared/measured/public) and are passed over, loudly,
where they are not.

    library_table.py RIDGE            prints the table
    library_table.py RIDGE --write    also writes the numbers into machines/: h200 of data/library, others of the public sets
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLIC = next((p for p in (ROOT / "../shared/measured/public", ROOT / "shared/measured/public") if p.is_dir()), None)
COLLECTED = "ai-dynamo/aiconfigurator collections"
OTHERS = "aic_gemm_bf16_h100_a100_l40s_b200.csv"
# what, machine, file, column, dtype, goal, whether machines/ takes its numbers, who measured
SETS = [
    ("H200 bf16, own random set and suite", "h200", "data/library/h200_cublaslt.csv", "us_best", "bf16", 8, True, "data/library/h200_cublaslt.csv"),
    ("H200 bf16, public (median of three)", "h200", "aic_h200_gemm_bfloat16.csv", "median", "bf16", 6.5, False, COLLECTED),
    ("H100 bf16, public", "h100", OTHERS, "h100_us", "bf16", 8, True, COLLECTED),
    ("A100 bf16, public", "a100_80", OTHERS, "a100_us", "bf16", 10, True, COLLECTED),
    ("L40S bf16, public", "l40s", OTHERS, "l40s_us", "bf16", 10, False, COLLECTED),
    ("B200 bf16, public", "b200", OTHERS, "b200_us", "bf16", 10, True, COLLECTED),
    ("H200 fp8, vLLM", "h200", "aic_h200_gemm_fp8.csv", "vllm_us", "e4m3", 12, False, COLLECTED),
    ("H200 fp8, TensorRT-LLM", "h200", "aic_h200_gemm_fp8.csv", "trtllm_us", "e4m3", 12, False, COLLECTED),
    ("H200 fp8, SGLang", "h200", "aic_h200_gemm_fp8.csv", "sglang_us", "e4m3", 12, False, COLLECTED),
]


def with_medians(path, folder):
    """The same with a column of the median of the others."""
    lines = path.read_text().splitlines()
    out = pathlib.Path(folder) / path.name
    rows = [line.split(",") for line in lines]
    out.write_text("\n".join([lines[0] + ",median"] + [",".join(r + [str(statistics.median(float(x) for x in r[3:] if x))]) for r in rows[1:]]) + "\n")
    return out


def calibrated(ridge, machine, path, column, dtype, source, form):
    words = [ridge, "calibrate", path, "--on", machine, "--column", column, "--dtype", dtype, "--source", source] + form
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        print(f"library_table: {machine} is passed over: {done.stderr.splitlines()[0]}", file=sys.stderr)
        return ""
    return done.stdout


def write(machine, text):
    lines = [line for line in text.splitlines() if line.startswith("library_")]
    path = ROOT / f"machines/{machine}.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("library_")]
    at = kept.index("[numbers]") + 1
    while at < len(kept) and kept[at] and not kept[at].startswith("["):
        at += 1
    path.write_text("\n".join(kept[:at] + lines + kept[at:]) + "\n")


def main():
    ridge = sys.argv[1]
    print("| timings | products | bare roofline | numbers before | fitted | kept apart, mean | nine of ten within | 80 % interval holds | goal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    percent = lambda x: f"{100 * x:.1f} %"
    with tempfile.TemporaryDirectory() as folder:
        for what, machine, name, column, dtype, goal, writes, source in SETS:
            path = ROOT / name if name.startswith("data/") else PUBLIC and PUBLIC / name
            if not path or not path.is_file():
                print(f"library_table: {what} is passed over: no {name} in ../shared/measured/public", file=sys.stderr)
                continue
            if column == "median":
                path = with_medians(path, folder)
            text = calibrated(ridge, machine, path, column, dtype, source, ["--json"])
            if not text:
                continue
            found = json.loads(text)
            apart = found["apart"]
            print(f"| {what} | {apart['products'] + found['fitted']['products']} | {percent(found['roofline']['mean'])} | "
                  f"{percent(found['before']['mean'])} | {percent(found['fitted']['mean'])} | {percent(apart['mean'])} | "
                  f"{percent(apart['percentile_90'])} | {percent(apart['inside'])} | {goal} % |", flush=True)
            if writes and "--write" in sys.argv:
                write(machine, calibrated(ridge, machine, path, column, dtype, source, []))


if __name__ == "__main__":
    main()
