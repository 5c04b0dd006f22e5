"""Questions: what objects say is what the command line says."""
import base64
import json
import subprocess
import sys
import threading
import unittest
import xml.dom.minidom

from common import binary
import ridge

LAYER = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
SIZES = {"B": 64, "D": 4096, "F": 14336}


def command_line(*words):
    return subprocess.run([binary(), *words], capture_output=True, text=True, check=True).stdout


class Explain(unittest.TestCase):
    def setUp(self):
        self.report = ridge.explain(LAYER, on="h200", **SIZES)

    def test_objects_have_the_numbers(self):
        op = self.report.ops[0]
        self.assertEqual(op.flops, 2 * 64 * 4096 * 14336)
        self.assertEqual(op.bytes, 2 * (64 * 4096 + 4096 * 14336 + 64 * 14336))
        self.assertEqual(op.limiter, "memory")
        self.assertEqual(op.formula.flops, "2*B*D*F")
        self.assertEqual(op.formula.bytes, "2*B*D + 2*B*F + 2*D*F")
        self.assertAlmostEqual(op.time.lower, op.bytes / 4.8e12)
        self.assertAlmostEqual(op.time.upper, op.time.math + op.time.memory)
        first = op.thresholds[0]
        self.assertEqual((first.dim, first.relation, first.value), ("B", ">=", 221))
        self.assertEqual(first.roofs, ("compute", "memory"))
        self.assertEqual(self.report.dims, SIZES)
        self.assertEqual(self.report.total.flops, op.flops)

    def test_prints_as_the_command_line(self):
        words = ["explain", LAYER, "--on", "h200", *(f"{dim}={size}" for dim, size in SIZES.items())]
        self.assertEqual(str(self.report), command_line(*words))
        ours, theirs = json.loads(self.report.json()), json.loads(command_line(*words, "--json"))
        for answer in (ours, theirs):
            self.assertEqual(answer.pop("provenance")["ridge"], ridge.__version__)
        self.assertEqual(ours, theirs)

    def test_shows_itself_in_a_notebook(self):
        page = self.report._repr_html_()
        for word in ("<table>", "memory", "7.516 GFLOP"):
            self.assertIn(word, page)
        image = xml.dom.minidom.parseString(page).getElementsByTagName("img")[0].getAttribute("src")
        kind, _, data = image.partition(";base64,")
        self.assertEqual(kind, "data:image/svg+xml")  # apart, so that pictures of one page do not share styles
        self.assertEqual(base64.b64decode(data).decode(), self.report.svg())

    def test_what_has_no_value_is_none(self):
        op = ridge.explain(LAYER, on="h200").ops[0]
        self.assertEqual((op.flops, op.time.lower, op.limiter), (None, None, None))
        self.assertEqual(op.thresholds[0].exact, "r*D*F/(D*F - r*(D + F))")

    def test_takes_everything_that_may_be_said(self):
        planned = ridge.explain(LAYER, on="h200", plan=True, B=4096, D=4096, F=4096).planned
        self.assertTrue(planned[0].kernel.startswith("sm90_"))
        self.assertGreater(planned[0].expected, 0)
        split = ridge.explain(LAYER, on="tpu_v5e", split=("D", 2), link="ici", **SIZES)
        self.assertGreater(split.ops[0].time.network, 0)
        self.assertEqual(ridge.explain("A[B, D] * W[D, F] -> C[B, F]", on="h200", dtype="int8", **SIZES).ops[0].bytes * 2,
                         self.report.ops[0].bytes)
        self.assertEqual(ridge.explain(on="h100", flops=1e12, bytes=1e9).total.limiter, "compute")
        self.assertEqual(ridge.explain("bd,df->bf", on="h200", b=64, d=4096, f=14336).ops[0].flops,
                         self.report.ops[0].flops)
        self.assertEqual(ridge.explain(LAYER, on="h200", dims=SIZES).ops[0].flops, self.report.ops[0].flops)

    def test_calls_that_are_no_questions_are_named(self):
        text = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"
        for given, said in [
                ({"B": "64"}, "B: expected a whole number, the size of a dimension, found '64'"),
                ({"B": None}, "B: expected a whole number, the size of a dimension, found None"),
                ({"dims": {"B": [1, 2]}}, "B: expected a whole number, the size of a dimension, found [1, 2]"),
                ({"machine": "h200"}, "machine: expected a whole number, the size of a dimension, found 'h200'"),
                ({"on": ["h100", "h200"]}, "expected one machine, such as 'h200', found ['h100', 'h200']"),
                ({"dtype": 32}, "expected a dtype's name, such as 'bf16', found 32"),
                ({"split": "F=8"}, "split: expected a dimension and how many chips share it, such as ('D', 4), found 'F=8'")]:
            with self.assertRaises(ridge.Error) as caught:
                ridge.explain(text, **{"on": "h200", **given})
            self.assertEqual(str(caught.exception), said)
            self.assertEqual(caught.exception.kind, "usage")

    def test_errors_have_place_and_caret(self):
        with self.assertRaises(ridge.Error) as caught:
            ridge.explain("bf16[B, D] * bf16[E, F] -> bf16[B, F]", on="h200")
        error = caught.exception
        self.assertEqual(str(error), subprocess.run(
            [binary(), "explain", "bf16[B, D] * bf16[E, F] -> bf16[B, F]"], capture_output=True, text=True).stderr.rstrip("\n"))
        self.assertIn("^", str(error))
        self.assertEqual((error.kind, error.code, error.source, error.line), ("input", 3, "program", 1))
        with self.assertRaises(ridge.Error) as caught:
            ridge.explain(LAYER, on="h2000")
        self.assertEqual(caught.exception.kind, "absent")
        with self.assertRaises(ridge.Error) as caught:
            ridge.explain(LAYER, on="h200", dtype="bf17")
        self.assertEqual(caught.exception.message, "expected a dtype such as bf16, f32 or int8, found 'bf17'")
        with self.assertRaisesRegex(ridge.Error, "^expected a program, or both flops and bytes$"):
            ridge.explain(on="h200", flops=1e12)

    def test_measures_what_is_here(self):
        report = ridge.measure("f32[M, K] * f32[K, N] -> f32[M, N]", M=32, K=16, N=24, passes=3, threads=1)
        self.assertEqual(report.ops[0].measured.runs, 3)
        self.assertGreater(report.ops[0].measured.median, 0)
        self.assertLess(report.ops[0].measured.max_rel_error, 1e-5)
        self.assertIsNone(report.mismatch)

    def test_one_question_from_several_threads(self):
        found = []
        threads = [threading.Thread(target=lambda size=size: found.append((size, ridge.explain(LAYER, on="h100", B=size, D=64,
                                                                                              F=64).ops[0].flops)))
                   for size in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [(size, 2 * size * 64 * 64) for size in range(1, 9)])


class Sweep(unittest.TestCase):
    def test_has_a_row_for_each_point(self):
        swept = ridge.sweep(LAYER, on=["h100", "h200"], B=[1, 64, 4096], D=4096, F="4096")
        columns = swept.columns()
        self.assertEqual(list(columns), ["machine", "dtype", "B", "D", "F", "flops", "bytes", "limiter", "time_lower_s",
                                         "time_upper_s"])
        self.assertEqual(columns["B"], [1, 64, 4096] * 2)
        self.assertEqual(columns["machine"], ["h100"] * 3 + ["h200"] * 3)
        self.assertEqual(columns["limiter"], ["memory", "memory", "compute"] * 2)
        one = ridge.explain(LAYER, on="h200", B=64, D=4096, F=4096).total
        self.assertEqual((columns["flops"][4], columns["bytes"][4]), (one.flops, one.bytes))
        self.assertEqual(columns["time_lower_s"][4], one.time.lower)
        self.assertEqual(len(swept), 6)
        self.assertEqual(ridge.sweep(LAYER, on="h100", B="1..16:*2", D=64, F=64).columns()["B"], [1, 2, 4, 8, 16])

    def test_prints_as_the_command_line(self):
        swept = ridge.sweep(LAYER, on="h200", B="1..64:*2", D=4096, F=4096)
        words = ["sweep", LAYER, "--on", "h200", "-d", "B=1..64:*2", "D=4096", "F=4096"]
        self.assertEqual(str(swept), command_line(*words))
        self.assertEqual(swept.csv(), command_line(*words, "--csv"))
        xml.dom.minidom.parseString(swept._repr_html_())

    def test_counts_beyond_64_bits_are_whole(self):
        size = 10**12
        flops = ridge.sweep(LAYER, on="h200", B=size, D=size, F=size).columns()["flops"][0]
        self.assertEqual(flops, 2 * size**3)

    def test_becomes_a_data_frame(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = ridge.sweep(LAYER, on="h200", B=[1, 512], D=4096, F=4096).to_pandas()
        self.assertEqual(frame["limiter"].tolist(), ["memory", "compute"])

    def test_refuses_what_is_no_size(self):
        with self.assertRaises(ridge.Error):
            ridge.sweep(LAYER, on="h200", B="1..", D=64, F=64)
        with self.assertRaises(ridge.Error):
            ridge.sweep(LAYER, on="h200", B=[], D=64, F=64)


class Package(unittest.TestCase):
    def test_import_needs_nothing_else(self):
        code = ("import sys, ridge; heavy = {'numpy', 'torch', 'pandas', 'ctypes'} & set(sys.modules); "
                "sys.exit(str(heavy) if heavy else 0)")
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)

    def test_without_numpy_a_result_needs_a_place(self):
        code = ("import array, sys; sys.modules['numpy'] = None\nimport ridge\n"
                "view = lambda *n: memoryview(array.array('f', n)).cast('B').cast('f', (2, 2))\n"
                "a, out = view(1, 2, 3, 4), view(0, 0, 0, 0)\nridge.matmul(a, a, out)\nassert out.tolist() == [[7, 10], [15, 22]]\n"
                "try: ridge.matmul(a, a)\nexcept ridge.Error as error: sys.exit(error.message != \"the result is a NumPy array, "
                "but NumPy is not installed\")\nsys.exit(1)")
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)

    def test_everything_public_is_documented(self):
        for name in ridge.__all__:
            if name[0].islower() and callable(getattr(ridge, name)):
                self.assertTrue(getattr(ridge, name).__doc__, name)
        self.assertIn("h200", ridge.machines())


if __name__ == "__main__":
    unittest.main()
