"""Weights of GPTQ and AWQ checkpoints, against loops that unpack one element after the other."""
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed: weights of 4 bits are not tested") from None

import ridge

RNG = np.random.default_rng(0)
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(codes, order):
    """Returns words of eight codes along the last axis; code i of a word is that of column order[i]."""
    rows, columns = codes.shape
    out = np.zeros((rows, columns // 8), np.uint32)
    for row in range(rows):
        for word in range(columns // 8):
            bits = 0
            for i in range(8):
                bits |= int(codes[row, word * 8 + order[i]]) << 4 * i
            out[row, word] = bits
    return out.view(np.int32)


def make_layer(k, n, group, symmetric=False):
    """Returns codes [k, n], zero points and scales [k / group, n], and the matrix [n, k] computed by a loop."""
    codes = RNG.integers(0, 16, (k, n))
    zeros = np.full((k // group, n), 8) if symmetric else RNG.integers(1, 17, (k // group, n))
    scales = (RNG.random((k // group, n)) * 0.1 - 0.01).astype(np.float16)
    expected = np.empty((n, k), np.float32)
    for i in range(n):
        for j in range(k):
            expected[i, j] = np.float32(int(codes[j, i]) - int(zeros[j // group, i])) * np.float32(scales[j // group, i])
    return codes, zeros, scales, expected


def gptq_arrays(codes, zeros, stored_minus=1):
    order = list(range(8))
    return np.ascontiguousarray(pack(codes.T, order).T), pack(zeros - stored_minus, order)


class Converters(unittest.TestCase):
    def test_gptq(self):
        for k, n, group, dtype in [(256, 8, 128, "u4_128"), (128, 16, 64, "u4_64"), (64, 8, 32, "u4_32"),
                                   (256, 8, 256, "u4_128"), (192, 8, 96, "u4_32"), (64, 8, -1, "u4_64")]:
            codes, zeros, scales, expected = make_layer(k, n, k if group == -1 else group)
            qweight, qzeros = gptq_arrays(codes, zeros)
            order = np.arange(k, dtype=np.int32) // (k if group == -1 else group)
            for g_idx in (None, order):
                found = ridge.weights_from_gptq(qweight, qzeros, scales, group=group, g_idx=g_idx)
                self.assertEqual((found.dtype, found.shape), (dtype, (n, k)))
                np.testing.assert_array_equal(found.dequantize(), expected)

    def test_gptq_v2_has_zero_points_as_they_are(self):
        codes, zeros, scales, expected = make_layer(64, 8, 32)
        zeros = np.minimum(zeros, 15)
        qweight, qzeros = gptq_arrays(codes, zeros, stored_minus=0)
        found = ridge.weights_from_gptq(qweight, qzeros, scales, group=32, checkpoint_format="gptq_v2")
        expected = (codes.T - zeros.repeat(32, 0).T).astype(np.float32) * scales.repeat(32, 0).T.astype(np.float32)
        np.testing.assert_array_equal(found.dequantize(), expected)

    def test_awq(self):
        for k, n, group, dtype in [(256, 16, 128, "u4_128"), (128, 8, 64, "u4_64"), (64, 8, 32, "u4_32")]:
            codes, zeros, scales, expected = make_layer(k, n, group)
            zeros = np.minimum(zeros, 15)
            expected = (codes.T - zeros.repeat(group, 0).T).astype(np.float32) * scales.repeat(group, 0).T.astype(np.float32)
            found = ridge.weights_from_awq(pack(codes, AWQ_ORDER), pack(zeros, AWQ_ORDER), scales, group=group)
            self.assertEqual((found.dtype, found.shape), (dtype, (n, k)))
            np.testing.assert_array_equal(found.dequantize(), expected)

    def test_symmetric_weights_have_no_zero_points(self):
        codes, zeros, scales, expected = make_layer(256, 8, 128, symmetric=True)
        for found in (ridge.weights_from_gptq(*gptq_arrays(codes, zeros), scales, group=128),
                      ridge.weights_from_awq(pack(codes, AWQ_ORDER), pack(zeros, AWQ_ORDER), scales, group=128)):
            self.assertEqual((found.dtype, found.data.size), ("int4_128", 8 * 2 * 66))
            np.testing.assert_array_equal(found.dequantize(), expected)

    def test_bytes_of_a_block(self):
        # Codes 0, 1, 2, ... along k; the scale is 0.5 and the zero point 3.
        codes = np.arange(32).reshape(32, 1) % 16 * np.ones((1, 8), int)
        scales = np.full((1, 8), 0.5, np.float16)
        found = ridge.weights_from_gptq(*gptq_arrays(codes, np.full((1, 8), 3)), scales, group=32)
        self.assertEqual(found.data[:20].tolist(), [0x00, 0x38, 3, 0] + [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE] * 2)
        found = ridge.weights_from_gptq(*gptq_arrays(codes, np.full((1, 8), 8)), scales, group=32)
        self.assertEqual(found.data[:10].tolist(), [0x00, 0x38, 0x98, 0xBA, 0xDC, 0xFE, 0x10, 0x32, 0x54, 0x76])

    def test_tensors_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        codes, zeros, scales, expected = make_layer(64, 8, 32)
        given = [torch.from_numpy(x) for x in (*gptq_arrays(codes, zeros), scales)]
        np.testing.assert_array_equal(ridge.weights_from_gptq(*given, group=32).dequantize(), expected)


class Products(unittest.TestCase):
    def test_products_are_exact_but_for_the_result(self):
        for group, symmetric in [(32, False), (64, True), (128, False)]:
            codes, zeros, scales, expected = make_layer(256, 24, group, symmetric)
            weights = ridge.weights_from_gptq(*gptq_arrays(codes, zeros), scales, group=group)
            for shape in [(1, 256), (5, 256), (2, 3, 256), (40, 256)]:
                x = RNG.standard_normal(shape).astype(np.float32)
                found = ridge.matmul(x, weights)
                np.testing.assert_allclose(found, x.astype(np.float64) @ expected.T, atol=2e-5)
                out = np.empty_like(found)
                self.assertIs(ridge.matmul(x, weights, out=out), out)
                np.testing.assert_array_equal(out, found)

    def test_few_rows_of_bf16(self):
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        codes, zeros, scales, expected = make_layer(512, 40, 128)
        weights = ridge.weights_from_gptq(*gptq_arrays(codes, zeros), scales, group=128)
        for rows in (1, 4, 16, 17):
            x = RNG.standard_normal((rows, 512)).astype(bfloat16)
            found = ridge.matmul(x, weights, dtype="f32")
            np.testing.assert_allclose(found, x.astype(np.float64) @ expected.T, atol=5e-5)
            self.assertEqual(ridge.matmul(x, weights).dtype, bfloat16)

    def test_wrong_operands_are_refused(self):
        codes, zeros, scales, _ = make_layer(64, 8, 32)
        weights = ridge.weights_from_gptq(*gptq_arrays(codes, zeros), scales, group=32)
        for x, message in [(np.ones((2, 32), np.float32), "expected a[..., m, 64] for weights [8, 64], found a[2, 32]"),
                           (np.ones((2, 64), np.float16), "expected f32 or bf16 with u4_32, found f16")]:
            with self.assertRaises(ridge.Error) as raised:
                ridge.matmul(x, weights)
            self.assertEqual(str(raised.exception), message)


class Errors(unittest.TestCase):
    def expect(self, message, *arrays, **options):
        with self.assertRaises(ridge.Error) as raised:
            ridge.weights_from_gptq(*arrays, **options)
        self.assertEqual(str(raised.exception), message)

    def test_messages(self):
        qweight, qzeros = np.zeros((32, 16), np.int32), np.zeros((2, 2), np.int32)
        scales = np.ones((2, 16), np.float16)
        self.expect("expected 'qweight' to be a matrix of int32, found int64 [32, 16]", qweight.astype(np.int64), qzeros,
                    scales, group=128)
        self.expect("expected a group of a multiple of 32 elements that divides k = 256, or -1 for all of k, found 48",
                    qweight, qzeros, scales, group=48)
        self.expect("expected a number of elements for group, found '128'", qweight, qzeros, scales, group="128")
        self.expect("expected qzeros [2, 16 / 8] for 2 groups and n = 16, found uint32 [2, 3]", qweight,
                    np.zeros((2, 3), np.uint32), scales, group=128)
        self.expect("expected scales of float16 [2, 16] for 2 groups and n = 16, found float32 [2, 16]", qweight, qzeros,
                    scales.astype(np.float32), group=128)
        self.expect("expected g_idx [256], the group of each element of k, found int64 [3]", qweight, qzeros, scales,
                    group=128, g_idx=np.zeros(3, np.int64))
        order = np.arange(256, dtype=np.int32) // 128
        order[[3, 200]] = 1, 0
        self.expect("g_idx: expected element 3 in group 0, found 1: the checkpoint was made with desc_act, whose groups are "
                    "not contiguous; use one made with desc_act=False", qweight, qzeros, scales, group=128, g_idx=order)
        self.expect("checkpoint_format: expected 'gptq' or 'gptq_v2', found 'awq'", qweight, qzeros, scales, group=128,
                    checkpoint_format="awq")


if __name__ == "__main__":
    unittest.main()
