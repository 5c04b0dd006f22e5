#!/usr/bin/env python3
"""Questions that one command line answers: answers_test.py [--list] RIDGE FOLDER runs every *.answers below the folder.

    case tpus Q5, 17 MB over six hops: 6 and 188 us
    $ ridge explain --on tpu_v5e --send 17e6 --hops 6
    prints first byte after 6.000 us

A case is one bash command (continuation lines are indented) and phrases of its output; several blanks count as one.
`open NAME: why` names a question that no command answers yet. A missing phrase, a failing command and a folder without cases
are failures. --list prints the cases as a table."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def cases_of(path):
    """Returns [name, command, phrases] of each case, and the open questions."""
    cases, still_open = [], []
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("case "):
            cases.append([line[5:], "", []])
        elif line.startswith("$ "):
            cases[-1][1] = line[2:]
        elif line.startswith("  ") and cases and not cases[-1][2]:
            cases[-1][1] += "\n" + line[2:]
        elif line.startswith("prints "):
            cases[-1][2].append(line[7:])
        elif line.startswith("open "):
            still_open.append(line[5:])
        elif line.strip() and not line.startswith("#"):
            sys.exit(f"{path}:{number}: expected case, $, prints, open or #, found '{line}'")
    return cases, still_open


def faults_of(case, binary, scratch):
    name, command, phrases = case
    if not command or not phrases:
        return [f"{name}: expected a command and phrases of its output"]
    env = dict(os.environ, XDG_DATA_HOME=scratch, NO_COLOR="1")
    env.pop("COLUMNS", None)  # It limits the width of tables
    done = subprocess.run(["bash", "-c", f'ridge() {{ "{binary}" "$@"; }}\n{command}'], cwd=scratch, env=env, capture_output=True, text=True)
    printed = re.sub(r"\s+", " ", done.stdout)
    faults = [f"{name}: the output lacks '{p}'" for p in phrases if re.sub(r"\s+", " ", p) not in printed]
    if done.returncode:
        faults.append(f"{name}: exit code {done.returncode}: {done.stderr}")
    return faults + ([done.stdout] if faults else [])


def main():
    words = [w for w in sys.argv[1:] if w != "--list"]
    binary, folder = os.path.abspath(words[0]), pathlib.Path(words[1])
    cases, still_open, faults = [], [], []
    for path in sorted(folder.rglob("*.answers")):
        found = cases_of(path)
        cases += found[0]
        still_open += found[1]
    if "--list" in sys.argv:
        print("\n".join(f"| {name} | `{command.splitlines()[0]}` | {'; '.join(phrases)} |" for name, command, phrases in cases))
        print("\n".join(f"| {line} | - | not answered |" for line in still_open))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            faults += faults_of(case, binary, scratch)
    print("\n".join(faults))
    print(f"{len(cases)} questions, {len(still_open)} more open")
    return 1 if faults or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
