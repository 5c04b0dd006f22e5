#!/usr/bin/env python3
"""How far predictions of libraries' kernels are off: fitted by `ridge calibrate` on one half of the sites, tested on the other. One
line for each set of timings at hand. Sets of others lie beside the repository (../shared/measured/public, or --public) and are
passed over, loudly, where they are not.

    accuracy_table.py RIDGE                    prints the table
    accuracy_table.py RIDGE --write            also writes numbers of products into machines/
    accuracy_table.py RIDGE --page FILE.html   also draws predicted against measured, with the ten worst of each
    accuracy_table.py RIDGE --only WORD        the lines that hold this word
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

from accuracy_page import page
from accuracy_sets import ROOT, sets

HEAD = ["timings", "kernels", "bare roofline", "numbers before", "fitted", "kept apart", "nine of ten within", "80 % interval holds", "goal"]


def calibrated(ridge, each, path, more):
    words = [ridge, "calibrate", path, "--on", each.machine, "--dtype", each.dtype, "--source", each.source, *more]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode:
        print(f"accuracy_table: {each.what} is passed over: {done.stderr.splitlines()[0]}", file=sys.stderr)
        return ""
    return done.stdout


def write(machine, text):
    """The numbers of a library in a machine's file."""
    lines = [line for line in text.splitlines() if line.startswith("library_")]
    path = ROOT / f"machines/{machine}.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("library_")]
    at = kept.index("[numbers]") + 1
    while at < len(kept) and kept[at] and not kept[at].startswith("["):
        at += 1
    path.write_text("\n".join(kept[:at] + lines + kept[at:]) + "\n")


def errors(points):
    """Of those kept apart: mean, nine of ten, the share in the interval."""
    off = sorted(abs(p["predicted_s"] / p["measured_s"] - 1) for p in points)
    inside = sum(p["low_s"] <= p["measured_s"] <= p["high_s"] for p in points)
    return sum(off) / len(off), off[round(0.9 * (len(off) - 1))], inside / len(off)


def points_of(path, kinds):
    out = []
    for row in csv.DictReader(path.open()):
        point = {k: float(v) for k, v in row.items()}
        point["sizes"] = tuple(v for k, v in point.items() if not k.endswith("_s"))
        same = kinds.get(point["sizes"], [])
        point["kind"] = min((x[1:] for x in same if abs(x[0] / point["measured_s"] - 1) < 1e-4), default=None)
        out.append(point)
    return out


def percent(x):
    return f"{100 * x:.1f} %"


def line_of(name, found, points, goal):
    mean, nine, inside = errors(points)
    count = found["apart"]["kernels"] + found["fitted"]["kernels"]
    return [name, str(count), percent(found["roofline"]["mean"]), percent(found["before"]["mean"]), percent(found["fitted"]["mean"]),
            percent(mean), percent(nine), percent(inside), goal]


def pooled_lines(pooled):
    """Kinds of operators over several machines, each with its own numbers; beside what another model said of the same kernels."""
    for kind, points in pooled.items():
        theirs = sum(abs(p["kind"][1] / p["measured_s"] - 1) for p in points) / len(points)
        mean, nine, inside = errors(points)
        yield [f"NeuSight's {kind}, kept apart", str(len(points)), "–", "–", "–", percent(mean), percent(nine), percent(inside),
               f"NeuSight's {percent(theirs)}"]


def judged(arguments, folder):
    """Each set's line, and its points."""
    pooled = {}
    for each in sets(arguments.public):
        if arguments.only and arguments.only not in each.what:
            continue
        csv_path, points_path = folder / "timings.csv", folder / "points.csv"
        kinds = each.prepare(csv_path)
        if kinds is None:
            print(f"accuracy_table: {each.what} is passed over: no {each.file} in {arguments.public}", file=sys.stderr)
            continue
        text = calibrated(arguments.ridge, each, csv_path, ["--json", "--points", points_path])
        if not text:
            continue
        points = points_of(points_path, kinds)
        for point in points if each.pooled else []:
            pooled.setdefault(point["kind"][0], []).append(point)
        if arguments.write and each.writes:
            write(each.machine, calibrated(arguments.ridge, each, csv_path, []))
        if not each.pooled:
            yield line_of(each.what + each.remark, json.loads(text), points, each.goal), points
    for line in pooled_lines(pooled):
        yield line, pooled[line[0].removeprefix("NeuSight's ").removesuffix(", kept apart")]


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
        for line, points in judged(arguments, pathlib.Path(folder)):
            print("| " + " | ".join(line) + " |", flush=True)
            shown.append((line, points))
    if not shown:
        sys.exit("accuracy_table: no timings at hand")
    if arguments.page:
        arguments.page.write_text(page(HEAD, shown))


if __name__ == "__main__":
    main()
