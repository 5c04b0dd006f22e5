#!/usr/bin/env python3
"""Checks a wheel without its optional dependencies: it explains a program and reports an error with its position."""
import pathlib
import sys

import ridge

report = ridge.explain("bf16[B, D] * bf16[D, F] -> bf16[B, F]", on="h200", B=64, D=4096, F=14336)
assert report.ops[0].flops == 2 * 64 * 4096 * 14336, report
assert report.ops[0].limiter == "memory", report
assert pathlib.Path(ridge.__file__).is_relative_to(sys.prefix), ridge.__file__
try:
    ridge.explain("bf16[B, D] * bf16[D, F] ->", on="h200")
except ridge.Error as error:
    assert "^" in str(error), error
else:
    raise AssertionError("an incomplete program was explained")
print(f"explained by the wheel: {report.ops[0].limiter} bound, {report.ops[0].flops} FLOP")
