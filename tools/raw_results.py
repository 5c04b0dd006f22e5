#!/usr/bin/env python3
"""Keeps the files of results/. What a test, a fit or a table reads is text, with one line per row of a result. Raw results and
timings that none of them reads are compressed in results/raw.tar.xz, which results/MANIFEST.csv lists.

    raw_results.py list                      prints the names in the archive
    raw_results.py extract FOLDER [NAME…]    writes files of the archive below a folder
    raw_results.py add FILE…                 moves files of this repository into the archive
    raw_results.py format FILE…              writes results with one line per row
    raw_results.py check                     fails if the archive, its list and the files differ, or a result is not formatted

A name is a path in the repository. The same files give the same archive: names are sorted, without times and owners."""
import csv
import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile

from times.harness import format_result

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARCHIVE, MANIFEST = "results/raw.tar.xz", "results/MANIFEST.csv"
HEAD = ["name", "bytes", "sha256", "date", "device", "commit", "command"]


def read_archive(root=ROOT):
    """Returns the contents of each file by name."""
    if not (root / ARCHIVE).exists():
        return {}
    with tarfile.open(root / ARCHIVE, "r:xz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def write_archive(files, root=ROOT):
    with tarfile.open(root / ARCHIVE, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    (root / MANIFEST).write_text(list_files(files))


def describe_file(name, text):
    """Returns the date, device, commit and command that a result or the head of a file of timings states."""
    if name.endswith(".json"):
        about = json.loads(text)
        return [about.get("day", about.get("date", "")), *(about.get(key, "") for key in HEAD[4:])]
    head = dict(re.findall(r"^# (\w+): (.*)$", text, re.M))
    return [head.get("day", ""), head.get("device", ""), "".join(re.findall(r"\((\w+)\)", head.get("ridge", ""))), ""]


def list_files(files):
    """Returns the manifest of the files."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(HEAD)
    for name, data in sorted(files.items()):
        rows.writerow([name, len(data), hashlib.sha256(data).hexdigest(), *describe_file(name, data.decode())])
    return out.getvalue()


def find_mismatches(root=ROOT):
    files = read_archive(root)
    if not files or (root / MANIFEST).read_text() != list_files(files):
        yield f"{MANIFEST} does not list the files of {ARCHIVE}"
    yield from (f"{name} is also in {ARCHIVE}: add or delete it" for name in files if (root / name).exists())
    for path in sorted((root / "results").glob("*.json")):
        if path.read_text() != format_result(json.loads(path.read_text())):
            yield f"{path.name} has several lines per row; run tools/raw_results.py format results/{path.name}"


def main():
    verb, *words = sys.argv[1:] or [""]
    paths = [pathlib.Path(word).resolve() for word in words]
    if verb == "list":
        print("\n".join(read_archive()))
    elif verb == "extract" and words:
        for name, data in read_archive().items():
            if name in words or len(words) == 1:
                (paths[0] / name).parent.mkdir(parents=True, exist_ok=True)
                (paths[0] / name).write_bytes(data)
    elif verb == "add" and words:
        write_archive(read_archive() | {str(path.relative_to(ROOT)): path.read_bytes() for path in paths})
        for path in paths:
            path.unlink()
    elif verb == "format" and words:
        for path in paths:
            path.write_text(format_result(json.loads(path.read_text())))
    elif verb == "check":
        sys.exit("\n".join(find_mismatches()) or 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
