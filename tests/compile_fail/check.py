#!/usr/bin/env python3
"""check.py COMPILER SOURCE FLAGS…: SOURCE compiles; with -DBAD it does not, and the compiler says the sentence that stands
behind "says: " in its first line. So a limit of the language keeps its words, and only the bad line is what is refused."""
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
