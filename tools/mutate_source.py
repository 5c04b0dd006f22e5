"""Finds the places in a C++ source where tools/mutate.py can insert faults, and writes the source with all of them.
It uses only tokens and clang-format's spaces (binary operators have them, template arguments do not), no C++ parser;
faults that do not compile are left out."""
import collections
import re

TOKEN = re.compile(r'''
    (?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*?$|\s+)
  | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+')
  | (?P<number>\.?\d(?:'?[\w.])*(?:(?<=[eEpP])[+-]\w+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|<<=|>>=|::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|\.\.\.|.)''', re.X | re.M | re.S)
PAIRS = {"(": ")", "[": "]", "{": "}"}
LEVELS = {"<": ("<", ">", "<"), "<=": ("<", ">", "l"), ">": ("<", ">", ">"), ">=": ("<", ">", "g"),
          "==": ("==", "==", "="), "!=": ("==", "==", "!"), "+": ("+", "+", "+"), "-": ("+", "+", "-"),
          "*": ("*", "*", "*"), "/": ("*", "*", "/"), "%": ("*", "*", "%")}
INSTEAD = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",),
           "+": ("-", "the left term alone"), "-": ("+", "the terms exchanged"), "*": ("/", "the left factor alone"),
           "/": ("*", "the left factor alone"), "%": ("/", "the left factor alone")}
STOPS = {"return", "case", "else", "throw", "co_return", "do"}
NO_CALL = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "alignas", "catch", "static_assert", "noexcept",
           "defined", "operator"}


class Token:
    __slots__ = ("text", "kind", "start", "end", "line")

    def __init__(self, text, kind, start, line):
        self.text, self.kind, self.start, self.end, self.line = text, kind, start, start + len(text), line


class Mutant:
    def __init__(self, line, was, becomes):
        self.line, self.was, self.becomes, self.id, self.verdict = line, was, becomes, 0, "lived"


class Site:
    """One place with one or two mutants. `edit` returns the edits for the first mutant's number: (token, where, text); where
    is -1 before the token, 0 instead of it, 1 after it. An outer pair of before and after has a larger `width`."""
    def __init__(self, mutants, edit, width=0):
        self.mutants, self.edit, self.width = mutants, edit, width


class Source:
    def __init__(self, text):
        self.text, self.tokens, line = text, [], 1
        for m in TOKEN.finditer(text):
            if not m["skip"]:
                kind = "word" if m["word"] else "text" if m["text"] else "number" if m["number"] else "sign"
                self.tokens.append(Token(m[0], kind, m.start(), line))
            line += m[0].count("\n")
        self.pair, self.inside, open_ = {}, [], []
        for i, t in enumerate(self.tokens):
            if t.kind == "sign" and t.text in PAIRS.values() and open_:
                self.pair[i], self.pair[open_[-1]] = open_[-1], i
                open_.pop()
            self.inside.append(open_[-1] if open_ else -1)
            if t.kind == "sign" and t.text in PAIRS:
                open_.append(i)
        self.skipped = self.constant_places()

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def spaced(self, i):  # clang-format puts spaces around binary operators and none inside template arguments
        t = self.tokens[i]
        return self.text[t.start - 1].isspace() and self.text[t.end].isspace()

    def statement_end(self, i):
        """Returns the ; that ends the statement at i, or the end of its bracket."""
        while i < len(self.tokens) and self.at(i) != ";":
            if self.at(i) in (")", "]", "}"):
                return i
            i = self.pair.get(i, i) + 1
        return i

    def constant_places(self):
        """Tokens in constants: template arguments, constexpr variables, enums, static_assert, case labels, = 0."""
        skip, n = set(), len(self.tokens)
        for i, t in enumerate(self.tokens):
            if t.kind == "sign" and t.text == "<" and i and self.tokens[i - 1].kind == "word" and \
                    (self.tokens[i - 1].end == t.start or self.at(i - 1) == "template"):
                depth, j = 0, i
                while j < n and self.at(j) not in (";", "{", "}"):
                    depth += (self.at(j) == "<") - (self.at(j) == ">")
                    if depth == 0:
                        skip.update(range(i, j + 1))
                        break
                    j = self.pair[j] + 1 if self.at(j) in ("(", "[") and j in self.pair else j + 1
            if t.text == "constexpr" and self.at(i - 1) != "if":
                j = i + 1
                while j < n and (self.at(j) not in ("(", "=", "{", ";", ",", ")") or j in skip):
                    j += 1
                if self.at(j) != "(":
                    skip.update(range(i, self.statement_end(j)))
            if t.text in ("static_assert", "using", "enum", "case", "requires", "concept", "namespace", "friend"):
                end = self.statement_end(i)
                if t.text == "case":
                    end = next((j for j in range(i, n) if self.at(j) == ":"), n)
                if t.text in ("requires", "namespace", "friend"):
                    end = next((j for j in range(i, n) if self.at(j) in ("{", ";")), n)
                skip.update(range(i, end))
            if t.text == "if" and self.at(i + 1) == "constexpr":
                skip.update(range(i, self.pair[i + 2] + 1))
            if t.text == "operator":
                skip.update(range(i, i + 3))
            if t.text == "=" and self.at(i + 1) == "0" and self.at(i + 2) == ";" and \
                    self.at(i - 1) in (")", "const", "noexcept"):
                skip.update((i, i + 1))
            if t.text == "[" and i in self.pair and self.pair[i] == i + 2:
                skip.add(i + 1)  # in x[0] another index is not a small fault, or it is an array size
        return skip

    # ---- sites

    def sites(self):
        found = []
        for i, t in enumerate(self.tokens):
            if i in self.skipped:
                continue
            for finder in (self.operator, self.minus, self.number, self.extreme, self.condition, self.operand,
                           self.assigned, self.dropped, self.arguments):
                site = finder(i, t)
                if site:
                    found.append(site)
        return found

    def snippet(self, first, last):
        text = " ".join(self.text[self.tokens[first].start:self.tokens[last].end].split())
        return text if len(text) <= 60 else text[:57] + "…"

    def operator(self, i, t):
        if t.kind != "sign" or t.text not in LEVELS or not self.spaced(i) or i == 0:
            return None
        if self.tokens[i - 1].kind == "sign" and self.at(i - 1) not in (")", "]", "}"):
            return None
        if self.at(i - 1) in STOPS or (t.text == "*" and self.at(i + 1) in (")", ",")):
            return None
        opens, closes, letter = LEVELS[t.text]
        mutants = [Mutant(t.line, self.snippet(max(i - 1, 0), i + 1), f"{t.text} → {new}") for new in INSTEAD[t.text]]
        return Site(mutants, lambda id: [(i, 0, f"{opens} ridge_mutate::Op<'{letter}', {id}>{{}} {closes}")])

    def minus(self, i, t):
        if t.text != "-" or self.spaced(i) or self.tokens[i + 1].kind == "text":
            return None
        before = self.tokens[i - 1]
        if before.text in ("*", "/", "%") or (before.kind != "sign" and before.text not in STOPS) or \
                before.text in (")", "]", "}"):
            return None
        return Site([Mutant(t.line, self.snippet(i, i + 1), "sign dropped")],
                    lambda id: [(i, 0, f"ridge_mutate::Minus<{id}>{{}} * ")])

    def number(self, i, t):
        if t.kind != "number" or not re.fullmatch(r"(0[xX][0-9a-fA-F']+|[0-9']+)([uU]?[lL]{0,2})", t.text):
            return None
        if self.at(i - 1) == "-" and not self.spaced(i - 1):
            return None
        return Site([Mutant(t.line, self.snippet(max(i - 1, 0), i), f"{t.text} → {t.text} + 1")],
                    lambda id: [(i, 0, f"({t.text} + ridge_mutate::one({id}))")])

    def extreme(self, i, t):
        if t.text not in ("min", "max") or self.at(i - 1) != "::" or self.at(i - 2) != "std" or \
                self.at(i + 1) not in ("(", "<"):
            return None
        other = {"min": "max", "max": "min"}[t.text]
        least = "true" if t.text == "min" else "false"
        return Site([Mutant(t.line, f"std::{t.text}", f"std::{t.text} → std::{other}")],
                    lambda id: [(i - 2, 0, ""), (i - 1, 0, ""), (i, 0, f"ridge_mutate::Extreme<{id}, {least}>::of")])

    def condition(self, i, t):
        if t.text != "if" or self.at(i + 1) != "(":
            return None
        close = self.pair[i + 1]
        first = i + 2
        for j in range(i + 2, close):
            if self.at(j) == ";" and self.inside[j] == i + 1:
                first = j + 1
        if any(self.at(j) == "=" and self.inside[j] == i + 1 for j in range(first, close)):
            return None  # a declaration
        leaves = self.at(close + 1) in ("return", "continue", "break", "throw") or \
            (self.at(close + 1) == "{" and self.at(close + 2) in ("return", "continue", "break"))
        was = f"if ({self.snippet(first, close - 1)})"
        mutants = [Mutant(t.line, was, "the condition negated")]
        if leaves:
            mutants.append(Mutant(t.line, was, f"no early {self.at(close + 1) if self.at(close + 1) != '{' else 'exit'}"))

        def edit(id):
            inner = f"ridge_mutate::never<{id + 1}>(" if leaves else "("
            return [(first, -1, f"ridge_mutate::turned<{id}>({inner}static_cast<bool>("), (close - 1, 1, ")))")]
        return Site(mutants, edit, close - first + 1)

    def chain_edge(self, i, step):
        """Returns the last token of the operand of && or || next to i."""
        j = i + step
        while 0 <= j < len(self.tokens):
            text = self.at(j)
            closing = text in PAIRS.values() if step < 0 else text in PAIRS
            if closing and j in self.pair and self.tokens[j].kind == "sign":
                j = self.pair[j]
            elif self.tokens[j].kind == "sign" and (text in ("&&", "||", "?", ":", ",", ";", "=", "+=", "-=") or
                                                    text in PAIRS or text in PAIRS.values()):
                break
            elif text in STOPS:
                break
            j += step
        return j - step

    def operand(self, i, t):
        """Drops each operand of a chain: the one to the right of every operator, and the first one."""
        if t.text not in ("&&", "||") or not self.spaced(i):
            return None
        first, last = i + 1, self.chain_edge(i, 1)
        begin = self.chain_edge(i, -1)
        if last < first or begin >= i:
            return None
        mutants = [Mutant(t.line, self.snippet(first, last), f"dropped behind {t.text}")]
        both = self.at(begin - 1) not in ("&&", "||")
        if both:
            mutants.append(Mutant(t.line, self.snippet(begin, i - 1), f"dropped before {t.text}"))

        def wrap(id, a, b):
            head = f"(ridge_mutate::on({id}) || (" if t.text == "&&" else f"(!ridge_mutate::on({id}) && ("
            return [(a, -1, head), (b, 1, "))")]
        return Site(mutants, lambda id: wrap(id, first, last) + (wrap(id + 1, begin, i - 1) if both else []),
                    last - first + 1)

    def assigned(self, i, t):
        if t.text not in ("+=", "-=") or not self.spaced(i):
            return None
        end = self.statement_end(i + 1)
        if any(self.at(j) == "," and self.inside[j] == self.inside[i] for j in range(i, end)):
            return None
        return Site([Mutant(t.line, self.snippet(i - 1, end - 1), f"{t.text} → {'-=' if t.text == '+=' else '+='}")],
                    lambda id: [(i + 1, -1, f"ridge_mutate::sign<{id}>("), (end - 1, 1, ")")], end - i)

    def statement_start(self, i):
        """Returns the start of the assignment or call that ends before i, if it is a separate statement."""
        j, word = i, False
        while j >= 0:
            t = self.tokens[j]
            if t.kind == "sign" and t.text in (")", "]") and not word:
                j = self.pair.get(j, -1)
            elif t.kind == "word" and not word and t.text not in STOPS and t.text not in NO_CALL:
                word = True
            elif t.kind == "sign" and t.text in (".", "->", "::") and word:
                word = False
            else:
                break
            j -= 1
        first = j + 1
        before = self.at(j)
        head = before == ")" and self.at(self.pair.get(j, 0) - 1) in ("if", "for", "while")
        if not word or not (before in (";", "{", "}", "else") or head) or self.at(self.inside[first]) != "{":
            return None
        return first

    def dropped(self, i, t):
        """Drops x = y; or f(x);."""
        if t.text in ("=", "+=", "-=", "*=", "/=") and t.kind == "sign" and self.spaced(i):
            first, end = self.statement_start(i - 1), self.statement_end(i)
        elif t.text == ";" and self.at(i - 1) == ")":
            first, end = self.statement_start(i - 1), i
        else:
            return None
        if first is None or self.at(end) != ";" or self.at(first).isupper() or first in self.skipped:
            return None
        if self.at(first) == "RIDGE_CHECK":
            return None
        return Site([Mutant(self.tokens[first].line, self.snippet(first, end), "the statement dropped")],
                    lambda id: [(first, -1, f"{{ if (!ridge_mutate::on({id})) "), (end, 1, " }")], 10000 + end - first)

    def arguments(self, i, t):
        """Exchanges the arguments of f(a, b) if both are names."""
        if t.text != "(" or i == 0 or self.tokens[i - 1].kind != "word" or self.at(i - 1) in NO_CALL:
            return None
        if self.at(i - 1) in ("min", "max", "pick") or i not in self.pair:
            return None
        close = self.pair[i]
        inner = self.tokens[i + 1:close]
        commas = [j for j in range(i + 1, close) if self.at(j) == "," and self.inside[j] == i]
        if len(commas) != 1 or any(x.kind in ("number", "text") or (x.kind == "sign" and x.text not in (",", ".", "::"))
                                   for x in inner):
            return None
        words = [[x for x in self.tokens[a:b]] for a, b in ((i + 1, commas[0]), (commas[0] + 1, close))]
        for side in words:
            kinds = [x.kind for x in side]
            if not side or kinds[0] != "word" or any(a == b for a, b in zip(kinds, kinds[1:])):
                return None
        if self.tokens[i - 2].kind == "word" and self.at(i - 2) not in STOPS:
            return None  # a declaration: Foo foo(a, b)
        a, b = (self.text[side[0].start:side[-1].end] for side in words)

        def edit(id):
            gone = [(j, 0, "") for j in range(i + 1, close) if j != commas[0]]
            call = f"ridge_mutate::pick<{id}>({a}, {b}), ridge_mutate::pick<{id}>({b}, {a})"
            return gone + [(commas[0], 0, call)]
        return Site([Mutant(t.line, self.snippet(i - 1, close), "the arguments exchanged")], edit)

    def with_switches(self, sites):
        befores, afters, instead = collections.defaultdict(list), collections.defaultdict(list), {}
        for site in sites:
            for token, where, text in site.edit(site.mutants[0].id):
                if where == 0:
                    instead[token] = text
                else:
                    (befores if where < 0 else afters)[token].append((site.width, text))
        out, end = [], 0
        for i, t in enumerate(self.tokens):
            out.append(self.text[end:t.start])
            out += [text for _, text in sorted(befores[i], key=lambda e: -e[0])]
            out.append(instead.get(i, t.text))
            out += [text for _, text in sorted(afters[i], key=lambda e: e[0])]
            end = t.end
        return "".join(out) + self.text[end:]
