#!/usr/bin/env python3
"""check.py COMPILER SOURCE FLAGS…: checks that SOURCE compiles, and that with -DBAD it fails with the sentence that
follows "says: " in its first line. So errors of the tile language keep their text, and only the bad line is rejected."""
import pathlib
import subprocess
import sys


def compiled(command: list[str]) -> tuple[bool, str]:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def main(compiler: str, source: str, *flags: str) -> int:
    first = pathlib.Path(source).read_text().splitlines()[0]
    _, _, sentence = first.partition("says: ")
    if not sentence:
        print(f"{source}: the first line must hold '// says: <sentence>'")
        return 1
    command = [compiler, *flags, "-w", "-O0", "-S", "-o", "/dev/null", source]
    good, errors = compiled(command)
    if not good:
        print(f"{source}: does not compile without its bad line:\n{errors}")
        return 1
    good, errors = compiled([*command, "-DBAD"])
    if good:
        print(f"{source}: compiles with its bad line")
        return 1
    if sentence not in errors:
        print(f"{source}: expected '{sentence}', found:\n{errors[:4000]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
