"""Programs on arrays, against NumPy in fp64."""
import math
import threading
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed: programs on arrays are not tested") from None

import ridge

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def close(found, expected, bound):
    error = np.abs(np.asarray(found, np.float64) - expected).max() / max(np.abs(expected).max(), 1e-30)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert error <= bound, error


class Matmul(unittest.TestCase):
    def test_odd_shapes_and_strides(self):
        for m, n, k in [(1, 1, 1), (3, 5, 7), (64, 64, 64), (33, 65, 17), (128, 1, 31)]:
            a, b = normal(m, k), normal(k, n)
            expected = a.astype(np.float64) @ b
            for left in (a, np.asfortranarray(a), normal(m, 2 * k)[:, ::2], a[::-1]):
                for right in (b, np.asfortranarray(b), np.ascontiguousarray(b[:, ::-1])[:, ::-1]):
                    close(ridge.matmul(left, right), np.asarray(left, np.float64) @ right, 1e-5)
            close(ridge.matmul(a, b), expected, 1e-5)

    def test_batches_and_dtypes(self):
        a, b = normal(2, 3, 4, 5, dtype=np.float16), normal(2, 3, 5, 6, dtype=np.float16)
        found = ridge.matmul(a, b)
        self.assertEqual(found.dtype, np.float16)
        close(found, a.astype(np.float64) @ b, 1e-3)
        self.assertEqual(ridge.matmul(a, b, dtype="f32").dtype, np.float32)
        close(ridge.matmul(a, b[0, 0]), a.astype(np.float64) @ b[0, 0], 1e-3)
        eights = RNG.integers(-9, 9, (4, 5), np.int8)
        found = ridge.matmul(eights, eights.T)
        self.assertEqual(found.dtype, np.int32)
        self.assertTrue((found == eights.astype(np.int32) @ eights.T.astype(np.int32)).all())

    def test_sizes_of_zero(self):
        self.assertTrue((ridge.matmul(normal(3, 0), normal(0, 4)) == np.zeros((3, 4))).all())
        self.assertEqual(ridge.matmul(normal(0, 3), normal(3, 4)).shape, (0, 4))

    def test_writes_where_it_is_told(self):
        a, b = normal(3, 4), normal(4, 5)
        out = np.full((3, 5), np.nan, np.float32)
        self.assertIs(ridge.matmul(a, b, out), out)
        close(out, a.astype(np.float64) @ b, 1e-5)
        for bad, message in [(np.zeros((5, 3), np.float32).T, "expected d to be row-major"),
                             (np.zeros((3, 4), np.float32), "expected out to be float32 of shape")]:
            with self.assertRaisesRegex(ridge.Error, message):
                ridge.matmul(a, b, bad)
        frozen = np.zeros((3, 5), np.float32)
        frozen.flags.writeable = False
        with self.assertRaisesRegex(ridge.Error, "'out' is an array of float32 that cannot be written"):
            ridge.matmul(a, b, frozen)
        square = normal(4, 4)
        with self.assertRaisesRegex(ridge.Error, "shares memory"):
            ridge.matmul(square, b[:, :4].copy(), square)

    def test_reads_read_only_memory_and_buffers(self):
        a = normal(2, 2)
        a.flags.writeable = False
        close(ridge.matmul(a, a), a.astype(np.float64) @ a, 1e-5)
        close(ridge.matmul(memoryview(a), a), a.astype(np.float64) @ a, 1e-5)

    def test_refuses_what_it_cannot_multiply(self):
        with self.assertRaisesRegex(ridge.Error, "expected an array for 'a', found <class 'str'>"):
            ridge.matmul("a", normal(2, 2))
        with self.assertRaisesRegex(ridge.Error, "expected operands of at least one axis"):
            ridge.matmul(np.float32(1), normal(2, 2))
        with self.assertRaisesRegex(ridge.Error, "expected 'a' to be float32, bfloat16 or float16, found int64"):
            ridge.matmul(np.zeros((2, 2), np.int64), normal(2, 2))
        with self.assertRaises(ridge.Error):
            ridge.matmul(np.zeros((2, 2)), np.zeros((2, 2)))
        with self.assertRaises(ridge.Error):
            ridge.matmul(normal(2, 3), normal(2, 3))

    def test_bf16_of_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        a, b = normal(5, 7).astype(ml_dtypes.bfloat16), normal(7, 3).astype(ml_dtypes.bfloat16)
        found = ridge.matmul(a, b)
        self.assertEqual(found.dtype, ml_dtypes.bfloat16)
        close(found.astype(np.float32), a.astype(np.float64) @ b.astype(np.float64), 2e-2)


class Run(unittest.TestCase):
    def test_programs_einsum_and_files(self):
        x, w = normal(4, 6), normal(6, 5)
        expected = x.astype(np.float64) @ w
        close(ridge.run("bd,df->bf", x, w), expected, 1e-5)
        close(ridge.run("x[N, D] * w[D, F] -> y[N, F]", w=w, x=x), expected, 1e-5)

    def test_several_results_come_by_name(self):
        x = normal(3, 4)
        found = ridge.run("x[N, D]\ns[N] = sum(x over D)\nm[N] = max(x over D)", x)
        self.assertEqual(sorted(found), ["m", "s"])
        close(found["s"], x.astype(np.float64).sum(1), 1e-5)
        self.assertTrue((found["m"] == x.max(1)).all())
        self.assertTrue((ridge.run("x[N, D]\ns[N] = sum(x over D)\nm[N] = max(x over D)", x, wanted="m") == x.max(1)).all())
        places = {"m": np.zeros(3, np.float32)}
        self.assertIs(ridge.run("x[N, D]\ns[N] = sum(x over D)\nm[N] = max(x over D)", x, out=places)["m"], places["m"])
        self.assertTrue((places["m"] == x.max(1)).all())
        with self.assertRaisesRegex(ridge.Error, "expected out to be a mapping from names, because there are 2 results: s, m"):
            ridge.run("x[N, D]\ns[N] = sum(x over D)\nm[N] = max(x over D)", x, out=places["m"])
        with self.assertRaisesRegex(ridge.Error, "unknown result 'z' in out; expected one of s, m"):
            ridge.run("x[N, D]\ns[N] = sum(x over D)\nm[N] = max(x over D)", x, out={"z": places["m"]})

    def test_sizes_that_no_array_has(self):
        x = normal(4)
        close(ridge.run("x[N]\ny[N, M] = x + 0 * index(M)", x, M=3), np.repeat(x[:, None], 3, 1).astype(np.float64), 1e-6)
        with self.assertRaisesRegex(ridge.Error, "dimension 'M' has no value"):
            ridge.run("x[N]\ny[N, M] = x + 0 * index(M)", x)

    def test_errors_are_sentences(self):
        with self.assertRaisesRegex(ridge.Error, r"(?s)program:1:\d+.*\^"):
            ridge.run("x[N, D] * w[E, F] -> y[N, F]", normal(2, 3), normal(3, 2))
        with self.assertRaisesRegex(ridge.Error, "dimension 'D' is 3 in 'x' and 4 in 'w'; expected one size"):
            ridge.run("x[N, D] * w[D, F] -> y[N, F]", normal(2, 3), normal(4, 2))
        with self.assertRaisesRegex(ridge.Error, "expected an array for 'x', found <class 'list'>"):
            ridge.run("x[N, D] * w[D, F] -> y[N, F]", x=[1, 2], w=normal(4, 2))

    def test_from_several_threads(self):
        x, w = normal(64, 96), normal(96, 32)
        expected = x.astype(np.float64) @ w
        wrong = []

        def work():
            for _ in range(20):
                try:
                    close(ridge.run("bd,df->bf", x, w), expected, 1e-5)
                    close(ridge.matmul(x, w), expected, 1e-5)
                except Exception as error:  # noqa: BLE001
                    wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Layers(unittest.TestCase):
    def test_softmax_along_any_axis(self):
        for shape in [(7,), (3, 5), (2, 3, 129), (2, 3, 4, 5)]:
            x = normal(*shape)
            for axis in range(-len(shape), len(shape)):
                close(ridge.softmax(x, axis), softmax(x.astype(np.float64), axis), 1e-5)
        with self.assertRaises(ValueError):
            ridge.softmax(normal(3), 1)
        with self.assertRaisesRegex(ridge.Error, "expected an axis from -1 to 0, found 1208925819614629174706176"):
            ridge.softmax(normal(3), 2**80)

    def test_softmax_down_columns_sums_many_rows(self):
        x = normal(3000, 33) * 10
        for array in (x, np.asfortranarray(x), x[::-1]):
            for threads in (1, 2):
                close(ridge.softmax(array, 0, threads=threads), softmax(array.astype(np.float64), 0), 1e-5)
        out = np.empty_like(x)
        self.assertIs(ridge.softmax(x, 0, out=out), out)
        close(out, softmax(x.astype(np.float64), 0), 1e-5)
        with self.assertRaisesRegex(ridge.Error, "^'y' shares memory with the input 'x'$"):
            ridge.softmax(x, 0, out=x)

    def test_rmsnorm(self):
        for shape in [(8,), (3, 17), (2, 3, 64)]:
            x, w = normal(*shape), normal(shape[-1])
            for eps in (1e-5, 1e-6, 0.5):
                x64 = x.astype(np.float64)
                expected = x64 / np.sqrt((x64 * x64).mean(-1, keepdims=True) + eps)
                close(ridge.rmsnorm(x, eps=eps), expected, 1e-5)
                close(ridge.rmsnorm(x, w, eps=eps), expected * w, 1e-5)

    def test_geglu(self):
        for lead, d, f in [((5,), 8, 6), ((2, 3), 17, 33), ((1,), 64, 256), ((), 16, 8)]:
            x, w, b = normal(*lead, d), normal(2 * f, d) / d, normal(2 * f)
            for bias in (None, b):
                h = x.astype(np.float64) @ w.T.astype(np.float64) + (0 if bias is None else bias)
                expected = h[..., :f] * gelu(h[..., f:])
                close(ridge.geglu(x, w, bias), expected, 1e-5)
        h = x.astype(np.float64) @ w.T.astype(np.float64)
        tanh = 0.5 * h[..., f:] * (1 + np.tanh(math.sqrt(2 / math.pi) * (h[..., f:] + 0.044715 * h[..., f:] ** 3)))
        close(ridge.geglu(x, w, approximate="tanh"), h[..., :f] * tanh, 1e-5)
        with self.assertRaises(ValueError):
            ridge.geglu(x, w, approximate="fast")
        for given, said in [
                ((normal(2, 3), normal(7, 3)), "expected w to have an even number of rows and two axes, found shape (7, 3)"),
                ((normal(2, 3), normal(3, 8)), "expected w to have an even number of rows and two axes, found shape (3, 8)"),
                ((normal(2, 3), normal(4, 6)), "expected rows of x as long as those of w, 6, found 3: w has the layout of "
                 "torch.nn.Linear, [2*F, D]"),
                ((normal(2, 3), normal(4, 3), normal(2)), "expected b to have shape (4,), a number for each row of w, found (2,)"),
                ((normal(2, 3).astype(np.float64), normal(4, 3)), "expected 'x' to be float32, bfloat16 or float16, found float64: pass x.astype(np.float32)")]:
            with self.assertRaises(ridge.Error) as raised:
                ridge.geglu(*given)
            self.assertEqual(str(raised.exception), said)

    def test_attention(self):
        for lead, s, t, e, v in [((), 5, 7, 8, 8), ((3,), 9, 9, 16, 4), ((2, 3), 33, 17, 8, 8)]:
            q, k, values = normal(*lead, s, e), normal(*lead, t, e), normal(*lead, t, v)
            scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2) / math.sqrt(e)
            close(ridge.attention(q, k, values), softmax(scores) @ values, 1e-5)
            close(ridge.attention(q, k, values, scale=0.3), softmax(scores * 0.3 * math.sqrt(e)) @ values, 1e-5)
            seen = np.tril(np.ones((s, t), bool))
            close(ridge.attention(q, k, values, causal=True), softmax(np.where(seen, scores, -np.inf)) @ values, 1e-5)
        half = ridge.attention(q.astype(np.float16), k.astype(np.float16), values.astype(np.float16))
        self.assertEqual(half.dtype, np.float16)
        close(half, softmax(scores) @ values, 5e-3)

    def test_attention_of_sequences_that_differ_in_length(self):
        lengths, rows = np.array([1, 17, 9], np.int32), 4
        q, k, v = normal(3, 2, rows, 8), normal(3, 2, 17, 8), normal(3, 2, 17, 8)
        for b, n in enumerate(lengths):
            k[b, :, n:] = v[b, :, n:] = np.nan
        for dtype, bound in [(np.float32, 1e-5), (np.float16, 5e-3)]:
            for causal in (False, True):
                found = ridge.attention(*(x.astype(dtype) for x in (q, k, v)), causal=causal, lengths=lengths)
                for b, n in enumerate(lengths):
                    scores = q[b].astype(np.float64) @ np.swapaxes(k[b, :, :n], -1, -2) / math.sqrt(8)
                    if causal:  # the rows are the last of their sequence: of 4 the last alone sees a sequence of 1
                        scores[:, np.arange(n) > np.arange(rows)[:, None] + n - rows] = -np.inf
                    first = max(0, rows - n) if causal else 0
                    close(found[b, :, first:], softmax(scores[:, first:]) @ v[b, :, :n], bound)
                    self.assertTrue((found[b, :, :first] == 0).all())
        with self.assertRaises(ridge.Error) as raised:
            ridge.attention(q[0, 0], k[0, 0], v[0, 0], lengths=lengths)
        self.assertEqual(str(raised.exception), "expected a length for each of some leading axes of q, which has 0, found "
                         "lengths of 1 axes")


if __name__ == "__main__":
    unittest.main()
