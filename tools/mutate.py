#!/usr/bin/env python3
"""Mutation testing: inserts small faults in C++ sources and lists those that no test detects.

    tools/mutate.py [--build DIR] [--max N] [--seed N] [--list] [--alone] [--neighbours ROOM,…] FILE…

The tool copies each FILE of src/ridge with all faults, each enabled by a switch (tools/mutate.h), compiles it once, and
links it to the tests of its module. Every test runs once to record the switches that it reaches. Then each fault runs the
tests that reach it, fast ones first, until one fails. Faults that survive are tried with the tests of modules that may
include the file (docs/architecture.md), if these are built; --neighbours names others, --alone uses none. A fault is
caught if a test fails; crashes and timeouts are counted separately. tools/mutants_that_live.txt lists equivalent mutants
with the reason. The exit code is 1 if a fault lived.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

from mutate_source import Source

class Suite:
    """The tests of one module, linked with the copy of the file."""
    def __init__(self, module, binary, folder):
        self.module, self.binary, self.folder, self.reached, self.seconds = module, binary, folder, {}, {}

    def run(self, tests, mutant, limit, note=None):
        env = dict(os.environ, RIDGE_MUTANT=str(mutant), GTEST_FAIL_FAST="1", GTEST_BRIEF="1")
        if note:
            env["RIDGE_MUTANTS_REACHED"] = str(note)
        try:
            done = subprocess.run([self.binary, "--gtest_filter=" + ":".join(tests)], cwd=self.folder, env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, errors="replace")
        except subprocess.TimeoutExpired:
            return "no end", ""
        if done.returncode == 0:
            return "lived", done.stdout
        said = "[  FAILED  ]" in done.stdout or "a bug in ridge:" in done.stdout  # a failed test or RIDGE_CHECK
        return ("caught" if said else "crashed"), done.stdout

    def record_reached_mutants(self, unfit):
        listed = subprocess.run([self.binary, "--gtest_list_tests"], cwd=self.folder, capture_output=True, text=True)
        tests, group = [], ""
        for line in listed.stdout.splitlines():
            if line.startswith("  "):
                tests.append(group + line.split("#")[0].strip())
            elif line.endswith(".") or ".  #" in line:
                group = line.split("#")[0].strip()
        for test in tests:
            note = pathlib.Path(self.binary).with_suffix(".reached")
            note.unlink(missing_ok=True)
            begin = time.monotonic()
            verdict, said = self.run([test], 0, 600, note)
            self.seconds[test] = time.monotonic() - begin
            if verdict != "lived":
                sys.exit(f"{self.module}: {test} fails without a fault:\n{said}")
            for number, mark in enumerate(note.read_bytes() if note.exists() else b""):
                if mark == ord("u"):
                    unfit.add(number)
                elif mark:
                    self.reached.setdefault(number, []).append(test)

    def classify_mutant(self, mutant):
        tests = sorted(self.reached.get(mutant, []), key=self.seconds.get)
        quick = [t for t in tests if self.seconds[t] < 0.1]
        slow = [[t] for t in tests if self.seconds[t] >= 0.1]
        worst = "lived"
        for some in ([quick] if quick else []) + slow:
            verdict, _ = self.run(some, mutant, 3 + 5 * sum(self.seconds[t] for t in some))
            if verdict in ("caught", "no end"):
                return verdict
            if verdict == "crashed" and len(some) > 1:  # another test may fail properly
                for test in some:
                    if self.run([test], mutant, 3 + 5 * self.seconds[test])[0] == "caught":
                        return "caught"
            worst = verdict if verdict != "lived" else worst
        return worst


class Mutation:
    def __init__(self, options):
        self.options, self.root = options, options.root
        self.build = options.build

    def module_of(self, file):
        parts = file.relative_to(self.root / "src/ridge").parts[:-1]
        for n in range(len(parts), 0, -1):
            name = "_".join(parts[:n])
            if subprocess.run(["ninja", "-C", str(self.build), "-t", "query", name + "_test"], capture_output=True).returncode == 0:
                return name
        sys.exit(f"{file}: no tests of its module in {self.build}")

    def neighbours(self, module):
        if self.options.alone:
            return []
        if self.options.neighbours is not None:
            return [n for n in self.options.neighbours.split(",") if n]
        page = self.root / "docs/architecture.md"
        rows = re.findall(r"^\| `([\w/]+)` \| ([^|]*) \|", page.read_text(), re.M) if page.exists() else []
        names = [r.replace("/", "_") for r, grants in rows if module.replace("_", "/").split("/")[0] in grants.split()]
        return [n for n in names if n != module and (self.build / (n + "_test")).exists()]

    def commands(self, module):
        done = subprocess.run(["ninja", "-C", str(self.build), "-t", "commands", module + "_test"], capture_output=True, text=True)
        return done.stdout.splitlines()

    def compile_copies(self, commands, file, folder):
        """Compiles the file, or the sources of its module that include it. Returns (original object, new object) pairs."""
        users = [file]
        if file.suffix == ".h":
            users = self.find_includers(commands, file)
        pairs, errors = [], ""
        for user in users:
            command = next((c for c in commands if re.search(rf" -c \S*{re.escape(str(user.relative_to(self.root)))}$", c)), None)
            if not command:
                continue
            words = shlex.split(command)
            source, made = words[words.index("-c") + 1], words[words.index("-o") + 1]
            new = folder / (made.replace("/", "+"))
            copy = folder / "src" / file.relative_to(self.root / "src") if user == file else source
            words = [w for w in words if not w.startswith("-W") and w not in ("-MD",)]
            for flag in ("-MT", "-MF"):
                if flag in words:
                    del words[words.index(flag):words.index(flag) + 2]
            words[words.index("-o") + 1], words[words.index("-c") + 1] = str(new), str(copy)
            words[words.index("-o"):words.index("-o")] = ["-w", "-fpermissive", "-Wno-narrowing", "-O1", "-include",
                                                          str(pathlib.Path(__file__).resolve().parent / "mutate.h")]
            at = next((k for k, w in enumerate(words) if w.startswith("-I")), len(words))
            words.insert(at, f"-I{folder / 'src'}")
            done = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
            if done.returncode:
                errors += done.stderr
            pairs.append((made, new))
        if not pairs:
            sys.exit(f"{file}: no source of its module's tests compiles it")
        return pairs, errors

    def find_includers(self, commands, file):
        """Returns the sources and tests of the header's module that include it, directly or indirectly."""
        out = []
        for command in commands:
            words = shlex.split(command)
            source = (self.build / words[words.index("-c") + 1]).resolve() if "-c" in words else None
            if source and source.suffix == ".cc" and source.parent == file.parent:
                deps = subprocess.run(["ninja", "-C", str(self.build), "-t", "deps", words[words.index("-o") + 1]],
                                      capture_output=True, text=True).stdout
                if any((self.build / d.strip()).resolve() == file for d in deps.splitlines()[1:]):
                    out.append(source)
        return out

    def link_tests(self, commands, pairs, binary):
        words = shlex.split(commands[-1].replace(": && ", "").replace(" && :", ""))
        out = words.index("-o")
        words[out + 1] = str(binary)
        made = {old: str(new) for old, new in pairs}
        words = [made.get(w, w) for w in words]
        words[out:out] = [new for new in made.values() if new not in words]
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{binary.name} does not link:\n{done.stderr[-3000:]}")

    def read_equivalent_mutants(self, file):
        """Returns (source line, fault) → reason; the fault * stands for every fault of the line."""
        page, out = self.root / "tools/mutants_that_live.txt", {}
        for line in page.read_text().splitlines() if page.exists() else []:
            fields = [f.strip() for f in line.split(" @ ")]
            if len(fields) == 4 and fields[0] == str(file.relative_to(self.root)):
                out[(fields[1], fields[2])] = fields[3]
        return out

    def number_mutants(self, sites):
        number = 1
        for site in sites:
            for m in site.mutants:
                m.id, number = number, number + 1

    def run(self, file):
        file = file.resolve()
        source = Source(file.read_text())
        sites = source.sites()
        rng = random.Random(self.options.seed)
        if self.options.max and sum(len(s.mutants) for s in sites) > self.options.max:
            rng.shuffle(sites)
            chosen, count = [], 0
            for s in sites:
                if count < self.options.max:
                    chosen.append(s)
                    count += len(s.mutants)
            sites = chosen
        lines = source.text.splitlines()
        shown = file.relative_to(self.root)
        if self.options.list:
            for m in sorted((m for s in sites for m in s.mutants), key=lambda m: m.line):
                print(f"{shown}:{m.line}: {m.was}: {m.becomes}")
            return 0
        module = self.module_of(file)
        self.build_tests(module)
        commands = self.commands(module)
        with tempfile.TemporaryDirectory(prefix="mutate-", dir=self.build) as name:
            folder = pathlib.Path(name)
            sites, pairs, misfits = self.build_all(source, sites, file, commands, folder)
            mutants = [m for s in sites for m in s.mutants]
            unfit, left = set(), mutants
            for which in [module] + self.neighbours(module):
                if not left:
                    break
                if which != module:
                    self.build_tests(which)
                    commands = self.commands(which)
                binary = folder / (which + "_test")
                self.link_tests(commands, pairs, binary)
                suite = Suite(which, str(binary), str(self.build))
                suite.record_reached_mutants(unfit)
                for k, m in enumerate(left):
                    if sys.stderr.isatty():
                        print(f"\r{shown} {which}: {k + 1} of {len(left)} ", end="", file=sys.stderr)
                    m.verdict = suite.classify_mutant(m.id) if m.id not in unfit else "unfit"
                    m.reached = m.id in suite.reached or getattr(m, "reached", False)
                left = [m for m in left if m.verdict in ("lived", "crashed", "no end")]
                if which == module:
                    unfit_here = [m for m in mutants if m.verdict == "unfit"]
            mutants = [m for m in mutants if m not in unfit_here]
        return self.print_report(shown, mutants, misfits + len(unfit_here), lines, self.read_equivalent_mutants(file))

    def build_tests(self, module):
        done = subprocess.run(["ninja", "-j1", "-C", str(self.build), module + "_test"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout[-3000:])

    def build_all(self, source, sites, file, commands, folder):
        copy = folder / "src" / file.relative_to(self.root / "src")
        copy.parent.mkdir(parents=True)
        misfits = 0
        while True:
            self.number_mutants(sites)
            copy.write_text(source.with_switches(sites))
            pairs, errors = self.compile_copies(commands, file, folder)
            if not errors:
                return sites, pairs, misfits
            bad = {int(n) for n in re.findall(rf"{re.escape(file.name)}:(\d+):\d+: (?:error|  required)", errors)}
            bad |= {int(n) for n in re.findall(rf"{re.escape(file.name)}:(\d+):\d+:   required", errors)}
            numbers = {int(n) for n in re.findall(r"ridge_mutate::\w+<(?:'.', )?(\d+)", errors)}
            removed = [s for s in sites if any(m.line in bad or m.id in numbers for m in s.mutants)]
            if not removed:
                sys.exit(f"{file}: the copy with the switches does not compile:\n{errors[:4000]}")
            misfits += sum(len(s.mutants) for s in removed)
            sites = [s for s in sites if s not in removed]

    def print_report(self, shown, mutants, unfit, lines, known):
        count = collections.Counter()
        for m in sorted(mutants, key=lambda m: m.line):
            text = lines[m.line - 1].strip()
            reason = known.get((text, f"{m.was}: {m.becomes}")) or known.get((text, "*"))
            if m.verdict == "lived" and reason:
                m.verdict = "equivalent"
            count[m.verdict] += 1
            if m.verdict in ("lived", "crashed", "no end"):
                word = m.verdict if m.reached else "lived, no test reaches it"
                print(f"{shown}:{m.line}: {word}: {m.was}: {m.becomes}\n    {text}")
        tried = len(mutants) - count["equivalent"]
        share = f", {100 * count['caught'] / tried:.0f} % caught" if tried else ""
        print(f"{shown}: {tried} mutants, {count['caught']} caught, {count['crashed']} crashed, {count['no end']} without end, "
              f"{count['lived']} lived{share}; {count['equivalent']} named equivalent, {unfit} did not fit their types",
              flush=True)
        return count["lived"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--build", type=pathlib.Path, default=None, help="a configured build folder; build/")
    parser.add_argument("--max", type=int, default=0, help="maximum number of faults per file, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    parser.add_argument("--alone", action="store_true", help="use only the tests of the file's module")
    parser.add_argument("--neighbours", default=None, help="further modules whose tests are run")
    options = parser.parse_args()
    options.root = options.root.resolve()
    options.build = (options.build or options.root / "build").resolve()
    if not options.list and not (options.build / "build.ninja").exists():
        parser.error(f"{options.build} is not a ninja build folder: run ./ridge test, or pass --build DIR")
    mutation = Mutation(options)
    return 1 if sum(mutation.run(file) for file in options.files) else 0


if __name__ == "__main__":
    sys.exit(main())
