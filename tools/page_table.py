"""A table in a page that a tool makes: between `<!-- table: tools/NAME.py -->` and `<!-- end of table -->`."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end of table -->\n"


def tables(head: list, rows: list, keys: int, groups: list) -> str:
    """Markdown, a table for each group of columns, each with the first `keys` columns before them: six columns fit a screen."""
    out = []
    for group in groups:
        picked = [*range(keys), *group]
        lines = ["| " + " | ".join(str(head[i]) for i in picked) + " |\n", "|" + "---|" * keys + "--:|" * len(group) + "\n"]
        lines += ["| " + " | ".join(str(row[i]) for i in picked) + " |\n" for row in rows if any(row[i] != "–" for i in group)]
        out.append("".join(lines))
    return "\n".join(out)


def serve(tool: str, page: str, table: str) -> int:
    """Without an argument prints the table; `--update` writes it into the page, `--check` fails where the page holds another."""
    if len(sys.argv) == 1:
        print(table, end="")
        return 0
    begin, path = f"<!-- table: tools/{tool}.py -->\n", ROOT / page
    before, mark, rest = path.read_text().partition(begin)
    if not mark:
        sys.exit(f"{page}: expected a line {begin.strip()}")
    wanted = before + begin + table + END + rest.partition(END)[2]
    if "--update" in sys.argv:
        path.write_text(wanted)
    elif wanted != path.read_text():
        print(f"{page} holds another table; tools/{tool}.py --update writes it")
        return 1
    return 0
