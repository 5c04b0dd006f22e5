#!/usr/bin/env python3
"""Fails if the walk of docs/architecture.md names a function that its file lacks, or has no step or more than twelve.
walk_test.py ROOT; `walk_test.py ROOT --planted` inserts a wrong step and expects to find it."""
import pathlib
import re
import sys

STEP = re.compile(r"^\| (\d+) \| `([^`]+)` \| `(\w+)` \|", re.M)


def wrong_steps(page: str, source: pathlib.Path) -> list[str]:
    steps = STEP.findall(page)
    wrong = [] if 1 <= len(steps) <= 12 else [f"expected 1 to 12 steps, found {len(steps)}"]
    for expected, (number, file, name) in enumerate(steps, 1):
        if int(number) != expected:
            wrong.append(f"expected step {expected}, found step {number}")
        path = source / file
        if not path.is_file():
            wrong.append(f"step {number}: src/ridge/{file} does not exist")
        elif not re.search(rf"\b{name}\(", path.read_text()):
            wrong.append(f"step {number}: src/ridge/{file} has no function {name}")
    return wrong


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/architecture.md").read_text()
    if "--planted" in sys.argv:
        found = wrong_steps(page.replace("`lower_products`", "`lower_producks`"), root / "src/ridge")
        return 0 if found == ["step 7: src/ridge/plan/lower_contraction.cc has no function lower_producks"] else 1
    wrong = wrong_steps(page, root / "src/ridge")
    print("\n".join(wrong) or "every function of the walk is in its file")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
