#!/usr/bin/env python3
"""Finds numbers of one device in the code. Multiprocessors, clocks, bandwidths, peaks and caches belong in a machine file
(machines/*.toml), from which the code gets ops::DeviceNumbers; fitted constants belong in data/models. Comments, string
literals and tests may contain such numbers."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Modules that plan, run and time kernels. Simulators of other machines have tables with their numbers.
CHECKED_MODULES = {"api", "bench", "device", "measure", "ops", "run", "tile"}
DEVICE_NUMBERS = [  # pattern, meaning
    (r"\b(?:132|114)\b", "multiprocessors"),
    (r"\b\d[\d.]*e(?:9|1[0-5])\b", "a rate"),
    (r"\b(?:1755|1773|1675|1785|1830|1980)\b", "a clock"),
    (r"\b(?:50|60|48)\s*<<\s*20\b|\b52428800\b|\b62914560\b|\b50e6\b", "bytes of an L2"),
    (r"\b(?:227|228)\s*\*\s*1024\b|\b(?:232448|233472)\b", "bytes of shared memory"),
]
ALLOWED = {  # file: allowed pattern, reason
    "src/ridge/tile/sm90/wgmma.h": (r"132|114", "numbers of an instruction's operands"),
    "src/ridge/tile/sm90/limits.h": (r"227 \* 1024", "of a block on compute capability 9.0, by which kernels are compiled"),
}


def blank_comments_and_strings(text):
    """Returns the text with comments and strings blanked, with the same lines."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def find_device_numbers(name, text):
    allowed = ALLOWED.get(name, (None,))[0]
    for number, line in enumerate(blank_comments_and_strings(text).split("\n"), 1):
        for pattern, what in DEVICE_NUMBERS:
            for found in re.finditer(pattern, line):
                if not (allowed and re.fullmatch(allowed, found.group())):
                    yield f"{name}:{number}: {found.group()} looks like {what}: take it from the machine"


def is_checked(path):
    module = path.relative_to(ROOT / "src").parts[1]
    return (path.suffix in (".h", ".cc", ".cu") and module in CHECKED_MODULES and "testing" not in path.parts
            and not path.stem.endswith(("_test", "_fuzz", "_report")))


def main():
    files = [path for path in sorted((ROOT / "src").rglob("*.*")) if len(path.relative_to(ROOT / "src").parts) > 2 and is_checked(path)]
    found = [fault for path in files for fault in find_device_numbers(str(path.relative_to(ROOT)), path.read_text())]
    if not files:
        found = ["checked no file"]
    print("\n".join(found) if found else f"{len(files)} files contain no number of one device")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
