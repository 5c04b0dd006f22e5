"""Generated tables in pages, between `<!-- table: tools/NAME.py -->` and `<!-- end of table -->`."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end of table -->\n"


def tables(head: list, rows: list, keys: int, groups: list) -> str:
    """Returns one Markdown table per group of columns. Each begins with the first `keys` columns; six columns fit a screen."""
    out = []
    for group in groups:
        picked = [*range(keys), *group]
        lines = ["| " + " | ".join(str(head[i]) for i in picked) + " |\n", "|" + "---|" * keys + "--:|" * len(group) + "\n"]
        lines += ["| " + " | ".join(str(row[i]) for i in picked) + " |\n" for row in rows if any(row[i] != "–" for i in group)]
        out.append("".join(lines))
    return "\n".join(out)


def serve(tool: str, page: str, table: str) -> int:
    """Without an argument prints the table; `--update` writes it into the page; `--check` fails if the page differs."""
    if len(sys.argv) == 1:
        print(table, end="")
        return 0
    begin, path = f"<!-- table: tools/{tool}.py -->\n", ROOT / page
    before, mark, rest = path.read_text().partition(begin)
    if not mark:
        sys.exit(f"{page}: expected a line {begin.strip()}")
    expected = before + begin + table + END + rest.partition(END)[2]
    if "--update" in sys.argv:
        path.write_text(expected)
    elif expected != path.read_text():
        print(f"{page}: the table is out of date; run tools/{tool}.py --update")
        return 1
    return 0
