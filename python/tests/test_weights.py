"""Weights of GPTQ and AWQ checkpoints, against loops that unpack one element after the other."""
import contextlib
import sys
import types
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed: weights of 4 bits are not tested") from None

import ridge

try:
    import torch
except ImportError:
    torch = None
HAS_DEVICE = torch is not None and torch.cuda.is_available()
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
        if torch is None:
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


def join_planes(planes, dtype, n, k):
    """Returns the matrix [n, k] of the bytes of a device, read one element after the other (src/ridge/base/block_scale.h)."""
    kind, _, block = dtype.partition("_")
    block, scale_bytes = int(block), 4 if kind == "u4" else 2
    out = np.empty(n * k, np.float32)
    for i in range(n * k):
        pair, lane = i % 32 // 8, i % 8 // 2
        place = i // 32 * 32 + lane * 8 + pair + i % 2 * 4
        code = int(planes[place // 2]) >> place % 2 * 4 & 0xF
        at = n * k // 2 + i // block * scale_bytes
        scale = np.float32(planes[at:at + 2].view(np.float16)[0])
        out[i] = scale * (code - int(planes[at + 2]) if kind == "u4" else (code ^ 8) - 8)
    return out.reshape(n, k)


class Device(contextlib.nullcontext):
    """CuPy's device 0."""
    id = 0


class ndarray(np.ndarray):
    """An array that has the type's name and the device of CuPy's, with memory of the host."""
    device = Device()


ndarray.__module__ = "cupy"


class OtherDevices(unittest.TestCase):
    """Weights on a device, with arrays of NumPy in place of CuPy's."""

    def setUp(self):
        if "cupy" in sys.modules:
            self.skipTest("CuPy is loaded: its arrays are not replaced")
        sys.modules["cupy"] = types.SimpleNamespace(asarray=lambda x: x.copy().view(ndarray))
        self.addCleanup(sys.modules.pop, "cupy")
        self.like = np.ones((2, 128), np.float32).view(ndarray)

    def weights(self, group=64, symmetric=False):
        codes, zeros, scales, expected = make_layer(128, 8, group, symmetric)
        return ridge.weights_from_gptq(*gptq_arrays(codes, zeros), scales, group=group), expected

    def test_bytes_are_in_the_order_of_devices(self):
        for group, symmetric, dtype in [(32, False, "u4_32"), (64, True, "int4_64"), (128, False, "u4_128")]:
            weights, expected = self.weights(group, symmetric)
            copied = weights.to_device(self.like)
            self.assertEqual((copied.dtype, copied.shape, copied.device), (dtype, (8, 128), "cuda:0"))
            self.assertIsInstance(copied.data, ndarray)
            self.assertEqual((weights.device, copied.data.shape), ("cpu", weights.data.shape))
            np.testing.assert_array_equal(join_planes(np.asarray(copied.data), dtype, 8, 128), expected)

    def test_weights_that_are_there_are_not_copied(self):
        weights, _ = self.weights()
        self.assertIs(weights.to_device(np.ones(3)), weights)
        copied = weights.to_device(self.like)
        self.assertIs(copied.to_device(self.like), copied)

    def test_operands_in_two_places_are_refused(self):
        weights, _ = self.weights()
        copied, x = weights.to_device(self.like), np.ones((2, 128), np.float32)
        read = "the weights that were read from the file"
        for call, message in [
                (lambda: ridge.matmul(self.like, weights), "expected 'a' and the weights on one device, found 'a' on cuda:0 and "
                 "the weights in host memory: pass weights.to_device(a)"),
                (lambda: ridge.matmul(x, copied), "expected 'a' and the weights on one device, found 'a' in host memory and the "
                 f"weights on cuda:0: pass a on cuda:0, or weights.to_device(a) of {read}"),
                (copied.dequantize, "expected weights in host memory, found weights on cuda:0: call dequantize() of the weights "
                 "that to_device() copied"),
                (lambda: copied.to_device(x), "expected weights in host memory to copy, found weights on cuda:0: call "
                 f"to_device() of {read}")]:
            with self.assertRaises(ridge.Error) as raised:
                call()
            self.assertEqual(str(raised.exception), message)

    def test_bytes_of_another_size_are_refused(self):
        weights, _ = self.weights()
        for data, message in [(weights.data[1:], "expected 576 bytes for weights [8, 128] of u4_64, found 575"),
                              (weights.data[::2], "expected the data of weights as one axis of uint8 without gaps"),
                              (weights.data.view(np.int8), "expected the data of weights as one axis of uint8 without gaps")]:
            wrong = ridge.Weights(weights.dtype, weights.shape, data)
            for call in (lambda w: ridge.matmul(np.ones((2, 128), np.float32), w),
                         lambda w: ridge._ridge.split_weights(w.data, (w.dtype, *w.shape), np.empty(576, np.uint8))):
                with self.assertRaises(ridge.Error) as raised:
                    call(wrong)
                self.assertEqual(raised.exception.message, message)


@unittest.skipUnless(HAS_DEVICE, "torch is not installed, or sees no CUDA device: products on a device are not tested")
class OnDevice(unittest.TestCase):
    def weights(self, k, n, group, symmetric):
        """Returns weights whose scales have a mean of about 1 / sqrt(k), as layers have."""
        codes = RNG.integers(0, 16, (n, k), np.uint8)
        zeros = np.full((k // group, n), 8, np.uint8) if symmetric else RNG.integers(0, 17, (k // group, n), np.uint8)
        scales = ((RNG.random((k // group, n)) + 0.5) / 5 / np.sqrt(k)).astype(np.float16)
        return ridge._weights._make_weights(codes[:, 0::2] | codes[:, 1::2] << 4, zeros, scales, group)

    def check(self, found, x, weights, dtype=None):
        self.assertEqual((found.dtype, found.device), (dtype or x.dtype, x.device))
        self.assertEqual(found.shape, (*x.shape[:-1], weights.shape[0]))
        matrix = torch.from_numpy(weights.dequantize()).to(x.device).double()
        expected, deviation = x.double() @ matrix.T, (x.double().square() @ matrix.T.square()).sqrt()
        # The result is rounded and, for many rows, so are the weights. An f32 result of few rows has only exact weights.
        unit = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-16}[found.dtype]
        error, bound = (found.double() - expected).norm(), unit * (expected.norm() + deviation.norm())
        self.assertLessEqual(float(error), float(bound), (tuple(x.shape), weights.dtype, weights.shape, x.dtype))

    def test_products_have_the_weights_of_the_host(self):
        for k, group, symmetric, dtype in [(512, 128, True, "int4_128"), (1024, 64, False, "u4_64"), (96, 32, False, "u4_32"),
                                           (128, 128, False, "u4_128"), (128, 128, True, "int4_128"), (4096, 4096, True, "int4_128")]:
            for n in (5, 64, 333):
                weights = self.weights(k, n, group, symmetric)
                self.assertEqual(weights.dtype, dtype)
                for kind in (torch.bfloat16, torch.float16):
                    copied = weights.to_device(torch.empty(1, device="cuda"))
                    self.assertEqual((copied.device, copied.data.dtype), ("cuda:0", torch.uint8))
                    for m in (1, 3, 16, 33, 65, 200):
                        with self.subTest(m=m, n=n, k=k, dtype=dtype, kind=kind):
                            x = torch.randn(m, k, device="cuda").to(kind)
                            self.check(ridge.matmul(x, copied), x, weights)

    def test_leading_axes_strides_and_results(self):
        weights = self.weights(256, 24, 64, False)
        x = torch.randn(3, 50, 256, device="cuda").to(torch.bfloat16)
        copied = weights.to_device(x)
        for part in (x, x[:, :1], x[:, :7], x[:1], x[0], x[:, :, None], x[:, :2].transpose(0, 1), x[:1].expand(4, 50, 256),
                     x[0, :256].repeat(6, 1)[:256, :].t(), torch.zeros_like(x)):
            self.check(ridge.matmul(part, copied), part, weights)
        self.check(ridge.matmul(x[0], copied, dtype="f32"), x[0], weights, torch.float32)
        for out in (torch.empty(50, 24, device="cuda", dtype=x.dtype),
                    torch.empty(50 * 24 + 1, device="cuda", dtype=x.dtype)[1:].view(50, 24)):
            self.assertIs(ridge.matmul(x[0], copied, out=out), out)
            self.check(out, x[0], weights)
        self.assertEqual(ridge.matmul(x[:, :0], copied).shape, (3, 0, 24))

    def test_graphs_capture_and_replay(self):
        weights = self.weights(512, 40, 128, True)
        for rows in (4, 100):
            x = torch.randn(rows, 512, device="cuda").to(torch.bfloat16)
            copied = weights.to_device(x)
            ridge.matmul(x, copied)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                found = ridge.matmul(x, copied)
            x.copy_(torch.randn(rows, 512, device="cuda"))
            graph.replay()
            self.check(found, x, weights)

    def test_mistakes_are_sentences(self):
        weights = self.weights(64, 16, 32, False)
        x = torch.randn(4, 64, device="cuda").to(torch.bfloat16)
        copied = weights.to_device(x)
        shifted = torch.empty(copied.data.numel() + 1, device="cuda", dtype=torch.uint8)[1:]
        cut = copied.data[1:]
        for a, data, message in [(x.float(), copied.data, "with bf16 or f16, found f32"), (x[:, :32], copied.data, "found a\\[4, 32\\]"),
                                 (x, shifted, "a multiple of 16 bytes"), (x, cut, "bytes for weights"),
                                 (x, copied.data.cpu(), "on one device"), (x, copied.data.float(), "one axis of uint8"),
                                 (x, copied.data.view(2, -1), "one axis of uint8")]:
            with self.assertRaisesRegex(ridge.Error, message):
                ridge.matmul(a, ridge.Weights(copied.dtype, copied.shape, data, copied.device))
        with self.assertRaisesRegex(ridge.Error, r"pass weights\.to_device\(a\)$"):
            ridge.matmul(x, weights)

    def test_arrays_of_cupy(self):
        try:
            import cupy
        except ImportError:
            self.skipTest("CuPy is not installed")
        weights = self.weights(256, 40, 64, False)
        for rows in (5, 80):
            x = cupy.random.standard_normal((rows, 256), cupy.float32).astype(cupy.float16)
            found = ridge.matmul(x, weights.to_device(x))
            self.assertIsInstance(found, cupy.ndarray)
            expected = x.astype(cupy.float64) @ cupy.asarray(weights.dequantize()).astype(cupy.float64).T
            self.assertLessEqual(float(cupy.linalg.norm(found - expected) / cupy.linalg.norm(expected)), 2.0**-10)


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
