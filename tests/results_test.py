#!/usr/bin/env python3
"""tools/raw_results.py restores what it archives and finds planted mismatches; tools/result_tables.py writes a declared table and
finds a page that differs."""
import json
import pathlib
import sys
import tempfile
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import raw_results  # noqa: E402
import result_tables  # noqa: E402

RESULT = {"day": "2026-11-28", "device": "H100", "commit": "abc", "command": "run", "rows": [
    {"n": 2, "us": {"ridge": 1.26}, "peer_us": 3}, {"n": 4, "us": {"ridge": 2.0}}]}
TIMINGS = "# device: H200\n# day: 2026-11-27\n# ridge: 0.1.0 (def)\nm,n\n1,2\n"
TABLE = result_tables.Table("page.md", "x_*.json", """
n = {n} | twice = {2 * n}
ours = {us['ridge']:.1f} | peer / ours = ?{peer_us / us['ridge']:.2f} |
    device = {device}
peer = ?{peer_us}""", lambda result: [row | {"device": result["device"]} for row in result["rows"]], "{device}, {date}:")
MARKDOWN = """H100, 2026-11-28:

| n | twice | ours | peer / ours | device |
|---|---|--:|--:|--:|
| 2 | 4 | 1.3 | 2.38 | H100 |
| 4 | 8 | 2.0 | – | H100 |

| n | twice | peer |
|---|---|--:|
| 2 | 4 | 3 |
"""


def check_archive(root):
    """Yields checks and what they check."""
    def archive(files):
        raw_results.write_archive(files, root)
        return (root / raw_results.ARCHIVE).read_bytes()

    files = {"results/y.json": json.dumps(RESULT).encode(), "data/timings/x.csv": TIMINGS.encode()}
    first = archive(files)
    yield raw_results.read_archive(root) == files, "the archive restores its files"
    yield archive(dict(reversed(files.items()))) == first, "the order of the files does not change the archive"
    manifest = root / raw_results.MANIFEST
    text = manifest.read_text()
    yield text.splitlines()[1].endswith("2026-11-27,H200,def,") and text.endswith("2026-11-28,H100,abc,run\n"), "the manifest describes both"
    yield not list(raw_results.find_mismatches(root)), "a new archive has no mismatch"
    manifest.write_text(text.replace("abc", "abd"))
    yield list(raw_results.find_mismatches(root)), "a changed manifest is found"
    archive(files | {"results/y.json": json.dumps(RESULT | {"commit": "abe"}).encode()})
    manifest.write_text(text)
    yield list(raw_results.find_mismatches(root)), "a changed archive is found"
    archive(files)
    (root / "results/y.json").write_text(raw_results.format_result(RESULT))
    yield list(raw_results.find_mismatches(root)), "a file that is also archived is found"
    (root / "results/y.json").rename(root / "results/x_1.json")
    yield not list(raw_results.find_mismatches(root)), "a formatted result is no mismatch"
    (root / "results/z.json").write_text(json.dumps(RESULT, indent=1))
    yield list(raw_results.find_mismatches(root)), "a result that is not formatted is found"


def check_tables(root):
    page = root / "docs/page.md"
    with mock.patch.object(result_tables, "ROOT", root), mock.patch.object(result_tables, "TABLES", {"x": TABLE, "tensor_parallel": TABLE}), \
            mock.patch.object(result_tables, "draw_picture", lambda results: "picture"), mock.patch("sys.stdout"):
        def run(*options):
            with mock.patch.object(sys, "argv", ["result_tables.py", *options]):
                return result_tables.main()

        yield TABLE.render("") == MARKDOWN, f"a table is {MARKDOWN}, found {TABLE.render('')}"
        page.write_text("".join(f"<!-- table: {name} -->\n<!-- end of table -->\n\n" for name in ("x", "tensor_parallel")))
        yield run("--check") == 1, "an empty table is found"
        yield run("--update") == 0 and page.read_text().count(MARKDOWN) == 2, "tables are written"
        yield run("--check") == 0, "a written page does not differ"
        (root / "docs/images/tensor_parallel.svg").write_text("another picture")
        yield run("--check") == 1, "another picture is found"


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("results", "docs/images"):
            (root / name).mkdir(parents=True)
        (root / "docs/images/tensor_parallel.svg").touch()
        checks = [*check_archive(root)]
        (root / "results/z.json").unlink()
        checks += check_tables(root)
    wrong = [what for right, what in checks if not right]
    print("\n".join(wrong) or f"{len(checks)} checks passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
