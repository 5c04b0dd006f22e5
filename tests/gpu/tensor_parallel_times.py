#!/usr/bin/env python3
"""Times Megatron's decoder layer (examples/tensor_parallel*.ridge) with the sizes of Llama-3-8B on 1, 2, … GPUs: the time of a
pass and the fraction of communication, measured and as predicted before the run from plans, links and the library's fit.
Prints a line per run and writes JSON:

    tensor_parallel_times.py ridge OUT.json [GPUS …]"""
import datetime
import json
import os
import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
LAYER = ["D=4096", "G=8", "R=4", "E=128", "F=14336"]
CASES = [("prefill, 2048 tokens", "tensor_parallel_prefill.ridge", ["B=1", "S=2048"]), ("decode, 1 sequence of 4096", "tensor_parallel.ridge", ["B=1", "T=4096"]),
         ("decode, 16 sequences of 4096", "tensor_parallel.ridge", ["B=16", "T=4096"]), ("decode, 64 sequences of 4096", "tensor_parallel.ridge", ["B=64", "T=4096"])]


def run(ridge: str, gpus: int, file: str, sizes: list[str]) -> dict:
    command = [ridge, "run", str(EXAMPLES / file), "--mesh", f"X={gpus}", "--ranks", str(gpus), "--on", "cuda", "--json", *sizes, *LAYER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def share_by_roofs(ridge: str, chips: int, file: str, sizes: list[str]) -> float:
    """Returns the communication fraction of a chip's time by the closed form, without overlap."""
    command = [ridge, "explain", str(EXAMPLES / file), "--on", "h100", f"X={chips}", "--json", *sizes, *LAYER]
    total = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["total"]
    return (total.get("time_network_s") or 0) / total["time_upper_s"]


def main() -> None:
    ridge, target = sys.argv[1:3]
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout.splitlines()[0]
    rows = []
    shares = {name: {chips: round(share_by_roofs(ridge, chips, file, sizes), 4) for chips in (1, 2, 4, 8)} for name, file, sizes in CASES}
    for name, file, sizes in CASES:
        for gpus in map(int, sys.argv[3:] or ["1", "2"]):
            report = run(ridge, gpus, file, sizes)
            network, ranks = report["network"], report["ranks"]
            row = {"case": name, "gpus": gpus, "pass_s": report["total"]["measured_s"]["median"], "max_rel_error": report["total"]["max_rel_error"],
                   "computing_s": max(r["compute_s"] for r in ranks), "network_s": network["measured_s"],
                   "computing_predicted_s": network["computing_predicted_s"], "network_predicted_s": network["predicted_s"] or 0,
                   "how": network["in_chunks"]}
            rows.append(row)
            print(json.dumps(row), flush=True)
            document = {"date": datetime.date.today().isoformat(), "device": device, "commit": os.environ.get("RIDGE_COMMIT", ""),
                        "command": "tests/gpu/tensor_parallel_times.py ridge OUT.json", "carrier": network["carrier"], "share_by_roofs": shares, "rows": rows}
            pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
