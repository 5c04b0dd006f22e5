"""Wrong calls: each is refused with a sentence in Python's terms that says what was expected, what was found and what to do.
The whole message is compared."""
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed: the tests of wrong calls are skipped") from None

import ridge

NAMES = {"ridge": ridge, "np": np, "L": "bf16[B, D] * bf16[D, F] -> bf16[B, F]",
         "f": lambda *shape: np.ones(shape, np.float32)}

CALLS = [
    ("ridge.explain(\"ij,jk\", on=\"h200\")",
     "expected an einsum string with its result, such as 'ij,jk->ik', found 'ij,jk'"),
    ("ridge.explain(\"bf16[B,D]*bf16[D,F]->bf16[B,F\", on=\"h200\")",
     "program:1:26: expected ']' for this '[', found end of the program\n  bf16[B,D]*bf16[D,F]->bf16[B,F\n         "
     "                  ^\n  hint: close it on the same line"),
    ("ridge.explain(\"\", on=\"h200\")",
     "expected a program, such as 'bf16[B, D] * bf16[D, F] -> bf16[B, F]', found empty text"),
    ("ridge.explain(None, on=\"h200\")",
     "expected a program, or both flops and bytes"),
    ("ridge.explain(3, on=\"h200\")",
     "expected a program, such as 'bf16[B, D] * bf16[D, F] -> bf16[B, F]', found 3"),
    ("ridge.explain(\"nofile.ridge\", on=\"h200\")",
     "cannot read 'nofile.ridge': No such file or directory\n  hint: a program is a file, - or the text itself: "
     "'bf16[B, D] * bf16[D, F] -> bf16[B, F]'"),
    ("ridge.explain(L, on=\"h2000\")",
     "unknown machine 'h2000'; expected a name of the catalog, a .toml file, cpu or cuda\n  hint: did you mean "
     "h200? ridge.machines() lists the catalog"),
    ("ridge.explain(L, on=[\"h100\", \"h200\"])",
     "expected one machine, such as 'h200', found ['h100', 'h200']"),
    ("ridge.explain(L, on=None)",
     "expected one machine, such as 'h200', found None"),
    ("ridge.explain(L, on=\"h200\", B=\"64\")",
     "B: expected a whole number, the size of a dimension, found '64'"),
    ("ridge.explain(L, on=\"h200\", B=0)",
     "B: expected a size from 1 to 2^63 - 1, found 0"),
    ("ridge.explain(L, on=\"h200\", B=-4)",
     "B: expected a size from 1 to 2^63 - 1, found -4"),
    ("ridge.explain(L, on=\"h200\", B=2.5)",
     "B: expected a whole number, the size of a dimension, found 2.5"),
    ("ridge.explain(L, on=\"h200\", B=10**30)",
     "B: expected a size from 1 to 2^63 - 1, found 1000000000000000000000000000000"),
    ("ridge.explain(L, on=\"h200\", Q=4)",
     "unknown dimension 'Q'\n  hint: the program's dimensions are B, D, F"),
    ("ridge.explain(L, on=\"h200\", sustaned=True)",
     "unknown argument 'sustaned'; did you mean sustained? Other keywords are sizes of dimensions"),
    ("ridge.explain(L, on=\"h200\", dims=64)",
     "dims: expected a mapping from dimensions to sizes, such as {'B': 64}, found 64"),
    ("ridge.explain(L, on=\"h200\", dtype=\"bf17\")",
     "expected a dtype such as bf16, f32 or int8, found 'bf17'"),
    ("ridge.explain(L, on=\"h200\", dtype=\"f32\")",
     "expected tensors without a dtype for dtype=, found that every tensor declares its own\n  hint: dtype= sets "
     "all dtypes of A[B, D] * W[D, F] -> C[B, F]; x: bf16[B, D] declares its own"),
    ("ridge.explain(L, on=\"h200\", dtype=np.float32)",
     "expected a dtype's name, such as 'bf16', found <class 'numpy.float32'>"),
    ("ridge.explain(L, on=\"h200\", split=4)",
     "split: expected a dimension and how many chips share it, such as ('D', 4), found 4"),
    ("ridge.explain(L, on=\"h200\", split=(\"D\", 4.5))",
     "split: expected a whole number, how many chips share the dimension, found 4.5"),
    ("ridge.explain(L, on=\"h200\", split=(\"D\", 0))",
     "split: expected at least one chip, found 0"),
    ("ridge.explain(L, on=\"h200\", split=(\"Q\", 2))",
     "the program has no dimension 'Q' to split; it has B, D, F"),
    ("ridge.explain(L, on=\"h200\", link=\"ici\", split=(\"D\", 2), B=4, D=4, F=4)",
     "expected a rate in B/s, one way, or a link of h200 for link=, found 'ici'\n  hint: it has nvlink, scaleout, "
     "pcie"),
    ("ridge.explain(L, on=\"h200\", memory=\"tape\")",
     "expected a rate in B/s, or a memory or link of h200 with a rate for memory=, found 'tape'\n  hint: it has "
     "hbm, l2, nvlink, scaleout, pcie"),
    ("ridge.explain(L, on=\"h200\", memory=3.5)",
     "expected a rate in B/s, or a memory or link of h200 with a rate for memory=, found '3.5'\n  hint: it has "
     "hbm, l2, nvlink, scaleout, pcie"),
    ("ridge.explain(L, on=\"h200\", memory=\"3 parsecs\")",
     "expected a rate in B/s, or a memory or link of h200 with a rate for memory=, found '3 parsecs'\n  hint: it "
     "has hbm, l2, nvlink, scaleout, pcie"),
    ("ridge.explain(L, on=\"h200\", weights=8)",
     "expected a dtype's name, such as 'bf16', found 8"),
    ("ridge.explain(L, on=\"h200\", narrow=\"int9\")",
     "expected a dtype such as bf16, f32 or int8, found 'int9'"),
    ("ridge.explain(on=\"h200\", flops=1e12)",
     "expected a program, or both flops and bytes"),
    ("ridge.explain(on=\"h200\", flops=-1, bytes=2)",
     "flops: expected a number above 0 and below 1e38, found -1"),
    ("ridge.explain(on=\"h200\", flops=\"many\", bytes=2)",
     "flops: expected a number above 0 and below 1e38, found 'many'"),
    ("ridge.explain(L, on=\"h200\", flops=1e12, bytes=1e9)",
     "expected a program, or flops and bytes, found both"),
    ("ridge.explain(L, 64, 4096, on=\"h200\")",
     "expected one program, found 2 more arguments: pass sizes by name, such as B=64"),
    ("ridge.measure(L, on=\"h200\")",
     "on: expected 'cpu' or 'cuda', because a measurement runs here, found 'h200': ridge.explain predicts other "
     "machines"),
    ("ridge.measure(\"f32[M, K] * f32[K, N] -> f32[M, N]\", M=8, K=8)",
     "dimension 'N' has no value; expected one to run the program\n  hint: N=64"),
    ("ridge.measure(\"f32[M, K] * f32[K, N] -> f32[M, N]\", M=8, K=8, N=8, passes=2.5)",
     "passes: expected a whole number, 0 for at least five, found 2.5"),
    ("ridge.measure(\"f32[M, K] * f32[K, N] -> f32[M, N]\", M=8, K=8, N=8, threads=\"2\")",
     "threads: expected a whole number, 0 for every core, found '2'"),
    ("ridge.measure(\"f32[M, K] * f32[K, N] -> f32[M, N]\", M=8, K=8, N=8, seconds=\"long\")",
     "seconds: expected a number of at least 0, found 'long'"),
    ("ridge.sweep(L, on=None, B=1)",
     "on: expected one or several, such as 'h200', found None"),
    ("ridge.sweep(L, on=\"h200\", B=None)",
     "B: expected a size, several, or a range such as '1..4096:*2', found None"),
    ("ridge.sweep(L, on=\"h200\", B=[])",
     "expected at least one value of dimension 'B'"),
    ("ridge.sweep(L, on=\"h200\", B=[1, 2.5])",
     "B: expected a whole number, the size of a dimension, found 2.5"),
    ("ridge.sweep(L, on=\"h200\", B=\"1..\")",
     "B: expected sizes such as '64', '1,8,64', '1..4096:*2' or '128..512:128', found '1..'"),
    ("ridge.sweep(L, on=[], B=1)",
     "on: expected at least one machine, such as 'h200', found none"),
    ("ridge.sweep(L, on=\"h200\", dtype=7, B=1)",
     "dtype: expected one or several, such as 'bf16', found 7"),
    ("ridge.sweep(L, on=\"h200\", dtype=\"bf17\", B=1, D=1, F=1)",
     "expected a dtype such as bf16, f32 or int8, found 'bf17'"),
    ("ridge.matmul(None, f(2, 2))",
     "expected an array for 'a', found <class 'NoneType'>"),
    ("ridge.matmul(\"a\", f(2, 2))",
     "expected an array for 'a', found <class 'str'>"),
    ("ridge.matmul(f(3, 4), f(5, 4))",
     "expected a[..., m, k] and b[..., k, n], found k = 4 in a and 5 in b: a has shape [3, 4], b has shape [5, 4]"),
    ("ridge.matmul(f(2, 3, 4), f(3, 4, 5))",
     "expected leading axes that are equal or can be broadcast, found [2] in a and [3] in b"),
    ("ridge.matmul(f(2, 2), np.ones((2, 2)))",
     "expected 'b' to be float32, bfloat16 or float16, found float64: pass b.astype(np.float32)"),
    ("ridge.matmul(np.ones((2, 2)), np.ones((2, 2)))",
     "expected 'a' to be float32, bfloat16 or float16, found float64: pass a.astype(np.float32)"),
    ("ridge.matmul(f(2, 2), np.ones((2, 2), np.float16))",
     "expected a and b of one dtype, found float32 and float16"),
    ("ridge.matmul(np.float32(2), f(2, 2))",
     "expected operands of at least one axis, found a of shape [] and b of shape [2, 2]"),
    ("ridge.matmul(np.ones((2, 2), np.int64), np.ones((2, 2), np.int64))",
     "expected 'a' to be float32, bfloat16 or float16, found int64: pass a.astype(np.float32)"),
    ("ridge.matmul(np.ones((2, 2), complex), f(2, 2))",
     "expected 'a' to be float32, bfloat16 or float16, found complex128: pass a.astype(np.float32)"),
    ("ridge.matmul([[1., 2.]], f(2, 2))",
     "expected an array for 'a', found <class 'list'>: np.array(a, np.float32) is one"),
    ("ridge.matmul(f(2, 2), f(2, 2), threads=\"2\")",
     "threads: expected a whole number, 0 for every core, found '2'"),
    ("ridge.matmul(f(2, 2), f(2, 2), threads=2.5)",
     "threads: expected a whole number, 0 for every core, found 2.5"),
    ("ridge.matmul(f(2, 2), f(2, 2), threads=-1)",
     "threads: expected a whole number, 0 for every core, found -1"),
    ("ridge.matmul(f(2, 2), f(2, 2), dtype=np.float32)",
     "expected a dtype's name, such as 'bf16', found <class 'numpy.float32'>"),
    ("ridge.matmul(f(2, 2), f(2, 2), dtype=\"bf17\")",
     "expected a dtype such as bf16, f32 or int8, found 'bf17'"),
    ("ridge.matmul(f(2, 2), f(2, 2), dtype=\"int8\")",
     "expected f32, bf16 or f16, both equal or one of them int8 -> f32, bf16 or f16; or int8 * int8 -> int32, "
     "int8, f32, bf16 or f16; found f32 * f32 -> int8"),
    ("ridge.matmul(f(2, 2), f(2, 2), out=f(3, 3))",
     "expected out to be float32 of shape [2, 2], found float32 of shape [3, 3]"),
    ("ridge.matmul(f(2, 2), f(2, 2), out=np.ones((2, 2)))",
     "expected out to be float32 of shape [2, 2], found float64 of shape [2, 2]"),
    ("ridge.softmax([1., 2.])",
     "expected an array for 'x', found <class 'list'>: np.array(x, np.float32) is one"),
    ("ridge.softmax(None)",
     "expected an array for 'x', found <class 'NoneType'>"),
    ("ridge.softmax(f(2, 2), 1.0)",
     "axis: expected a whole number from -2 to 1, found 1.0"),
    ("ridge.softmax(f(2, 2), 2)",
     "expected an axis from -2 to 1, found 2"),
    ("ridge.softmax(f(2, 2), 1, dim=0)",
     "expected axis or dim, found both: axis=1, dim=0"),
    ("ridge.softmax(f(2, 2), \"x\")",
     "axis: expected a whole number from -2 to 1, found 'x'"),
    ("ridge.softmax(np.float32(1))",
     "expected x to have 1 to 14 axes, found 0"),
    ("ridge.softmax(np.ones((2, 2)))",
     "expected 'x' to be float32, bfloat16 or float16, found float64: pass x.astype(np.float32)"),
    ("ridge.softmax(f(2, 2), out=f(2, 3))",
     "expected out to be float32 of shape [2, 2], found float32 of shape [2, 3]"),
    ("ridge.rmsnorm(f(2, 2), eps=float(\"nan\"))",
     "eps: expected a number of at least 0, found nan"),
    ("ridge.rmsnorm(f(2, 2), eps=-5)",
     "eps: expected a number of at least 0, found -5"),
    ("ridge.rmsnorm(f(2, 2), eps=\"small\")",
     "eps: expected a number of at least 0, found 'small'"),
    ("ridge.rmsnorm(f(2, 2), f(3))",
     "expected weight to have shape [2], a number for each column of x, found [3]"),
    ("ridge.rmsnorm(f(2, 2), np.ones(2, np.float16))",
     "expected weight to be float32, as x is, or float32, found float16"),
    ("ridge.geglu(f(2, 3), f(5, 3))",
     "expected w to have an even number of rows and two axes, found shape (5, 3)"),
    ("ridge.geglu(f(2, 3), f(4, 2))",
     "expected rows of x as long as those of w, 2, found 3: w has the layout of torch.nn.Linear, [2*F, D]"),
    ("ridge.geglu(f(2, 3), f(4, 3), f(3))",
     "expected b to have shape (4,), a number for each row of w, found (3,)"),
    ("ridge.geglu(f(2, 3), f(4, 3), approximate=\"fast\")",
     "expected approximate to be 'none' or 'tanh', found 'fast'"),
    ("ridge.geglu(f(2, 3), np.ones((4, 3)))",
     "expected 'w' to be float32, bfloat16 or float16, found float64: pass w.astype(np.float32)"),
    ("ridge.attention(f(4), f(4), f(4))",
     "expected q to have 2 to 14 axes, found 1"),
    ("ridge.attention(f(2, 3, 4), f(3, 4), f(3, 4))",
     "expected q, k and v to have as many axes, found 3, 2 and 2"),
    ("ridge.attention(f(1, 4, 3, 8), f(1, 2, 3, 8), f(1, 2, 3, 8))",
     "expected the same leading axes in q and k, found [1, 4] and [1, 2]: enable_gqa=True shares each head of k "
     "and v among 2 heads of q"),
    ("ridge.attention(f(3, 8), f(5, 6), f(5, 8))",
     "expected keys as wide as queries, found width 6 in k and 8 in q"),
    ("ridge.attention(f(3, 8), f(5, 8), f(4, 8))",
     "expected a value for each key, found 5 keys and 4 values"),
    ("ridge.attention(f(3, 8), f(5, 8), f(5, 8), scale=float(\"inf\"))",
     "scale: expected a finite number, found inf"),
    ("ridge.attention(f(3, 8), f(5, 8), f(5, 8), scale=\"big\")",
     "scale: expected a finite number, found 'big'"),
    ("ridge.attention(f(3, 8), f(5, 8), f(5, 8), dropout_p=0.1)",
     "dropout_p: expected 0, because attention has no dropout, found 0.1"),
    ("ridge.attention(f(3, 8), f(5, 8), f(5, 8), f(4, 5))",
     "expected attn_mask to be broadcast to the scores, [3, 5], found shape [4, 5]"),
    ("ridge.attention(f(3, 8), f(5, 8), f(5, 8), f(3, 5), is_causal=True)",
     "expected attn_mask alone, found it together with causal, lengths or pages: write all conditions into the mask"),
    ("ridge.attention(f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), lengths=np.array([1, 9], np.int32))",
     "lengths[1] is 9; expected 0 to 5, the number of keys"),
    ("ridge.attention(f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), lengths=np.array([1, 2, 3], np.int32))",
     "expected lengths to have shape [2], the first axes of q, found [3]"),
    ("ridge.attention(f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), lengths=f(2))",
     "expected lengths to be int32 or int64, found float32"),
    ("ridge.attention(f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), lengths=3)",
     "expected an array for 'lengths', found <class 'int'>"),
    ("ridge.attention(f(3, 8), f(5, 8), np.ones((5, 8), np.float16))",
     "expected q and v of one dtype, found float32 and float16"),
    ("ridge.attention(f(3, 8), f(5, 8), True)",
     "expected an array for 'v', found <class 'bool'>"),
    ("ridge.run(\"ij,jk->ik\", f(2, 3), f(4, 2))",
     "dimension 'j' is 3 in input 0 and 4 in input 1; expected one size"),
    ("ridge.run(\"ij,jk->ik\", f(2, 3))",
     "expected an array for input 1, found none; the inputs are input 0, input 1"),
    ("ridge.run(\"ij,jk->ik\", f(2, 3), f(3, 2), f(2, 2))",
     "expected 2 arrays at most, for input 0, input 1; found more"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", z=f(3))",
     "unknown input 'z'; expected one of x"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", np.ones(3))",
     "expected 'input 0' to be float32, bfloat16, float16, int8 or int32, found float64: pass x.astype(np.float32)"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(0))",
     "'x' has shape [0]; expected every extent to be at least 1"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), wanted=\"q\")",
     "unknown result 'q'; expected one of y"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), wanted=7)",
     "wanted: expected names of results, such as 'y', found 7"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), dtype=np.float32)",
     "expected a dtype's name, such as 'bf16', found <class 'numpy.float32'>"),
    ("ridge.run(\"x: f32[N]\\ny: f32[N] = x + 1\", f(3), dtype=\"f32\")",
     "expected tensors without a dtype for dtype=, found that every tensor declares its own\n  hint: dtype= sets "
     "all dtypes of A[B, D] * W[D, F] -> C[B, F]; x: bf16[B, D] declares its own"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), threads=f(2))",
     "threads: expected a whole number, 0 for every core, found array([1., 1.], dtype=float32)"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), M=2.5)",
     "expected an array for 'M', found <class 'float'>"),
    ("ridge.run(f(3), f(3))",
     "expected a program, such as 'bd,df->bf', found array([1., 1., 1.], dtype=float32)"),
    ("ridge.run(\"x[N]\\ny[N, M] = x + 0 * index(M)\", f(3))",
     "dimension 'M' has no value, because no array has it\n  hint: pass M = 64"),
    ("ridge.run(\"x[N]\\ny[N] = x + 1\", f(3), out={3: f(3)})",
     "out: expected names of results, such as 'y', found {3: array([1., 1., 1.], dtype=float32)}"),
]


class WrongCalls(unittest.TestCase):
    def test_each_is_refused_with_its_message(self):
        self.assertGreaterEqual(len(CALLS), 60)
        for call, said in CALLS:
            with self.subTest(call):
                with self.assertRaises(ridge.Error) as raised:
                    eval(call, NAMES)
                self.assertEqual(str(raised.exception), said)

    def test_no_message_speaks_of_the_command_line_or_of_the_inside(self):
        for call, said in CALLS:
            for word in ("--", "`ridge", "incompatible function arguments", "nanobind", "memoryview", "std::"):
                with self.subTest(call):
                    self.assertNotIn(word, said)

    def test_tensors_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        x = torch.ones(2, 2)
        for call, said in [
                (lambda: ridge.softmax(x.double()), "expected 'x' to be float32, bfloat16 or float16, found float64: pass x.float()"),
                (lambda: ridge.matmul(x, x.bfloat16()), "expected a and b of one dtype, found float32 and bfloat16"),
                (lambda: ridge.matmul(x, x, dtype=torch.bfloat16), "expected a dtype's name, such as 'bf16', found torch.bfloat16"),
                (lambda: ridge.softmax(x.to("meta")), "'x' is an array of torch.float32 that cannot be read through DLPack or the "
                 "buffer protocol\n  hint: torch.ops.ridge takes the tensors of torch.func, torch.compile and 'meta'; "
                 "x.to_dense() a sparse one"),
                (lambda: ridge.softmax(x, out=torch.ones(2, 2, dtype=torch.complex64).conj().imag),
                 "'y' is a view that PyTorch negates, which cannot be written\n  hint: pass a new tensor, such as "
                 "torch.empty_like(x)")]:
            with self.assertRaises(ridge.Error) as raised:
                call()
            self.assertEqual(str(raised.exception), said)


if __name__ == "__main__":
    unittest.main()
