#!/usr/bin/env python3
"""Fails on an #include that the module table of docs/architecture.md does not grant, and on a folder of more than 40 files,
not counting tests. Prints each such line and what the table grants."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILES = 40


def read_grants(page: str) -> dict[str, set[str]]:
    """Returns the modules that each module may include; several rows of one module add up."""
    grants: dict[str, set[str]] = {}
    for module, names in re.findall(r"^\| `([\w/]+)` \| ([^|]+) \|", page, re.M):
        grants.setdefault(module, set()).update(set(names.split()) - {"–"})
    return grants


def module_of(path: str, modules) -> str | None:
    """Returns the innermost module that contains a path under src/ridge."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in modules:
            return "/".join(parts[:length])
    return None


def is_allowed(target: str, module: str, grants: dict[str, set[str]]) -> bool:
    if target in grants[module]:
        return True
    owner = module_of(target, grants)
    if owner is None:  # a header at the top of src/ridge or of ops/
        return any(target.startswith(grant + "/") for grant in grants[module])
    if owner == module or owner in grants[module]:
        return True
    # A grant covers submodules, except submodules with a row of their own below a module with a row.
    return any(owner.startswith(grant + "/") and grant not in grants for grant in grants[module])


def main() -> int:
    grants = read_grants((ROOT / "docs/architecture.md").read_text())
    if not grants:
        print("check_arrows: docs/architecture.md has no module table", file=sys.stderr)
        return 1
    wrong = files = 0
    folders: collections.Counter = collections.Counter()
    for path in sorted((ROOT / "src/ridge").rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu", ".cuh"} or path.stem.endswith(("_test", "_fuzz")) or path.parent.name == "testing":
            continue
        name = path.relative_to(ROOT / "src/ridge").as_posix()
        folders[str(path.parent.relative_to(ROOT))] += 1
        if "/" not in name or name.count("/") == 1 and name.startswith("ops/"):  # belongs to no module
            continue
        module, files = module_of(name, grants), files + 1
        if module is None:
            print(f"src/ridge/{name}: its module is not in the table of docs/architecture.md")
            wrong += 1
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"ridge/([^"]+)"', line)
            if not found or is_allowed(found.group(1), module, grants):
                continue
            print(f"src/ridge/{name}:{number}: '{module}' may not include ridge/{found.group(1)}; "
                  f"the table grants it {' '.join(sorted(grants[module])) or 'nothing'}")
            wrong += 1
    for folder, count in folders.items():
        if count > MAX_FILES:
            print(f"{folder}: {count} files, expected at most {MAX_FILES}: split it by subject")
            wrong += 1
    if files == 0:
        print("check_arrows: checked no source file", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
