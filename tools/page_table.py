"""A table in a page that a tool makes: between `<!-- table: tools/NAME.py -->` and `<!-- end of table -->`."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end of table -->\n"


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
