"""A client of ridge that passes mypy --strict: public functions have complete annotations, and wrong names are found."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import mypy  # noqa: F401
except ImportError:
    raise unittest.SkipTest("mypy is not installed: the test of annotations is skipped") from None

import ridge

CLIENT = '''
import ridge

def limiter(sizes: dict[str, int]) -> str | None:
    report: ridge.Report = ridge.explain("bd,df->bf", on="h200", dims=sizes, split=("d", 4), plan=True)
    seconds: float | None = report.ops[0].time.lower
    print(report.total.flops, seconds, report.svg(), report.planned[0].kernel)
    return report.ops[0].limiter

def compute(x: memoryview, w: memoryview) -> memoryview:
    y: memoryview = ridge.matmul(x, w, threads=2)
    y = ridge.softmax(ridge.rmsnorm(y, eps=1e-6), dim=0)
    y = ridge.attention(y, x, w, is_causal=True)
    return ridge.geglu(y, w, approximate="tanh")

def sizes() -> list[int]:
    swept = ridge.sweep("bd,df->bf", on=["h100", "h200"], b=[1, 2], d="1..64:*2", f=4)
    measured = ridge.measure("f32[M, K] * f32[K, N] -> f32[M, N]", M=8, K=8, N=8, passes=3)
    try:
        ridge.run("bd,df->bf", memoryview(b""), wanted="y", threads=1)
    except ridge.Error as error:
        print(error.kind, error.line + 1, measured.title, ridge.machines()[0])
    return [len(swept)]

def layer(x: memoryview, file: list[memoryview]) -> memoryview:
    weights: ridge.Weights = ridge.weights_from_gptq(file[0], file[1], file[2], group=128)
    print(weights.dtype, weights.shape[0], ridge.weights_from_awq(file[0], file[1], file[2], group=64).block)
    return ridge.matmul(x, weights)
'''


class Annotations(unittest.TestCase):
    def check(self, text):
        """Returns mypy's lines about a client."""
        with tempfile.TemporaryDirectory() as folder:
            client = pathlib.Path(folder) / "client.py"
            client.write_text(text)
            root = pathlib.Path(ridge.__file__).parents[1]
            found = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", folder,
                                    str(client)], capture_output=True, text=True, env={"MYPYPATH": str(root), "PATH": ""})
            return [line.partition("client.py:")[2] for line in found.stdout.splitlines() if "client.py:" in line]

    def test_a_client_passes(self):
        self.assertEqual(self.check(CLIENT), [])

    def test_wrong_names_and_types_are_found(self):
        lines = self.check("import ridge\nprint(ridge.explain('bd,df->bf').opps)\nridge.matmul(1, 2, threads='2')\n"
                           "ridge.sweep(3, on='h200')\n")
        self.assertEqual([line.partition(":")[0] for line in lines], ["2", "3", "4"])


if __name__ == "__main__":
    unittest.main()
