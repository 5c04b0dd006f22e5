#!/usr/bin/env python3
"""Executes the commands in README.md and docs/*.md. In a ```console block, lines after "$ " are commands and the lines below
them are their full standard output, compared exactly ("..." matches any lines). A ```sh block is only executed. A block after
a line with <!-- not executed: reason --> is skipped. "./ridge" is the built binary given as the first argument. Commands run
in a copy of the examples and documents; a picture that they write there must equal the committed one.
--update writes the real output into the console blocks, and the pictures into docs/."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?P<skip><!-- not executed: [^\n]*-->\n)?```(?P<kind>console|sh)\n(?P<body>.*?)```", re.S)


def run(command: str, binary: str, scratch: str) -> subprocess.CompletedProcess:
    env = dict(os.environ, XDG_DATA_HOME=scratch, NO_COLOR="1")
    env.pop("COLUMNS", None)  # It limits the width of tables
    return subprocess.run(["bash", "-c", command.replace("./ridge", binary)], cwd=scratch, env=env, capture_output=True, text=True)


def changed(scratch: str) -> list[pathlib.Path]:
    """Returns the files under docs/ that the commands changed, relative to the root."""
    copy = pathlib.Path(scratch)
    files = (p.relative_to(copy) for p in sorted((copy / "docs").rglob("*")) if p.is_file())
    return [p for p in files if not (ROOT / p).exists() or (ROOT / p).read_bytes() != (copy / p).read_bytes()]


def matches(expected: str, found: str) -> bool:
    pattern = "".join(".*" if line == "..." else re.escape(line + "\n") for line in expected.splitlines())
    return re.fullmatch(pattern, found, re.S) is not None


def main() -> int:
    binary, update = os.path.abspath(sys.argv[1]), "--update" in sys.argv
    ran = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for folder in ("examples", "docs", "data", "machines", "models"):
            shutil.copytree(ROOT / folder, pathlib.Path(scratch) / folder)
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            text = path.read_text()

            def one(block: re.Match) -> str:
                nonlocal ran, failed
                if block["skip"]:
                    return block[0]
                if block["kind"] == "sh":
                    ran += 1
                    done = run("set -e\n" + block["body"], binary, scratch)
                    if done.returncode:
                        failed += 1
                        print(f"{path.name}: exit code {done.returncode} of\n{block['body']}{done.stderr}")
                    return block[0]
                body = ""
                for part in re.split(r"^(?=\$ )", block["body"], flags=re.M):
                    if not part.startswith("$ "):
                        continue
                    command, _, expected = part[2:].partition("\n")
                    ran += 1
                    done = run(command, binary, scratch)
                    if done.returncode or not matches(expected, done.stdout):
                        failed += not update
                        if not update:
                            print(f"{path.name}: $ {command}\nexpected:\n{expected}\nfound (exit code {done.returncode}):\n{done.stdout}{done.stderr}")
                    body += f"$ {command}\n" + (expected if matches(expected, done.stdout) else done.stdout)
                return f"```console\n{body}```"

            new = BLOCK.sub(one, text)
            if update and new != text:
                path.write_text(new)
        for path in [] if update else changed(scratch):
            failed += 1
            print(f"{path}: differs from the output of the commands; run tools/check_readme.py BINARY --update")
        for path in (p for p in changed(scratch) if update and p.suffix == ".svg"):
            shutil.copy(pathlib.Path(scratch) / path, ROOT / path)
    print(f"check_readme: {ran} commands, {failed} failed")
    return 1 if failed or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
