#!/usr/bin/env python3
"""Fails on a source file of more than 600 lines; names those over 400, each of which owes a reason."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT, OWES = 600, 400


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.py", "*.cmake"], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout.split()
    if not tracked:
        print("check_sizes: no source was checked", file=sys.stderr)
        return 1
    failed = 0
    for name in tracked:
        path = ROOT / name
        if not path.exists():
            continue
        lines = path.read_text().count("\n")
        if lines > LIMIT:
            print(f"{name}: {lines} lines, expected at most {LIMIT}: split it")
            failed = 1
        elif lines > OWES:
            print(f"{name}: {lines} lines, over {OWES} (allowed)", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
