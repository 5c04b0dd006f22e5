#!/usr/bin/env python3
"""tools/check_language.py counts each planted place and nothing in plain text, and fails when a limit is exceeded."""
import importlib.util
import pathlib
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools/check_language.py"
spec = importlib.util.spec_from_file_location("check_language", TOOL)
check_language = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_language)

WORDS = "word,pattern,usual_term,allowed_in,reason\nbell,\\bbells?\\b,flag,,\nwing,\\bwings?\\b,layer,birds,a bird has wings\n"
CODE = """// Of a bell that rings in absent_file.cc.
namespace ridge::other {
int size() {
  return 1;  // what it is
}
int count_stages() {
  return 2;  // Number of stages, 2 to 8.
}
struct Kind {
  int wing = 0;
};
"""
EXPECTED = {"trailing_fragments": 50, "block_fragments": 100, "one_word_functions": 50, "private_words": 2, "stale_files": 1,
            "foreign_namespaces": 1, "repeated_types": 1, "longest_cell": 11, "readme_sentence": 4}


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"tools/private_words.csv": WORDS, "src/ridge/plan/x.cc": CODE,
                           "src/ridge/plan/birds.h": "// A wing is long.\nnamespace ridge {\nstruct Kind {\n};\n}\n",
                           "README.md": "# Title\n\nThis is a sentence.\n\n| a | longer cell |\n"}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        _, figures = check_language.measure(root)
    # The plain comment of birds.h is a block comment, too.
    expected = EXPECTED | {"block_fragments": 50}
    wrong = [f"{name}: expected {expected[name]}, found {figures[name]}" for name in expected if figures[name] != expected[name]]
    limits = dict(figures)
    wrong += check_language.exceeded(figures, limits)
    limits["private_words"] -= 1
    if len(check_language.exceeded(figures, limits)) != 1:
        wrong.append("an exceeded limit is not reported")
    print("\n".join(wrong) or "every planted place is counted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
