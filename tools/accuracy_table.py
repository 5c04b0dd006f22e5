#!/usr/bin/env python3
"""Errors of predictions of library kernels: `ridge calibrate` fits them on one half of the sites, the other half tests them.
One line per set of timings. Timings by others are outside the repository (--public, default ../shared/measured/public); the
tool skips missing ones with a message.

    accuracy_table.py RIDGE                    prints the table
    accuracy_table.py RIDGE --write            also writes numbers of products into machines/
    accuracy_table.py RIDGE --page FILE.html   also draws predicted against measured, with the ten largest errors
    accuracy_table.py RIDGE --only WORD        only lines that contain this word
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

from accuracy_page import render_page
from accuracy_sets import ROOT, list_timing_sets

HEAD = ["timings", "kernels", "roofline alone", "numbers before", "fitted", "held out", "90th percentile", "coverage of the 80 % interval", "goal"]


def run_calibrate(ridge, each, path, more):
    words = [ridge, "calibrate", path, "--on", each.machine, "--dtype", each.dtype, "--source", each.source, *more]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode:
        print(f"accuracy_table: {each.title} is skipped: {done.stderr.splitlines()[0]}", file=sys.stderr)
        return ""
    return done.stdout


def write_library_numbers(machine, text):
    """Writes the numbers of a library into a machine file."""
    lines = [line for line in text.splitlines() if line.startswith("library_")]
    path = ROOT / f"machines/{machine}.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("library_")]
    at = kept.index("[numbers]") + 1
    while at < len(kept) and kept[at] and not kept[at].startswith("["):
        at += 1
    path.write_text("\n".join(kept[:at] + lines + kept[at:]) + "\n")


def summarize_errors(points):
    """Returns mean error, 90th percentile and interval coverage."""
    off = sorted(abs(p["predicted_s"] / p["measured_s"] - 1) for p in points)
    inside = sum(p["low_s"] <= p["measured_s"] <= p["high_s"] for p in points)
    return sum(off) / len(off), off[round(0.9 * (len(off) - 1))], inside / len(off)


def read_points(path, kinds):
    out = []
    for row in csv.DictReader(path.open()):
        point = {k: float(v) for k, v in row.items()}
        point["sizes"] = tuple(v for k, v in point.items() if not k.endswith("_s"))
        same = kinds.get(point["sizes"], [])
        point["kind"] = min((x[1:] for x in same if abs(x[0] / point["measured_s"] - 1) < 1e-4), default=None)
        out.append(point)
    return out


def format_percent(x):
    return f"{100 * x:.1f} %"


def format_line(name, found, points, goal):
    mean, nine, inside = summarize_errors(points)
    count = found["apart"]["kernels"] + found["fitted"]["kernels"]
    means = [found[key]["mean"] for key in ("roofline", "before", "fitted")]
    return [name, str(count), *map(format_percent, (*means, mean, nine, inside)), goal]


def pooled_lines(pooled):
    """Lines per kind of operator, pooled over machines with their own numbers, and the error of another model."""
    for kind, points in pooled.items():
        theirs = sum(abs(p["kind"][1] / p["measured_s"] - 1) for p in points) / len(points)
        mean, nine, inside = summarize_errors(points)
        yield [f"NeuSight's {kind}, held out", str(len(points)), "–", "–", "–", *map(format_percent, (mean, nine, inside)),
               f"NeuSight's {format_percent(theirs)}"]


def evaluate_sets(arguments, folder):
    """Yields the line and the points of each set."""
    pooled = {}
    for each in list_timing_sets(arguments.public):
        if arguments.only and arguments.only not in each.title:
            continue
        csv_path, points_path = folder / "timings.csv", folder / "points.csv"
        kinds = each.prepare(csv_path)
        if kinds is None:
            print(f"accuracy_table: {each.title} is skipped: no {each.file} in {arguments.public}", file=sys.stderr)
            continue
        text = run_calibrate(arguments.ridge, each, csv_path, ["--json", "--points", points_path])
        if not text:
            continue
        points = read_points(points_path, kinds)
        for point in points if each.kinds else []:
            pooled.setdefault(point["kind"][0], []).append(point)
        if arguments.write and each.updates_machine:
            write_library_numbers(each.machine, run_calibrate(arguments.ridge, each, csv_path, []))
        if not each.kinds:
            yield format_line(each.title + each.remark, json.loads(text), points, each.goal), points
    for line in pooled_lines(pooled):
        yield line, pooled[line[0].removeprefix("NeuSight's ").removesuffix(", held out")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ridge")
    parser.add_argument("--public", type=pathlib.Path, default=ROOT / "../shared/measured/public")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    shown = []
    print("| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for line, points in evaluate_sets(arguments, pathlib.Path(folder)):
            print("| " + " | ".join(line) + " |", flush=True)
            shown.append((line, points))
    if not shown:
        sys.exit("accuracy_table: no timings found")
    if arguments.page:
        arguments.page.write_text(render_page(HEAD, shown))


if __name__ == "__main__":
    main()
