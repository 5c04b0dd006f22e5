#!/usr/bin/env python3
"""Checks the parts of the code style that a tool can check.

C++ and CUDA: no ternary inside a ternary, and no comma operator outside a `for` header. `a = 1, b = 2;` must be two
statements; `int a = 1, b = 2;`, arguments, captures, initializer lists and folds (`(f(x), ...)`) are allowed.
Documents: lines of prose of at most 120 characters, tables of at most 6 columns.

    tools/check_style.py [--all] [FILE…]     without files: all that git tracks, except paths in TO_DO; --all includes those
"""
import pathlib
import re
import subprocess
import sys

UNCHECKED_PATHS: list = ["src/ridge/program/", "src/ridge/cli/", "src/ridge/tile/sm90/",
              "src/ridge/tile/ring.h", "src/ridge/tile/tile_scheduler.h", "src/ridge/tile/epilogue.h"]
# Path prefixes that are not checked yet; this list only shrinks. Its files of the tile language generate the machine code of
# the CUDA kernels: after each rewritten expression tools/check_cubins.py must show the same code.

WIDTH, COLUMNS = 120, 6
TOKEN = re.compile(r'''
    (?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*?$|\\\n|\s+)
  | (?P<text>\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\])*"|(?:u8|[uUL])?'(?:\\.|[^'\\])+')
  | (?P<number>\.?\d(?:'?[\w.])*(?:(?<=[eEpP])[+-]\w+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><<<|::|->\*?|\+\+|--|<=>|<<=|&&|\|\||[-+*/%&|^=!<>]=|<<|\.\.\.|.)''', re.X | re.M | re.S)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}", "<<<": ">>>"}, set(")]}")
CONTROL = {"if", "for", "while", "switch", "catch"}
DECLARATION_WORDS = set("""auto const constexpr consteval constinit static inline extern mutable volatile thread_local typename unsigned signed
    int double float bool char void long short using typedef friend struct class enum union template namespace operator
    __shared__ __device__ __constant__ alignas""".split())
EXPRESSION_WORDS = {"return", "throw", "delete", "co_return", "co_yield", "new", "sizeof", "goto"}


class Token:
    def __init__(self, kind, text, line, start=-1):
        self.kind, self.text, self.line, self.start, self.inside = kind, text, line, start, None


def tokenize(source):
    out, line = [], 1
    for m in TOKEN.finditer(source):
        if m.lastgroup != "skip" and not m["skip"]:
            kind = "word" if m["word"] else "text" if m["text"] else "number" if m["number"] else "sign"
            out.append(Token(kind, m[0], line, m.start()))
        line += m[0].count("\n")
    return out


def nest_brackets(tokens):
    """Groups each bracket and its contents into one token."""
    top = []
    stack = [(None, top)]
    for t in tokens:
        if t.text in OPEN and t.kind == "sign":
            t.inside = []
            stack[-1][1].append(t)
            stack.append((OPEN[t.text], t.inside))
        elif t.text in CLOSE and t.kind == "sign":
            if len(stack) > 1 and stack[-1][0] == t.text:
                stack.pop()
        elif t.text == ">" and stack[-1][0] == ">>>" and [x.text for x in stack[-1][1][-2:]] == [">", ">"]:
            del stack[-1][1][-2:]  # end of a launch, kernel<<<blocks, threads>>>(…)
            stack.pop()
        else:
            stack[-1][1].append(t)
    return top


def collapse_templates(tokens):
    """Replaces template arguments by one token: `a<b, c> d` becomes `a<> d`."""
    out, i = [], 0
    while i < len(tokens):
        t = tokens[i]
        if t.text == "<" and out and (out[-1].kind == "word" or out[-1].text == "]") and out[-1].text not in EXPRESSION_WORDS:
            depth, j, doubtful = 0, i, False
            while j < len(tokens):
                x = tokens[j].text
                if x == "<":
                    depth += 1
                elif x == ">":
                    depth -= 1
                elif x == "=" and out[-1].text == "template":
                    pass  # template <class A, class B = C>
                elif x in (";", "=", "&&", "||", "+=", "==", "<<") and depth == 1:
                    break
                elif x in ("?", ">=", "<=") and depth == 1:
                    doubtful = True  # possible only in f<a ? 1 : 2>(…)
                if depth == 0:
                    break
                j += 1
            if depth == 0 and j < len(tokens) and not (doubtful and (j + 1 == len(tokens) or tokens[j + 1].text != "(")):
                i = j + 1
                out.append(Token("template", "<>", t.line))
                continue
        out.append(t)
        i += 1
    return out


def is_block(before, brace):
    """True if a brace contains statements: a body, not an initializer list."""
    if any(t.text == ";" for t in brace.inside):
        return True
    last = before[-1] if before else None
    if last is None or last.text in (")", "else", "do", "try", "const", "noexcept", "mutable", "override", "final", ";"):
        return True
    return last.text == "(" and not brace.inside or last.text == "(" and brace.inside[-1].text == "{"


def is_operator(before):
    return any(t.text == "operator" for t in before[-3:])


def begins_container(statement):
    plain = [t.text for t in collapse_templates(statement)]
    if "(" in plain and "alignas" not in plain and "requires" not in plain:
        return False
    return any(x in ("namespace", "struct", "class", "union", "enum") for x in plain) and "=" not in plain or \
        plain[:1] == ["extern"] and len(plain) == 2


class StyleChecker:
    def __init__(self):
        self.found = []

    def report_fault(self, line, what):
        self.found.append((line, what))

    # ---- statements
    def check_statements(self, tokens, in_code):
        """Checks the statements of a file, a namespace, a class (not in_code) or a body."""
        statement = []
        for t in tokens:
            if t.text == ";":
                self.end_statement(statement, in_code, semicolon=t)
                statement = []
            elif t.text == "{":
                first = statement[0].text if statement else ""
                if begins_container(statement):
                    self.check_container(t, statement)
                    statement.append(t)
                    if not any(x.text == "enum" for x in statement):
                        statement = []
                elif in_code and (not statement or first in CONTROL | {"else", "do", "try", "case", "default"}
                                  and self.ends_control(statement)):
                    self.end_statement(statement, in_code, True)
                    statement = []
                    self.check_statements(t.inside, True)
                elif not in_code and is_block(statement, t):
                    self.end_statement(statement, False)
                    statement = []
                    self.check_statements(t.inside, True)
                else:
                    statement.append(t)
            else:
                statement.append(t)
        self.end_statement(statement, in_code)

    def check_container(self, brace, statement):
        if any(x.text == "enum" for x in statement):
            self.check_brackets(brace.inside)
        else:
            self.check_statements(brace.inside, False)

    @staticmethod
    def ends_control(statement):
        """True for `if (…)`, `else`, `for (…) if (…)`: heads of a block."""
        last = statement[-1]
        if last.text in ("else", "do", "try", ":"):
            return True
        before = [t.text for t in statement[:-1]]
        return last.text == "(" and before and before[-1] in CONTROL | {"constexpr"}

    def end_statement(self, statement, in_code, is_head=False, semicolon=None):
        whole, statement = statement, self.strip_control(statement)
        if statement and in_code and not is_head and self.check_commas(statement):
            self.several(whole[:len(whole) - len(statement)], statement, semicolon)
        self.check_brackets(statement)
        self.check_ternaries(statement, False)

    def strip_control(self, statement):
        """Returns the statement without `if (…)`, `else`, `case …:`, whose brackets are checked."""
        i = 0
        while i < len(statement):
            x = statement[i].text
            if x in CONTROL:
                j = i + 1
                while j < len(statement) and statement[j].text != "(":
                    j += 1
                if j == len(statement):
                    break
                self.check_control_head(x, statement[j])
                i = j + 1
            elif x in ("else", "do") or x.isupper() and i + 1 < len(statement) and statement[i + 1].text in CONTROL:
                i += 1
            elif x in ("case", "default"):
                j = i
                while j < len(statement) and statement[j].text != ":":
                    j += 1
                i = j + 1
            elif x == "[" and len(statement[i].inside) == 1 and statement[i].inside[0].text == "[":
                i += 1
            else:
                break
        return statement[i:]

    def check_control_head(self, keyword, bracket):
        part = []
        for t in [*bracket.inside, Token("sign", ";", bracket.line)]:
            if t.text != ";":
                part.append(t)
                continue
            if keyword != "for":
                self.check_commas(part)
            self.check_brackets(part)
            self.check_ternaries(part, False)
            part = []

    # ---- commas
    @staticmethod
    def is_declaration(tokens):
        plain = tokens
        while plain and plain[0].text == "[" and plain[0].inside and plain[0].inside[0].text == "[":
            plain = plain[1:]
        if not plain or plain[0].text in DECLARATION_WORDS:
            return True
        if plain[0].text in EXPRESSION_WORDS or plain[0].kind != "word" and plain[0].text != "::":
            return False
        i, word = 0, False  # word: the last token was a word of the type's name
        while i < len(plain):
            t = plain[i]
            if t.text == "::":
                word = False
            elif t.kind == "word" and not word:
                word = True
            elif t.text == "<>" and word:
                pass
            elif word and (t.kind == "word" or t.text == "["):
                return t.kind == "word" and (i + 1 == len(plain) or plain[i + 1].text in ("=", "(", "{", "[", ",", ":"))
            elif t.text in ("*", "&", "&&") and word:
                return i + 1 < len(plain) and (plain[i + 1].kind == "word" or plain[i + 1].text == "*") and \
                    (i + 2 == len(plain) or plain[i + 2].text in ("=", "(", "{", "[", ",", ":") or plain[i + 1].text in ("*", "const"))
            else:
                return False
            i += 1
        return False

    def check_commas(self, tokens):
        plain = collapse_templates(tokens)
        comma = next((t for t in plain if t.text == ","), None)
        if not comma or self.is_declaration(plain):
            return False
        self.report_fault(comma.line, "a comma operator: write two statements")
        return True

    def several(self, control, statement, semicolon):
        """Called for each statement with a comma operator."""

    def check_brackets(self, tokens):
        """Checks brackets: lambdas contain statements; grouping brackets must not contain a comma."""
        for i, t in enumerate(tokens):
            before = tokens[i - 1] if i else None
            if t.inside is None or before is not None and before.text == "__attribute__":
                continue
            if t.text == "{":
                if any(x.text == ";" for x in t.inside):  # a lambda's body
                    self.check_statements(t.inside, True)
                    continue
            elif t.text == "(" and (before is None or before.kind == "sign" and before.text not in ("(", "[", "{", ">", "]", ")", "<<<")
                                    or before.text in ("return", "throw", "else", "case")):
                if any(x.text == "..." for x in (*t.inside, *tokens[i + 1:i + 2])) or is_operator(tokens[:i]):
                    pass  # a fold; `operator+(T a, T b)`
                elif not (i + 1 < len(tokens) and tokens[i + 1].text == "{"):
                    comma = next((x for x in collapse_templates(t.inside) if x.text == ","), None)
                    if comma:
                        self.report_fault(comma.line, "a comma operator in brackets")
            self.check_brackets(t.inside)

    # ---- ternaries
    def check_ternaries(self, tokens, within):
        """True if these tokens contain a `?`. within: they are in an operand of a ternary."""
        here = held = False  # here: this expression has a `?`; held: brackets before it have one
        any_at_all = False
        for i, t in enumerate(tokens):
            if t.text in (",", ";"):
                here = held = False
            elif t.text == "?":
                if here or within or held:
                    self.report_fault(t.line, "a ternary inside a ternary")
                here = any_at_all = True
            elif t.inside is not None:
                if t.text == "{" and any(x.text == ";" for x in t.inside):
                    continue  # a body, whose statements were checked
                inner = self.check_ternaries(t.inside, here or within)
                held = held or inner and not here
                any_at_all = any_at_all or inner
            elif t.text in ("=", "<<", "&&", "||", "return", "+", "+="):
                held = held and t.text not in ("<<", "=", "return", "+=")
        return any_at_all


def find_code_faults(source):
    finder = StyleChecker()
    finder.check_statements(nest_brackets(tokenize(source)), False)
    return sorted(set(finder.found))


def find_prose_faults(text):
    found, fenced, before = [], False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        before, last = line, before
        if fenced:
            continue
        if line.startswith("|") and last.startswith("|"):
            continue
        if line.startswith("|"):
            columns = len(re.findall(r"(?<!\\)\|", line)) - 1
            if columns > COLUMNS:
                found.append((number, f"a table of {columns} columns, at most {COLUMNS}"))
        elif len(line) > WIDTH and " " in line.strip()[:WIDTH]:
            found.append((number, f"{len(line)} characters, at most {WIDTH}"))
    return found


def main():
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = arguments
    if not paths:
        patterns = ["*.h", "*.cc", "*.cu", "README.md", "docs/*.md"]
        listed = subprocess.run(["git", "ls-files", *patterns], cwd=root, capture_output=True, text=True, check=True)
        paths = [p for p in listed.stdout.split("\n") if p and ("--all" in sys.argv or not p.startswith(tuple(UNCHECKED_PATHS)))]
    count = 0
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        for line, what in (find_prose_faults if path.endswith(".md") else find_code_faults)(text):
            print(f"{path}:{line}: {what}")
            count += 1
    if count:
        sys.exit(f"check_style: {count} faults")


if __name__ == "__main__":
    main()
