#!/usr/bin/env python3
"""Fits the constants of a collective library (src/ridge/distributed/collective.h) to timings, on half of the sites, and
prints the error on the other half.

    tools/fit_collectives.py TIMINGS.csv [--switch N]      columns op_name, num_gpus, message_size, nccl_dtype, latency_us
    tools/fit_collectives.py --issued data/library/h100_nccl.csv --machine machines/h100.toml

The second form takes timings of calls that a framework's host issued in sequence: a call takes as long as the host or the
library, whichever is longer. The host's time is the median of sites below 2 MB whose library time, from the machine file, is
less than half of the timing. Sites from 2 MB on are held out, and their error is printed.

A site is a collective, a number of devices and a size. message_size counts elements. --switch N: all-reduces of floating-point
numbers over N devices may be reduced in the switch. Prints the lines of [numbers] of a machine file."""
import csv
import math
import random
import statistics
import sys
import tomllib

BYTES = {"half": 2, "int8": 1}
NAMES = ["collective_call_s", "collective_step_s", "collective_narrow_rate", "collective_wide_s", "collective_wide_rate",
         "collective_copy_rate", "collective_pair_narrow_rate", "collective_pair_wide_s", "collective_pair_wide_rate",
         "collective_switch_rate"]
START = [5e-6, 0.8e-6, 100e9, 14e-6, 350e9, 1000e9, 10e9, 7e-6, 310e9, 265e9]
KINDS = {"alltoall": "all-to-all", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "all_reduce": "all-reduce"}


def predict_seconds(row, c, switch):
    kind, n, size, _, floating = row
    call, step, narrow, wide_s, wide, copy, pair_narrow, pair_s, pair_wide, adds = c
    sent = (n - 1) / n * size * (2 if kind == "all_reduce" else 1)
    if kind == "alltoall":
        return call + step + min(sent / pair_narrow, pair_s + sent / pair_wide)
    time = min(sent / narrow, wide_s + sent / wide + size / n / copy)
    if kind == "all_reduce" and n == switch and floating:
        time = min(time, wide_s + size / adds)
    return call + step * (n - 1) * (2 if kind == "all_reduce" else 1) + time


def mean_error(rows, c, switch):
    return sum(abs(predict_seconds(r, c, switch) / r[3] - 1) for r in rows) / max(1, len(rows))


def fit_host_issue_time(words):
    numbers = tomllib.load(open(words[words.index("--machine") + 1], "rb"))["numbers"]
    constants = [numbers[name]["value"] for name in NAMES]
    lines = [line for line in open(words[words.index("--issued") + 1]) if not line.startswith("#")]
    rows = [(r["op"], int(r["gpus"]), int(r["bytes"]), float(r["us"]) * 1e-6, True) for r in csv.DictReader(lines)]
    few = [r for r in rows if r[2] < 2e6 and predict_seconds(r, constants, 8) < r[3] / 2]
    host = statistics.median(r[3] for r in few)
    print(f'collective_issue_s = {{ value = {host:.3g}, unit = "s" }}   # of {len(few)} timings')

    def error_percent(some, least):
        return 100 * sum(abs(max(least, predict_seconds(r, constants, 8)) / r[3] - 1) for r in some) / max(1, len(some))

    apart = [r for r in rows if r[2] >= 2e6]
    for kind, called in [*KINDS.items(), ("", "all")]:
        there = [r for r in apart if kind in ("", r[0])]
        print(f"# {called}: off by {error_percent(there, host):.1f} % on {len(there)} held-out timings from 2 MB on; "
              f"{error_percent(there, 0):.1f} % without it")


def main():
    words = sys.argv[1:]
    if "--issued" in words:
        return fit_host_issue_time(words)
    switch = int(words[words.index("--switch") + 1]) if "--switch" in words else 0
    rows = [(r["op_name"], int(r["num_gpus"]), int(r["message_size"]) * BYTES[r["nccl_dtype"]], float(r["latency_us"]) * 1e-6,
             r["nccl_dtype"] == "half") for r in csv.DictReader(open(words[0]))]
    random.seed(36)
    sites = sorted({r[:3] for r in rows})
    random.shuffle(sites)
    fitted = set(sites[::2])
    near, apart = [r for r in rows if r[:3] in fitted], [r for r in rows if r[:3] not in fitted]
    best = START
    least = mean_error(near, best, switch)
    steps = 20000
    for i in range(steps):
        spread = 0.3 * (1 - i / steps) + 0.01
        other = [x * math.exp(random.gauss(0, spread)) if random.random() < 0.3 else x for x in best]
        if (found := mean_error(near, other, switch)) < least:
            best, least = other, found
    for name, value in zip(NAMES, best):
        print(f'{name} = {{ value = {value:.3g}, unit = "{"s" if name.endswith("_s") else "B/s"}" }}')
    for kind, called in KINDS.items():
        here, there = [[r for r in some if r[0] == kind] for some in (near, apart)]
        print(f"# {called}: off by {100 * mean_error(here, best, switch):.1f} % on {len(here)} timings, "
              f"{100 * mean_error(there, best, switch):.1f} % on {len(there)} held-out ones")


if __name__ == "__main__":
    main()
