#!/usr/bin/env python3
"""Fails on a source file of more than 600 lines; lists those over 400."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT, REPORTED = 600, 400


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.py", "*.cmake"], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout.split()
    if not tracked:
        print("check_sizes: checked no source file", file=sys.stderr)
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
        elif lines > REPORTED:
            print(f"{name}: {lines} lines, over {REPORTED} (allowed)", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
