#!/usr/bin/env python3
"""Measures how often `ridge advise` is right on this CPU, or with --on cuda on a device, for data/advice_programs.txt or
another file of programs separated by empty lines.

    advice_hits.py RIDGE [--on cuda] [--programs FILE] [--json OUT.json]   runs `ridge advise --confirm` on each, prints the rates
    advice_hits.py --fit RESULT.json      writes data/models/advice.csv or device_advice.csv: the spread of the ratios
    advice_hits.py --within RESULT.json   counts the ratios of another run within the spreads of these files
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

from times.harness import describe_run, format_result

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIN_TIMED = 3  # per kind; with fewer its line remains a guess


def run_advise(ridge, program, on):
    done = subprocess.run([ridge, "advise", program, "--on", on, "--confirm", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program}\n{done.stderr}")
    return json.loads(done.stdout)


def spread_file(on):
    return ROOT / f"data/models/{'' if on == 'cpu' else 'device_'}advice.csv"


def read_spreads(on):
    """Returns the lines of the file by kind."""
    lines = [line.split(",") for line in spread_file(on).read_text().splitlines()]
    return {cells[0].removeprefix("device_").removeprefix("advice_"): cells for cells in lines if len(cells) == 5 and "advice_" in cells[0]}


def measured_over_predicted(row):
    return row["measured_ratio"] / row["predicted_ratio"]


def advice_rows(report, middles):
    """Yields one row per advice; confirmed ones have the predicted and the measured ratio of the two times."""
    now = report["predicted_s"]["expected"]
    for each in report["advice"]:
        row = {"kind": each["kind"], "what": each["what"], "program": report["program"], "confirmable": each["confirmable"]}
        if each["confirmed"]:
            predicted = (1 - each["gain_s"]["expected"] / now) * each["work"] / middles[each["kind"]]
            row |= {"predicted_ratio": predicted, "measured_ratio": each["confirmed"]["ratio"]["median"],
                    "came_true": each["confirmed"]["came_true"], "within": each["confirmed"]["within"]}
        yield row


def write_spreads(path):
    result = json.loads(pathlib.Path(path).read_text())
    file = spread_file(result["on"])
    text = file.read_text()
    for kind, cells in read_spreads(result["on"]).items():
        off = sorted(measured_over_predicted(r) for r in result["rows"] if r.get("kind") == kind and "within" in r)
        if len(off) < MIN_TIMED:
            continue
        at = [f"{off[round(share * (len(off) - 1))]:.2f}" for share in (0.05, 0.5, 0.95)]
        text = text.replace(",".join(cells), ",".join([cells[0], *at, *cells[4:]]))
    for fact in ("device", "day"):
        text = re.sub(rf"^# {fact}: .*", f"# {fact}: {result[fact]}", text, flags=re.M)
    file.write_text(text)


def print_interval_coverage(path):
    result = json.loads(pathlib.Path(path).read_text())
    run = [r for r in result["rows"] if "within" in r]
    known = read_spreads(result["on"])
    inside = sum(float(known[r["kind"]][1]) <= measured_over_predicted(r) <= float(known[r["kind"]][3]) for r in run)
    print(f"{inside} of {len(run)} ratios ({100 * inside / max(1, len(run)):.0f} %) are within the spreads of {spread_file(result['on']).name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ridge", nargs="?")
    parser.add_argument("--programs", default=ROOT / "data/advice_programs.txt")
    parser.add_argument("--on", default="cpu")
    parser.add_argument("--json")
    parser.add_argument("--fit")
    parser.add_argument("--within")
    arguments = parser.parse_args()
    if arguments.within:
        return print_interval_coverage(arguments.within)
    if arguments.fit:
        return write_spreads(arguments.fit)
    programs = [p for p in pathlib.Path(arguments.programs).read_text().split("\n\n") if p.strip()]
    rows, silent = [], 0
    middles = {kind: float(cells[2]) for kind, cells in read_spreads(arguments.on).items()}
    for program in programs:
        found = list(advice_rows(run_advise(arguments.ridge, program, arguments.on), middles))
        silent += not found
        rows += found
        for row in found:
            said = f"{row['predicted_ratio']:.3f} {row['measured_ratio']:.3f} {row['came_true']} {row['within']}" if "within" in row else "-"
            print(f"{row['what']:60} {said}", flush=True)
    run = [r for r in rows if "within" in r]
    true, within = sum(r["came_true"] for r in run), sum(r["within"] for r in run)
    print(f"{len(programs)} programs, {silent} of them without advice; {len(rows)} advices, {len(run)} confirmable here "
          f"({100 * len(run) / max(1, len(rows)):.0f} %): {true} right in direction ({100 * true / max(1, len(run)):.0f} %), {within} within the "
          f"interval ({100 * within / max(1, len(run)):.0f} %)")
    if arguments.json:
        machine = json.loads(subprocess.run([arguments.ridge, "machines", arguments.on, "--json"], capture_output=True, text=True).stdout)
        document = {**describe_run(machine.get("title", "")), "on": arguments.on, "rows": rows}
        pathlib.Path(arguments.json).write_text(format_result(document))


if __name__ == "__main__":
    main()
