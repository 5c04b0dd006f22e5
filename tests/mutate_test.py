#!/usr/bin/env python3
"""Runs tools/mutate.py on a module of one file with one test. A detectable fault is caught, an undetectable one is reported
with its line, and a listed equivalent mutant is not reported.

    mutate_test.py CXX [FLAG…]
"""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools/mutate.py"
HEADER = "#pragma once\nint larger(int a, int b);\nint untested(int a, int b);\nint same(int a);\n"
SOURCE = '''#include "ridge/room/larger.h"

int larger(int a, int b) {
  if (a < b) return b;
  return a;
}
int untested(int a, int b) { return a - b; }
constexpr int scale(int a) { return a * 2; }
static_assert(scale(2) == 4);
int same(int a) { return a + 0; }
'''
TEST = '''#include "ridge/room/larger.h"
#include <gtest/gtest.h>
TEST(Larger, IsTheLargerOne) {
  EXPECT_EQ(larger(1, 2), 2);
  EXPECT_EQ(larger(3, 2), 3);
  EXPECT_EQ(same(7), 7);
}
'''
EQUIVALENT = ("src/ridge/room/larger.cc @ if (a < b) return b; @ a < b: < → <= @ two equal numbers give the same result\n"
              "src/ridge/room/larger.cc @ int same(int a) { return a + 0; } @ a + 0: + → - @ 0 has no sign\n"
              "src/ridge/room/larger.cc @ int same(int a) { return a + 0; } @ a + 0: + → the left term alone @ it is 0\n")
NINJA = '''rule cxx
  command = {cxx} -I{root}/src -o $out -c $in
rule link
  command = : && {cxx} $in -o $out -lgtest -lgtest_main -lpthread && :
build larger.o: cxx {root}/src/ridge/room/larger.cc
build larger_test.o: cxx {root}/src/ridge/room/larger_test.cc
build room_test: link larger.o larger_test.o
'''


def main():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        room, build = root / "src/ridge/room", root / "build"
        for folder in (room, build, root / "tools"):
            folder.mkdir(parents=True)
        (room / "larger.h").write_text(HEADER)
        (room / "larger.cc").write_text(SOURCE)
        (room / "larger_test.cc").write_text(TEST)
        (root / "tools/mutants_that_live.txt").write_text(EQUIVALENT)
        (build / "build.ninja").write_text(NINJA.format(cxx=" ".join(sys.argv[1:] + ["-std=c++20", "-O0"]), root=root))
        found = subprocess.run([sys.executable, TOOL, "--root", root, room / "larger.cc"], capture_output=True, text=True)
        print(found.stdout + found.stderr)
        lived = [line for line in found.stdout.splitlines() if line.startswith("src/") and "lived" in line.split(": ")[1]]
        expected = ["src/ridge/room/larger.cc:7: lived, no test reaches it: a - b: - → +",
                  "src/ridge/room/larger.cc:7: lived, no test reaches it: a - b: - → the terms exchanged"]
        end = found.stdout.splitlines()[-1]
        if [line for line in lived if ":7:" in line] != expected:
            return f"expected the faults of line 7 to live, found {lived}"
        if any(":4:" in line or ":10:" in line for line in lived):
            return f"expected every fault of lines 4 and 10 to be caught or known, found {lived}"
        if " 3 named equivalent" not in end or found.returncode != 1:
            return f"expected three equivalent ones and exit code 1, found {found.returncode} and {end}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
