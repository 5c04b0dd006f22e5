"""The protocol and the result files of the benchmarks in this folder; each of them declares its cases and contestants.

Contestants alternate in one run. Each round has another order, and the first rounds warm up and do not count. A call on a
device is queued while the device overwrites its L2 and then idles, so that L2 is cold, the clock is high and the host's time
does not count. Figures are medians; ratios are medians of the ratios within a round. A result names its device, day, commit,
command, versions and clocks, and is written after each row."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CYCLES_PER_MS = 1.75e6  # Clock cycles of a device; torch.cuda._sleep takes cycles
for name in [name for name in os.environ if name.startswith(("OPENBLAS", "OMP_", "MKL_"))]:
    del os.environ[name]  # Settings of other libraries must not change a timing.


def parse_arguments(doc, names, rounds, **options):
    """Returns the arguments of the command line: `names` by position, --rounds, and options with their defaults. Words for a name
    that ends in "..." are a list."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in names.split():
        parser.add_argument(name.removesuffix("..."), nargs="*" if name.endswith("...") else None)
    for name, default in {"rounds": rounds, **options}.items():
        how = {"action": "store_true"} if default is False else {"default": default, "type": type(default)}
        parser.add_argument("--" + name.replace("_", "-"), **how)
    return parser.parse_args()


def alternate(calls, rounds, time_call=lambda call: call(), warm_up=0, shuffle=False):
    """Times each call once per round. Returns the figures of each, round by round, without those of the warm-up."""
    order, draw, found = list(calls), random.Random(1), {name: [] for name in calls}
    for i in range(warm_up + rounds):
        if shuffle:
            draw.shuffle(order)
        for name in order:
            figure = time_call(calls[name])
            if i >= warm_up:
                found[name].append(figure)
    return found


def time_repeated(call, calls):
    """Returns the mean milliseconds of calls that run back to back on the device."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / calls


def cold_timer(flush_mb, idle_ms=3.0):
    """Returns a function that returns the microseconds of a call on an idle device whose L2 is cold."""
    import torch

    flush = torch.empty(flush_mb << 20, device="cuda", dtype=torch.uint8)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_cold(call):
        flush.zero_()
        torch.cuda._sleep(int(idle_ms * CYCLES_PER_MS))
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) * 1e3
    return time_cold


def capture(call, warm_up=2):
    """Returns a CUDA graph of the call, and what the captured call returned."""
    import torch

    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()
    return graph, out


def count_extra_bytes(call):
    """Returns a call's peak memory beyond its inputs and results."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    out = call()
    torch.cuda.synchronize()
    outputs = sum(t.numel() * t.element_size() for t in (out if isinstance(out, tuple) else (out,)) if t is not None)
    return torch.cuda.max_memory_allocated() - base - outputs


def medians(found, digits=2):
    return {name: round(statistics.median(values), digits) for name, values in found.items()}


def spread(values):
    return max(values) - min(values)


def ratio(found, name, other):
    """Returns the median over the rounds of the one's figure divided by the other's."""
    return round(statistics.median(a / b for a, b in zip(found[name], found[other])), 4)


def summarize(us, against):
    """Returns each contestant's median, minimum and maximum, and the ratios of `against` to it."""
    out = {}
    for name, values in us.items():
        out[name] = {"us": {key: round(of(values), 2) for key, of in (("median", statistics.median), ("min", min), ("max", max))}}
        out[name] |= {f"{other}_over_this": ratio(us, other, name) for other in against}
    return out


def run_text(command, **options):
    """Returns what a program prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def run_json(command, **options):
    return json.loads(run_text(command, **options))


def name_cpu():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def try_text(*command):
    """Returns what a program prints, or an empty string if it fails."""
    try:
        return run_text(command).strip()
    except (OSError, RuntimeError):
        return ""


def query_gpu(properties):
    """Returns properties of the first device."""
    return try_text("nvidia-smi", f"--query-gpu={properties}", "--format=csv,noheader").split("\n")[0]


def describe_run(device):
    """Returns the day, commit, command and versions of this run. The command names files without their folders."""
    script = pathlib.Path(sys.argv[0]).resolve()
    command = [str(script.relative_to(ROOT)) if ROOT in script.parents else script.name, *(word.split("/")[-1] for word in sys.argv[1:])]
    commit = os.environ.get("RIDGE_COMMIT") or try_text("git", "-C", ROOT, "rev-parse", "--short", "HEAD")
    about = {"day": datetime.date.today().isoformat(), "device": device, "commit": commit, "command": " ".join(command)}
    if torch := sys.modules.get("torch"):
        about |= {"torch": torch.__version__, "cuda": torch.version.cuda}
    if driver := query_gpu("driver_version"):
        about |= {"driver": driver, "clocks": query_gpu("clocks.sm,clocks.mem,power.limit")}
    return about


def format_result(document):
    """Returns a result as JSON with one line per row."""
    def format_value(value):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n  " + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n ]"
        return json.dumps(value, ensure_ascii=False)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {format_value(value)}" for key, value in document.items()) + "\n}\n"


class Result:
    """A result file. `add` prints a row and writes the rows so far, so that an interrupted run keeps them."""

    def __init__(self, path, device, **about):
        self.path, self.about, self.rows = pathlib.Path(path), describe_run(device) | about, []

    def add(self, row, **about):
        print(json.dumps(row), flush=True)
        self.rows.append(row)
        self.about |= about
        if "clocks" in self.about:
            self.about["clocks"] = query_gpu("clocks.sm,clocks.mem,power.limit")
        self.path.write_text(format_result({**self.about, "rows": self.rows}), encoding="utf-8")
