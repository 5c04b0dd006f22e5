#!/usr/bin/env python3
"""tools/check_style.py finds each inserted fault, and nothing in similar code."""
import importlib.util
import pathlib
import sys

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools/check_style.py"
spec = importlib.util.spec_from_file_location("check_style", TOOL)
check_style = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_style)

COMMA, BRACKETS, TERNARY = "a comma operator: write two statements", "a comma operator in brackets", "a ternary inside a ternary"
FAULTS = [  # body, expected finding
    ("a = 1, b = 2;", COMMA),
    ("f(a), g(b);", COMMA),
    ("if (x) a = 1, b = 2;", COMMA),
    ("for (int i = 0; i < 3; ++i) a += i, b -= i;", COMMA),
    ("return ++a, b;", COMMA),
    ("case 1: a = 1, b = 2; break;", COMMA),
    ("ROLLED for (;;) a = 1, b = 2;", COMMA),
    ("std::for_each(x, y, [&](int i) { a = i, b = i; });", COMMA),
    ("if (a = f(), a > 0) g();", COMMA),
    ("while (a = f(), a > 0) g();", COMMA),
    ("x = (f(), 2);", BRACKETS),
    ("x = a ? b : c ? d : e;", TERNARY),
    ("x = a ? (b ? c : d) : e;", TERNARY),
    ("x = a ? f(b ? c : d) : e;", TERNARY),
    ("x = (a ? b : c) ? d : e;", TERNARY),
    ("return a ? b : c ? d : e;", TERNARY),
]
CLEAN = [
    "int a = 1, b = 2;",
    "const std::vector<int> a = f(), b = g();",
    "std::pair<int, int> a(1, 2), b;",
    "Point a{1, 2}, *b = &c;",
    "auto [a, b] = f(1, 2);",
    "for (int i = 0, j = 1; i < 2; ++i, --j) f(i, j);",
    "x = {1, 2, 3};",
    "f([a, &b](int c, int d) { return c + d; }, {1, 2});",
    "(f(args), ...);",
    "kernel<<<blocks, threads, 0, stream>>>(a, b);",
    "g<int, 3>(a);",
    "g<0, S::size, S::size >= room ? 1 : room / S::size>(a, b);",
    "int m[] = {a ? b : c, d ? e : f};",
    "f(a ? b : c, d ? e : f);",
    "x = a ? b : c; y = d ? e : f;",
    "EXPECT_EQ(a ? b : c, d) << (e ? f : g);",
    "x = a ? [&] { if (b) return c ? 1 : 2; return 3; }() : 4;",
    'f("a = 1, b = 2; c ? d : e ? g : h");  // a = 1, b = 2;',
    "if (const auto a = f(1, 2), b = g(); a < b) h();",
    "if (a ? b : c) x = d ? e : f;",
    "asm volatile(\"x\" : \"=f\"(e), \"=f\"(r) : \"f\"(g), \"f\"(h));",
]
PROSE = [("a word " * 20 + "\n", 1), ("| a | b | c | d | e | f | g |\n", 1), ("| a | b | c | d | e | f |\n", 0),
         ("```\n" + "a word " * 20 + "\n```\n", 0), ("https://" + "x" * 200 + "\n", 0), ("short\n", 0)]


def main():
    wrong = []
    for body, what in FAULTS:
        found = check_style.find_code_faults("namespace n {\nvoid f() {\n" + body + "\n}\n}\n")
        if found != [(3, what)]:
            wrong.append(f"{body}\n  expected {[(3, what)]}, found {found}")
    for body in CLEAN:
        found = check_style.find_code_faults("namespace n {\nstruct S : A, B {\n  S() : A(1), B(2) {\n" + body + "\n}\n  int a, b;\n};\n}\n")
        if found:
            wrong.append(f"{body}\n  expected nothing, found {found}")
    record = "template <class A, class B = C> class S {\n  S(int x) : a(x), b(x) {}\n  int a, b;\n};\n"
    if found := check_style.find_code_faults(record):
        wrong.append(f"{record}\n  expected nothing, found {found}")
    for text, count in PROSE:
        if len(found := check_style.find_prose_faults(text)) != count:
            wrong.append(f"{text}\n  expected {count}, found {found}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
