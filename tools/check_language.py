#!/usr/bin/env python3
"""Measures how plainly the code and its pages are written, and fails where a figure exceeds its committed limit.

    tools/check_language.py [--list FIGURE] [--write]

Figures of the C++ and CUDA files under src/ridge (tests are left out, except for private words):
  trailing_fragments, block_fragments  percent of comments that begin like a noun fragment ("of", "what", "where", ...)
  one_word_functions                   percent of function definitions whose name is one word
  private_words                        uses of the patterns in tools/private_words.csv, less its exceptions
  stale_files                          files that a comment names and that do not exist
  foreign_namespaces                   files whose namespace below `ridge` is not a folder of their path
  repeated_types                       type names that are defined in more than one file
Figures of README.md and docs/*.md:
  longest_cell                         characters of the longest table cell
  readme_sentence                      mean words of a sentence in README.md

The limits are in tools/language_limits.csv; --write lowers them to today's figures and never raises one. --list prints every
place that a figure counts.
"""
import argparse
import collections
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS, WORDS = "tools/language_limits.csv", "tools/private_words.csv"
FRAGMENT = re.compile(r"(of|what|where|whether|how|who|whose|which|that|those|as|so|behind|beside|likewise|none|null|empty|nothing)\b", re.I)
FUNCTION = re.compile(r"^(?:template\s*<[^;{]*>\s*)?(?:[\w:<>,&*\s\[\]]+?[\s&*])(?!if|for|while|switch|return)(~?[a-z]\w*)\s*"
                      r"\([^;{}]*\)\s*(?:const\s*)?(?:noexcept\s*)?(?:->\s*[\w:<>&*\s]+)?\{", re.M)
FILE_NAME = re.compile(r"\b([\w./-]+\.(?:h|cc|cu|py|md|csv|toml|cmake|sh))\b")
PLACEHOLDER = re.compile(r"^[A-Z_]+$")  # machines/NAME.toml, FILE.csv: the reader's own file
TYPE = re.compile(r"^(?:struct|class|enum class)\s+(\w+)\b(?!.*;\s*$)", re.M)
DIRECTIVES = ("clang-format", "NOLINT", "IWYU")


def comments(text):
    """Yields (line, "trailing" or "block", text) of each comment; consecutive lines that hold only a comment are one block."""
    block, begin = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("//"):
            if not block:
                begin = number
            block.append(stripped.lstrip("/ ").strip())
            continue
        if block:
            yield begin, "block", " ".join(block)
            block = []
        at = line.find("//")
        if at > 0 and '"' not in line[at:] and not re.search(r"https?:$", line[:at]):
            yield number, "trailing", line[at + 2:].strip()
    if block:
        yield begin, "block", " ".join(block)


def private_words(path):
    """Returns (word, pattern, pattern of the files where the word has its ordinary sense, or None) of each row."""
    with open(path, newline="") as file:
        return [(row["word"], re.compile(rf"(?<![A-Za-z])(?:{row['pattern']})(?![a-z])"),
                 re.compile(row["allowed_in"]) if row["allowed_in"] else None) for row in csv.DictReader(file)]


def is_test(path):
    return path.stem.endswith(("_test", "_fuzz")) or "testing" in path.parts


class Tree:
    """Places of each figure, as text lines, and the totals that percentages are taken of."""

    def __init__(self, root):
        self.root = root
        self.places, self.totals = collections.defaultdict(list), collections.Counter()
        self.stems = {p.stem for p in root.rglob("*") if p.is_file() and ".git" not in p.parts and "build" not in p.parts}
        self.types = collections.defaultdict(set)

    def read_code(self, path, words):
        text, name = path.read_text(errors="replace"), str(path.relative_to(self.root))
        for word, pattern, allowed in words:
            if not (allowed and allowed.search(name)):
                for m in pattern.finditer(text):
                    self.places["private_words"].append(f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {word}: {m.group()}")
        if is_test(path):
            return
        for number, kind, comment in comments(text):
            if comment and not comment.startswith(DIRECTIVES):
                self.read_comment(f"{name}:{number}", kind, comment)
        for m in FUNCTION.finditer(text):
            self.totals["one_word_functions"] += 1
            if "_" not in m.group(1).strip("_"):
                self.places["one_word_functions"].append(f"{name}:{text.count(chr(10), 0, m.start(1)) + 1}: {m.group(1)}")
        spaces = {s for s in re.findall(r"^namespace ridge(?:::(\w+))?", text, re.M) if s and s not in path.parts}
        if spaces:
            self.places["foreign_namespaces"].append(f"{name}: {', '.join(sorted(spaces))}")
        for m in TYPE.finditer(text):
            self.types[m.group(1)].add(name)

    def read_comment(self, place, kind, comment):
        self.totals[f"{kind}_fragments"] += 1
        if FRAGMENT.match(comment):
            self.places[f"{kind}_fragments"].append(f"{place}: {comment[:110]}")
        for name in FILE_NAME.findall(comment):
            stem = pathlib.PurePath(name).stem
            if not PLACEHOLDER.match(stem) and stem not in self.stems and not any(s.startswith(stem) for s in self.stems):
                self.places["stale_files"].append(f"{place}: {name}")

    def read_page(self, path):
        name, text = str(path.relative_to(self.root)), path.read_text()
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("|"):
                for cell in re.split(r"(?<!\\)\|", line):
                    self.places["longest_cell"].append((len(cell.strip()), f"{name}:{number}: {cell.strip()[:100]}"))
        if name == "README.md":
            self.places["readme_sentence"] = sentences(text)

    def figures(self):
        repeated = {t: files for t, files in self.types.items() if len(files) > 1}
        self.places["repeated_types"] = [f"{t}: {', '.join(sorted(files))}" for t, files in sorted(repeated.items())]
        self.places["longest_cell"].sort(reverse=True)
        out = {name: 100 * len(self.places[name]) / max(1, self.totals[name])
               for name in ("trailing_fragments", "block_fragments", "one_word_functions")}
        out |= {name: len(self.places[name]) for name in ("private_words", "stale_files", "foreign_namespaces", "repeated_types")}
        out["longest_cell"] = self.places["longest_cell"][0][0] if self.places["longest_cell"] else 0
        lengths = [len(s.split()) for s in self.places["readme_sentence"]]
        out["readme_sentence"] = sum(lengths) / max(1, len(lengths))
        return {name: round(value, 1) for name, value in out.items()}


def sentences(page):
    """Returns the sentences of a page's prose, without code blocks, tables, headings and pictures."""
    text = re.sub(r"```.*?```", "\n\n", page, flags=re.S)
    prose = [re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n|\n(?=[-*|#] ?)", text)]
    prose = [p.lstrip("-* ") for p in prose if p and not p.startswith(("|", "#", "!", "<"))]
    return [s for p in prose for s in re.split(r"(?<=[.!?:])\s+(?=[A-Z`\[*(])", p) if len(s.split()) > 2]


def measure(root):
    tree = Tree(root)
    words = private_words(root / WORDS)
    for path in sorted((root / "src" / "ridge").rglob("*")):
        if path.suffix in (".h", ".cc", ".cu", ".cuh"):
            tree.read_code(path, words)
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        tree.read_page(path)
    return tree, tree.figures()


def exceeded(figures, limits):
    return [f"{name}: {value:g}, expected at most {limits[name]:g}; --list {name} shows the places"
            for name, value in figures.items() if value > limits[name]]


def read_limits(root):
    with open(root / LIMITS, newline="") as file:
        return {row["figure"]: float(row["limit"]) for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="FIGURE")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    tree, figures = measure(ROOT)
    if args.list:
        print("\n".join(p if isinstance(p, str) else f"{p[0]} {p[1]}" for p in tree.places[args.list]))
        return 0
    limits = read_limits(ROOT)
    for name, value in figures.items():
        print(f"{name:20} {value:7g}   limit {limits[name]:g}")
    if args.write:
        rows = "".join(f"{name},{min(value, limits[name]):g}\n" for name, value in figures.items())
        (ROOT / LIMITS).write_text("figure,limit\n" + rows)
    failed = exceeded(figures, limits) + ([] if tree.totals["one_word_functions"] else ["no file was read"])
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
