#!/usr/bin/env python3
"""Times small products on several GPUs in three modes: unsharded, in sequence with the collective, and in chunks that overlap
with it:

    ranks_small.py RANKS ranks_gpu OUT.json [SHAPES]

For each shape the model chooses a mode before any measurement. The script prints its loss against the fastest mode, and how
often that is at most 5 %. Shapes whose modes differ by less than their spread do not count. Every round is a median of replays
of a recorded pass; the program alternates the modes."""
import itertools
import json
import re
import subprocess

import harness

KINDS, ROWS = ["gather", "scatter", "reduce"], [16, 64, 256, 1024]
WIDTHS = [(4096, 4096), (2048, 2048), (2048, 8192), (8192, 2048), (4096, 14336)]
MODES = ["not sharded", "in turn", "in chunks"]
PREDICTIONS = {"not sharded": r"\| ([0-9.]+) (us) predicted$", "in chunks": r"([0-9.]+) (ns|us|ms) predicted in [0-9]+ chunk",
               "in turn": r"([0-9.]+) (ns|us|ms) (?:predicted )?in turn"}
UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3}


def summarize_modes(shape, lines):
    times, predicted = {mode: [] for mode in MODES}, {}
    for line in lines:
        found = re.match(r".* (not sharded|in turn|in chunks): ([0-9.]+) ms", line)
        times[found[1]].append(float(found[2]) * 1e3)
        for mode, pattern in PREDICTIONS.items():
            if found := re.search(pattern, line):
                predicted[mode] = float(found[1]) * UNITS[found[2]]
    us, spread = harness.medians(times, 9), {mode: harness.spread(all_of) for mode, all_of in times.items()}
    chosen, best = min(predicted, key=predicted.get), min(us, key=us.get)
    return {"case": shape, "us": harness.medians(times), "spread_us": {mode: round(x, 2) for mode, x in spread.items()},
            "predicted_us": predicted, "chosen": chosen, "best": best, "over": round(us[chosen] / us[best] - 1, 3),
            "within_spread": us[chosen] - us[best] <= max(spread[chosen], spread[best])}


def summarize_shapes(rows):
    counted = [r for r in rows if not r["within_spread"] or r["chosen"] == r["best"]]
    return {"shapes": len(rows), "counted": len(counted), "within_5_percent": sum(r["over"] <= 0.05 for r in counted)}


def main():
    arguments = harness.parse_arguments(__doc__, "ranks program out shapes...", 5)
    shapes = [f"{kind}:{rows}:{d}:{f}" for kind, rows, (d, f) in itertools.product(KINDS, ROWS, WIDTHS)]
    shapes = shapes[:int(arguments.shapes[0]) if arguments.shapes else None]
    result = harness.Result(arguments.out, f"{arguments.ranks} x {harness.query_gpu('name')}")
    command = [arguments.program, "small", arguments.ranks, str(arguments.rounds), *shapes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for shape in shapes:
            lines = list(itertools.islice(run.stdout, arguments.rounds * len(MODES)))
            if wrong := [line for line in lines if not line.startswith(shape + " ")]:
                raise SystemExit(f"{arguments.program} printed: {wrong[0]}{run.stdout.read()}")
            row = summarize_modes(shape, map(str.rstrip, lines))
            result.add(row, summary=summarize_shapes([*result.rows, row]))
    print(json.dumps(result.about["summary"]))


if __name__ == "__main__":
    main()
