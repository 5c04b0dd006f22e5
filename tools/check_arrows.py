#!/usr/bin/env python3
"""Fails on an #include that the room table of docs/architecture.md does not grant. Prints every such line and the cure."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def granted(table: str) -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M)
    return {room: set(grants.split()) - {"–"} for room, grants in rows}


def main() -> int:
    grants = granted((ROOT / "docs/architecture.md").read_text())
    if not grants:
        print("check_arrows: docs/architecture.md holds no room table", file=sys.stderr)
        return 1
    wrong = files = 0
    for path in sorted((ROOT / "src/ridge").rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"} or path.stem.endswith(("_test", "_fuzz")):
            continue
        parts = path.relative_to(ROOT / "src/ridge").parts
        if len(parts) == 1:  # the facade
            continue
        room, files = parts[0], files + 1
        if room not in grants:
            print(f"{path.relative_to(ROOT)}: room '{room}' is not in the table of docs/architecture.md")
            wrong += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"ridge/([^"]+)"', line)
            if not found:
                continue
            target = found.group(1)
            if target.split("/")[0] in grants[room] | {room} or target in grants[room]:
                continue
            print(f"{path.relative_to(ROOT)}:{number}: '{room}' may not include ridge/{target}; "
                  f"the table grants it {' '.join(sorted(grants[room])) or 'nothing'}")
            wrong += 1
    if files == 0:
        print("check_arrows: no source was checked", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
