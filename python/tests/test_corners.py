"""Corners of calls from Python: views that PyTorch negates, empty arrays, lengths, errors of worker processes, pickle, sizes
beyond 64 bits, and PyTorch's names of arguments."""
import copy
import math
import multiprocessing
import pickle
import unittest

import numpy as np

import ridge

try:
    import torch
    import torch.nn.functional as F

    import ridge.torch
except ImportError:
    torch = None

LAYER = "bf16[B, D] * bf16[D, F] -> bf16[B, F]"


def refuse(number):
    """Raises an Error in a worker process."""
    ridge.explain(LAYER, on="h200", B=-number - 1)


def needs_torch(test):
    return unittest.skipIf(torch is None, "torch is not installed")(test)


class Programs(unittest.TestCase):
    def test_chains_take_their_sizes_from_the_arrays(self):
        rng = np.random.default_rng(0)
        a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((2, 30), (30, 3), (3, 20)))
        expected = a.astype(np.float64) @ b @ c
        for found in (ridge.run("ij,jk,kl->il", a, b, c), ridge.run("x[I, J] * y[J, K] * z[K, L] -> o[I, L]", a, b, c)):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    def test_sizes_may_be_numpys(self):
        swept = ridge.sweep("bd,df->bf", on="h200", b=np.arange(1, 3), d=4, f=np.int64(4)).columns()
        self.assertEqual((swept["b"], swept["f"]), ([1, 2], [4, 4]))
        self.assertEqual(ridge.explain("bd,df->bf", on="h200", b=np.int32(2), d=4, f=4).total.flops, 64)

    def test_counts_beyond_64_bits_are_whole(self):
        total = ridge.explain("bd,df->bf", on="h200", b=10**12, d=10**12, f=10**12).total
        self.assertEqual((total.flops, total.bytes), (2 * 10**36, 6 * 10**24))

    def test_the_title_is_the_first_line(self):
        self.assertEqual(ridge.explain("x[N]\ny[N]=x*2\nz[N]=y+1", on="h200", N=4).title, "x[N] and 2 more lines")
        self.assertEqual(ridge.explain("\n x[N]\ny[N]=x*2\n", on="h200", N=4).title, "x[N] and 1 more line")
        self.assertEqual(ridge.explain(LAYER, on="h200").title, LAYER)


class Pickle(unittest.TestCase):
    def test_errors_of_workers_reach_the_caller(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            with self.assertRaises(ridge.Error) as raised:
                pool.map(refuse, [0, 0, 0, 0])
        self.assertEqual(str(raised.exception), "B: expected a size from 1 to 2^63 - 1, found -1")
        with self.assertRaises(ridge.Error) as raised:
            ridge.explain("bf16[B, D] * bf16[E, F] -> bf16[B, F]", on="h200")
        loaded = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((str(loaded), vars(loaded)), (str(raised.exception), vars(raised.exception)))

    def test_reports(self):
        report = ridge.explain(LAYER, on="h200", plan=True, B=4096, D=4096, F=4096)
        large = ridge.explain("x: f32[B, D]\ny: f32[B, D] = softmax(x over D)\nz: f32[B] = sum(y over D)", on="h200",
                              B=10**15, D=10**9)
        for each in (report, large, ridge.explain(LAYER, on="h200"),
                     ridge.measure("f32[M, K] * f32[K, N] -> f32[M, N]", M=4, K=4, N=4, passes=2, threads=1)):
            for loaded in (pickle.loads(pickle.dumps(each)), copy.deepcopy(each), pickle.loads(pickle.dumps(copy.copy(each)))):
                self.assertIsInstance(loaded, ridge.Report)
                for name in ("title", "machine", "dims", "mismatch"):
                    self.assertEqual(getattr(loaded, name), getattr(each, name))
                self.assertEqual((str(loaded), loaded.json(), loaded.svg(), repr(loaded)),
                                 (str(each), each.json(), each.svg(), repr(each)))
                self.assertEqual(loaded._repr_html_(), each._repr_html_())
                for ours, theirs in zip([*loaded.ops, loaded.total], [*each.ops, each.total]):
                    self.compare_ops(ours, theirs)
                self.assertEqual([(k.kernel, k.results, k.expected) for k in loaded.planned],
                                 [(k.kernel, k.results, k.expected) for k in each.planned])
                self.assertEqual(loaded.fused is None, each.fused is None)

    def compare_ops(self, ours, theirs):
        for name in ("name", "text", "flops", "bytes", "intensity", "ridge", "limiter", "missing"):
            self.assertEqual(getattr(ours, name), getattr(theirs, name))
        self.assertEqual([str(each) for each in ours.thresholds], [str(each) for each in theirs.thresholds])
        for part in ("time", "formula", "measured"):
            self.assertEqual(repr(getattr(ours, part)), repr(getattr(theirs, part)))
        self.assertEqual(ours.time.lower, theirs.time.lower)
        op = pickle.loads(pickle.dumps(theirs))
        self.assertEqual((repr(op), repr(op.time), op.formula.bytes), (repr(theirs), repr(theirs.time), theirs.formula.bytes))

    def test_sweeps(self):
        swept = ridge.sweep(LAYER, on=["h100", "h200"], B=[1, 4096], D=10**12, F=4096)
        loaded = pickle.loads(pickle.dumps(swept))
        self.assertEqual((loaded.columns(), len(loaded), str(loaded)), (swept.columns(), 4, str(swept)))
        self.assertEqual((loaded.json(), loaded.csv(), loaded.svg()), (swept.json(), swept.csv(), swept.svg()))

    def test_parts_are_readable(self):
        op = ridge.explain(LAYER, on="h200", B=64, D=4096, F=14336).ops[0]
        self.assertEqual(repr(op.time), "<ridge.Time lower=2.496e-05 s, upper=3.256e-05 s, math=7.597e-06 s, "
                         "memory=2.496e-05 s, network=?>")
        self.assertEqual(repr(op.formula), "<ridge.Formula 2*B*D*F FLOP, 2*B*D + 2*B*F + 2*D*F B>")


class Arrays(unittest.TestCase):
    @needs_torch
    def test_views_that_pytorch_negates(self):
        z = torch.randn(3, 3, dtype=torch.complex64).conj().imag
        self.assertTrue(z.is_neg())
        other = torch.randn(3, 3)
        for found, expected in [(ridge.softmax(z), z.softmax(-1)), (ridge.matmul(z, z), z @ z), (ridge.matmul(other, z), other @ z),
                                (ridge.rmsnorm(z), F.rms_norm(z, (3,), None, 1e-5)), (ridge.attention(z, z, z, scale=1.0),
                                 (z @ z.T).softmax(-1) @ z), (torch.ops.ridge.softmax(z), z.softmax(-1)),
                                (ridge.run("x[N, D]\ny[N] = sum(x over D)", z), z.sum(1))]:
            torch.testing.assert_close(found, expected)

    def test_empty_arrays(self):
        def ones(*shape):
            return np.ones(shape, np.float32)

        for found, expected in [
                (ridge.softmax(ones(0, 5)), ones(0, 5)), (ridge.softmax(ones(5, 0), 0), ones(5, 0)),
                (ridge.rmsnorm(ones(0, 5), ones(5)), ones(0, 5)), (ridge.rmsnorm(ones(3, 0)), ones(3, 0)),
                (ridge.geglu(ones(0, 5), ones(6, 5)), ones(0, 3)), (ridge.matmul(ones(2, 0), ones(0, 3)), 0 * ones(2, 3)),
                (ridge.geglu(ones(2, 0), ones(6, 0), ones(6)), 0.8413447 * ones(2, 3)),
                (ridge.attention(ones(2, 0, 4), ones(2, 5, 4), ones(2, 5, 4)), ones(2, 0, 4)),
                (ridge.attention(ones(2, 3, 4), ones(2, 0, 4), ones(2, 0, 6)), 0 * ones(2, 3, 6)),
                (ridge.attention(ones(3, 0), ones(2, 0), np.array([[1, 2], [3, 6]], np.float32)), np.array([[2, 4]] * 3))]:
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        out = ones(0, 5)
        self.assertIs(ridge.softmax(ones(0, 5), out=out), out)

    @needs_torch
    def test_gradients_of_empty_tensors(self):
        ops = torch.ops.ridge
        for function, *shapes in [(ops.softmax, (0, 5)), (ops.softmax, (5, 0)), (ops.rmsnorm, (0, 5), (5,)), (ops.rmsnorm, (3, 0)),
                                  (ops.geglu, (0, 5), (6, 5), (6,)), (ops.geglu, (2, 0), (6, 0), (6,)), (ops.matmul, (0, 4), (4, 2)),
                                  (ops.attention, (2, 0, 4), (2, 5, 4), (2, 5, 4)), (ops.attention, (2, 3, 4), (2, 0, 4), (2, 0, 4))]:
            leaves = [torch.ones(shape, requires_grad=True) for shape in shapes]
            found = torch.autograd.grad(function(*leaves).sum(), leaves)
            self.assertEqual([each.shape for each in found], [torch.Size(shape) for shape in shapes])
            self.assertFalse(any(each.isnan().any() for each in found))

    @needs_torch
    def test_queries_without_keys_are_zero(self):
        torch.manual_seed(0)
        q, k = torch.randn(2, 3, 4), torch.randn(2, 9, 4)
        for causal in (False, True):
            for lengths in ((0, 9), (1, 2), (9, 3)):
                n = torch.tensor(lengths)
                seen = torch.arange(9) < n[:, None, None]
                if causal:
                    seen = torch.arange(9) <= torch.arange(3)[:, None] + n[:, None, None] - 3
                expected = F.scaled_dot_product_attention(q.double(), k.double(), k.double(), seen)
                for found in (ridge.attention(q, k, k, causal=causal, lengths=n),
                              torch.ops.ridge.attention(q, k, k, causal, None, n.int()),
                              torch.from_numpy(ridge.attention(q.numpy(), k.numpy(), k.numpy(), causal=causal, lengths=n.numpy()))):
                    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
                leaves = [each.clone().requires_grad_() for each in (q, k)]
                exact = [each.double().detach().requires_grad_() for each in leaves]
                result = torch.ops.ridge.attention(leaves[0], leaves[1], leaves[1], causal, None, n)
                reference = F.scaled_dot_product_attention(exact[0], exact[1], exact[1], seen)
                for a, e in zip(torch.autograd.grad(result.square().sum(), leaves),
                                torch.autograd.grad(reference.square().sum(), exact)):
                    torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-5)


@needs_torch
class NamesOfPyTorch(unittest.TestCase):
    def test_softmax_takes_dim(self):
        x = torch.randn(3, 5)
        for softmax in (ridge.softmax, ridge.torch.softmax):
            torch.testing.assert_close(softmax(x, dim=0), x.softmax(0))

    def test_products_broadcast(self):
        torch.manual_seed(0)
        for a, b in [((4, 1, 2, 3), (1, 3, 3, 2)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (3,)), ((5, 2, 3), (3,)),
                     ((3,), (5, 3, 2)), ((2, 5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((4, 1, 2, 3), (3, 0))]:
            x, y = torch.randn(a, requires_grad=True), torch.randn(b, requires_grad=True)
            expected, found = x.double() @ y.double(), torch.ops.ridge.matmul(x, y)
            with self.subTest(a=a, b=b):
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
                with_numpy = ridge.matmul(x.detach().numpy(), y.detach().numpy())
                self.assertEqual(with_numpy.shape, expected.shape)
                out = torch.empty(expected.shape)
                self.assertIs(ridge.matmul(x.detach(), y.detach(), out), out)
                torch.testing.assert_close(out, found.detach())
                for ours, theirs in zip(torch.autograd.grad(found.square().sum(), (x, y)),
                                        torch.autograd.grad(expected.square().sum(), (x, y))):
                    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)

    def test_masks_and_shared_heads(self):
        torch.manual_seed(0)
        q, k, v = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
        masks = [None, torch.rand(3, 5) > 0.4, torch.randn(3, 5), torch.rand(2, 1, 3, 5) > 0.5, torch.rand(2, 4, 3, 5) > 0.3,
                 torch.rand(2, 1, 1, 5) > 0.3, torch.randn(1, 1), torch.full((3, 5), -math.inf)]
        masks[1][1] = False
        for mask in masks:
            expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(),
                                                      mask if mask is None or mask.dtype == torch.bool else mask.double(),
                                                      scale=0.3, enable_gqa=True)
            arrays = [None if each is None else each.numpy() for each in (q, k, v, mask)]
            for found in (ridge.attention(q, k, v, mask, scale=0.3, enable_gqa=True),
                          ridge.torch.attention(q, k, v, mask, scale=0.3, enable_gqa=True),
                          torch.from_numpy(ridge.attention(*arrays, scale=0.3, enable_gqa=True))):
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ridge.attention(q, k, v, is_causal=True, enable_gqa=True),
                                   F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))

    def test_norms_of_mixed_dtypes(self):
        torch.manual_seed(0)
        x, w = torch.randn(3, 8).bfloat16().requires_grad_(), torch.randn(8, requires_grad=True)
        found = torch.ops.ridge.rmsnorm(x, w)
        expected = F.rms_norm(x.double(), (8,), w.double(), 1e-5)
        self.assertEqual(found.dtype, torch.bfloat16)
        torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)
        ours, theirs = (torch.autograd.grad(y.double().square().sum(), (x, w)) for y in (found, expected))
        for a, e, dtype in zip(ours, theirs, (torch.bfloat16, torch.float32)):
            self.assertEqual(a.dtype, dtype)
            torch.testing.assert_close(a.double(), e.double(), rtol=3e-2, atol=3e-2)


if __name__ == "__main__":
    unittest.main()
