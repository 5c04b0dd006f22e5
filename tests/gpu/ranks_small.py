#!/usr/bin/env python3
"""Times small products on several GPUs in three modes: unsharded, in sequence with the collective, and in chunks that overlap
with it. For each shape the model chooses a mode before any measurement. The script prints its loss against the fastest
mode, and how often that is at most 5 %. Shapes whose modes differ by less than their spread do not count. Prints a line per
shape and writes JSON:

    ranks_small.py RANKS ranks_gpu OUT.json [SHAPES]

Every figure is the median of SMALL_ROUNDS rounds (5) with alternating modes, each a median of replays of a recorded pass."""
import datetime
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROUNDS = int(os.environ.get("SMALL_ROUNDS", "5"))
KINDS, ROWS = ["gather", "scatter", "reduce"], [16, 64, 256, 1024]
WIDTHS = [(4096, 4096), (2048, 2048), (2048, 8192), (8192, 2048), (4096, 14336)]
WAYS = ["not sharded", "in turn", "in chunks"]
UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3}


def microseconds(value: str, unit: str) -> float:
    return float(value) * UNITS[unit]


def row_of(shape: str, lines: list[str]) -> dict:
    times, predicted = {way: [] for way in WAYS}, {}
    for line in lines:
        found = re.match(r".* (not sharded|in turn|in chunks): ([0-9.]+) ms", line)
        times[found[1]].append(float(found[2]) * 1e3)
        if said := re.search(r"\| ([0-9.]+) (us) predicted$", line):
            predicted["not sharded"] = microseconds(*said.groups())
        for way, text in (("in chunks", r"([0-9.]+) (ns|us|ms) predicted in [0-9]+ chunk"), ("in turn", r"([0-9.]+) (ns|us|ms) (?:predicted )?in turn")):
            if said := re.search(text, line):
                predicted[way] = microseconds(*said.groups())
    middle = {way: statistics.median(all_of) for way, all_of in times.items()}
    spread = {way: max(all_of) - min(all_of) for way, all_of in times.items()}
    chosen, best = min(predicted, key=predicted.get), min(middle, key=middle.get)
    over = middle[chosen] / middle[best] - 1
    near = middle[chosen] - middle[best] <= max(spread[chosen], spread[best])
    return {"case": shape, "us": {w: round(middle[w], 2) for w in WAYS}, "spread_us": {w: round(spread[w], 2) for w in WAYS},
            "predicted_us": predicted, "chosen": chosen, "best": best, "over": round(over, 3), "within_spread": near}


def summary_of(rows: list[dict]) -> dict:
    counted = [r for r in rows if not r["within_spread"] or r["chosen"] == r["best"]]
    return {"shapes": len(rows), "counted": len(counted), "within_5_percent": sum(r["over"] <= 0.05 for r in counted)}


def main() -> None:
    ranks, binary, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    shapes = [f"{kind}:{rows}:{d}:{f}" for kind, rows, (d, f) in itertools.product(KINDS, ROWS, WIDTHS)]
    shapes = shapes[: int(sys.argv[4]) if len(sys.argv) > 4 else None]
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout.splitlines()[0]
    rows, lines = [], []
    with subprocess.Popen([binary, "small", str(ranks), str(ROUNDS), *shapes], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if not line.startswith(shapes[len(rows)] + " "):
                raise SystemExit(f"{binary} said: {line}{run.stdout.read()}")
            lines.append(line.rstrip())
            if len(lines) < ROUNDS * len(WAYS):
                continue
            rows.append(row_of(shapes[len(rows)], lines))
            lines = []
            print(json.dumps(rows[-1]), flush=True)
            document = {"date": datetime.date.today().isoformat(), "device": f"{ranks} x {device}", "commit": os.environ.get("RIDGE_COMMIT", ""),
                        "command": f"SMALL_ROUNDS={ROUNDS} ranks_small.py {ranks} ranks_gpu OUT.json", "summary": summary_of(rows), "rows": rows}
            pathlib.Path(target).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            if len(rows) == len(shapes):
                break
    print(json.dumps(summary_of(rows)))


if __name__ == "__main__":
    main()
