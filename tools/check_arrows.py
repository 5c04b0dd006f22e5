#!/usr/bin/env python3
"""Fails on an #include that the room table of docs/architecture.md does not grant, and on a folder of more than 40 files,
tests not counted. Prints every such line and the cure."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_FILES = 40


def granted(table: str) -> dict[str, set[str]]:
    rows = re.findall(r"^\| `([\w/]+)` \| ([^|]+) \|", table, re.M)
    return {room: set(grants.split()) - {"–"} for room, grants in rows}


def room_of(path: str, rooms) -> str | None:
    """The innermost room that a path under src/ridge lies in."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in rooms:
            return "/".join(parts[:length])
    return None


def allowed(target: str, room: str, grants: dict[str, set[str]]) -> bool:
    if target in grants[room]:
        return True
    home = room_of(target, grants)
    if home is None:  # the facade, or a room that only its parts' names are known of
        return any(target.startswith(grant + "/") for grant in grants[room])
    if home == room or home in grants[room]:
        return True
    # A grant of a room grants the rooms in it, but for those that have a row because they are no part of it.
    return any(home.startswith(grant + "/") and grant not in grants for grant in grants[room])


def main() -> int:
    grants = granted((ROOT / "docs/architecture.md").read_text())
    if not grants:
        print("check_arrows: docs/architecture.md holds no room table", file=sys.stderr)
        return 1
    wrong = files = 0
    folders: collections.Counter = collections.Counter()
    for path in sorted((ROOT / "src/ridge").rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"} or path.stem.endswith(("_test", "_fuzz")) or path.parent.name == "testing":
            continue
        name = path.relative_to(ROOT / "src/ridge").as_posix()
        folders[str(path.parent.relative_to(ROOT))] += 1
        if "/" not in name or name.count("/") == 1 and name.startswith("ops/"):  # the facade
            continue
        room, files = room_of(name, grants), files + 1
        if room is None:
            print(f"src/ridge/{name}: its room is not in the table of docs/architecture.md")
            wrong += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"ridge/([^"]+)"', line)
            if not found or allowed(found.group(1), room, grants):
                continue
            print(f"src/ridge/{name}:{number}: '{room}' may not include ridge/{found.group(1)}; "
                  f"the table grants it {' '.join(sorted(grants[room])) or 'nothing'}")
            wrong += 1
    for folder, count in folders.items():
        if count > MOST_FILES:
            print(f"{folder}: {count} files, expected at most {MOST_FILES}: cut it by subject")
            wrong += 1
    if files == 0:
        print("check_arrows: no source was checked", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
