#!/usr/bin/env python3
"""Compares thresholds with sympy: sympy_test.py [--write] RIDGE. Every program of tests/golden/thresholds.csv is explained on a
machine file with integer rates. The printed expression must equal the solution of T_above = T_below by sympy.solve, and the
integer must be the first that satisfies it. The file stores sympy's solutions; without sympy the expressions are evaluated
exactly (fractions) and compared with these, and the test reports that nothing was solved."""
import csv
import fractions
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import sympy
except ImportError:
    sympy = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/thresholds.csv"
PEAK, BANDWIDTH, LINK = 197 * 10**12, 819 * 10**9, 45 * 10**9
MACHINE = 'name = "whole"\n[matrix]\n' + "".join(
    f'{dtype} = {{ value = {PEAK}, unit = "{unit}", source = "test", read = 2026-11-20 }}\n'
    for dtype, unit in (("bf16", "FLOP/s"), ("int8", "OP/s"), ("int4", "OP/s"))
) + f"""[vector]
f32 = {{ value = {PEAK // 16}, unit = "FLOP/s", source = "test", read = 2026-11-20 }}
[memory.hbm]
bandwidth = {{ value = {BANDWIDTH}, unit = "B/s", source = "test", read = 2026-11-20 }}
[link.ici]
bandwidth = {{ value = {LINK}, unit = "B/s", source = "test", read = 2026-11-20 }}
"""
RATES = {"compute": PEAK, "memory": BANDWIDTH, "network": LINK}


def programs() -> list[tuple[str, str]]:
    """Returns texts and splits: products of the notes, then random contractions with free, batch and contracted dimensions."""
    fixed = [("bf16[B, D] * bf16[D, F] -> bf16[B, F]", ""), ("bf16[B, D] * bf16[D, F] -> bf16[B, F]", "D=2"),
             ("bf16[B, D] * int8[D, F] -> bf16[B, F]", ""), ("int8[B, D] * int8[D, F] -> int8[B, F]", "D=4"),
             ("bf16[B, S, D] * bf16[D, F] -> bf16[B, S, F]", ""), ("bf16[B, D] * int4[D, F] -> bf16[B, F]", ""),
             ("bf16[S, B, D] * bf16[S, D, F] -> bf16[S, B, F]", "")]
    draw = random.Random(6)
    for _ in range(40):
        left, right, result = [], [], []
        for dim in "BDFGH"[: draw.randint(2, 5)]:
            kind = draw.choice(["batch", "left", "right", "summed"])
            if kind != "right":
                left.append(dim)
            if kind != "left":
                right.append(dim)
            if kind != "summed":
                result.append(dim)
        tensor = lambda dims: draw.choice(["bf16", "int8", "int4"]) + "[" + ", ".join(dims or ["1"]) + "]"
        fixed.append((f"{tensor(left)} * {tensor(right)} -> {tensor(result)}", ""))
    return fixed


def explained(ridge: str, machine: str, program: str, split: str, sizes: dict) -> dict:
    command = [ridge, "explain", program, "--on", machine, "--json"] + (["--split", split] if split else [])
    for name, value in sizes.items():
        command += ["-d", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["ops"][0]


def rate(op: dict, roof: str) -> int:
    return round(op["ridge"] * BANDWIDTH) if roof == "compute" else RATES[roof]


def counts(op: dict) -> dict[str, str]:
    return {"compute": op["formulas"]["flops"], "memory": op["formulas"]["bytes"], "network": op.get("bytes_sent_formula", "0")}


def boundary_by_sympy(op: dict, t: dict) -> str:
    """Returns the size of the dimension at which both roofs take the same time; r is the ratio of the rates."""
    symbols = {name: sympy.Symbol(name, positive=True) for name in set(re.findall(r"[A-Z]", "".join(counts(op).values())))}
    r, over, under = sympy.Symbol("r", positive=True), *(sympy.sympify(counts(op)[roof], locals=symbols) for roof in t["roofs"])
    found = sympy.solve(sympy.Eq(over, r * under), symbols[t["dim"]])
    return str(sympy.factor(found[0])) if len(found) == 1 else "none"


def same(a: str, b: str) -> bool:
    names = {name: sympy.Symbol(name, positive=True) for name in set(re.findall(r"\b[A-Za-z]\w*", a + b))}
    return sympy.simplify(sympy.sympify(a, locals=names) - sympy.sympify(b, locals=names)) == 0


def value(text: str, names: dict) -> fractions.Fraction:
    """Evaluates a printed expression exactly: every number becomes a fraction."""
    exact = re.sub(r"(?<![\w.])(\d+)", r"fraction(\1)", text)
    return eval(exact, {"__builtins__": {}, "fraction": fractions.Fraction}, names)  # ridge printed the text: + - * / ( ) and names


def main() -> int:
    ridge, write = sys.argv[-1], "--write" in sys.argv
    wrong = checked = solved = 0
    golden = {} if write else {(row["program"], row["split"], row["dim"], row["roofs"]): row["boundary"] for row in csv.DictReader(GOLDEN.open())}
    rows = []
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as machine:
        machine.write(MACHINE)
        machine.flush()
        draw = random.Random(7)
        for program, split in programs():
            op = explained(ridge, machine.name, program, split, {})
            for t in op["thresholds"]:
                if not t["exact"]:
                    continue
                key = (program, split, t["dim"], "/".join(t["roofs"]))
                boundary = boundary_by_sympy(op, t) if sympy else golden.get(key, "none")
                rows.append([*key, boundary])
                if sympy:
                    solved += 1
                    if boundary == "none" or not same(boundary, t["exact"]) or (not write and golden.get(key) != boundary):
                        wrong += 1
                        print(f"{key}: sympy finds {boundary}, the file has {golden.get(key)}, ridge {t['exact']}")
                names = {name: fractions.Fraction(draw.randrange(1, 10**6)) for name in re.findall(r"[A-Z]", program)}
                names["r"] = fractions.Fraction(rate(op, t["roofs"][0]), RATES[t["roofs"][1]])
                try:
                    if boundary == "none" or value(boundary, names) != value(t["exact"], names):
                        wrong += 1
                        print(f"{key}: {boundary} and {t['exact']} differ at {names}")
                except ZeroDivisionError:
                    continue
                checked += 1
    if write and sympy:
        with GOLDEN.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["program", "split", "dim", "roofs", "boundary"], *rows])
    if not sympy:
        print("SKIPPED: python3-sympy is missing, so nothing was solved; the stored solutions were compared instead")
    print(f"{checked} expressions evaluated exactly, {solved} solved by sympy, {wrong} wrong")
    return wrong > 0 or checked == 0


if __name__ == "__main__":
    sys.exit(main())
