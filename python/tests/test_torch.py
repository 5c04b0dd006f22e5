"""PyTorch's operators against its own, in the same dtype and in fp64; and models on the roof."""
import math
import unittest
import unittest.mock

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed: the tests of ridge.torch are skipped") from None

import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import ridge
import ridge.torch
from ridge.torch import _attention as attentions
from ridge.torch import _operators as operators

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def geglu(x, w, b=None):
    u, g = F.linear(x, w, b).chunk(2, dim=-1)
    return u * F.gelu(g)


def attention(q, k, v, causal=False, scale=None):
    s = (q @ k.transpose(-1, -2)) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(), -math.inf)
    return s.softmax(-1) @ v


def rmsnorm(x, weight=None, eps=1e-5):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def gradients(function, inputs, dtype, device="cpu"):
    """Result and gradients of a weighted sum of it, with everything in that dtype."""
    leaves = [tensor.to(device, dtype).requires_grad_() for tensor in inputs]
    result = function(*leaves)
    torch.manual_seed(1)
    direction = torch.randn(result.shape, dtype=torch.float32).to(torch.bfloat16).to(device, dtype)
    return [result.detach(), *torch.autograd.grad(result, leaves, direction)]


def error(found, expected):
    return (found.double() - expected).norm().item() / max(expected.norm().item(), 1e-30)


def cases():
    torch.manual_seed(0)
    r = torch.randn
    yield "matmul", torch.ops.ridge.matmul, torch.matmul, [r(5, 7), r(7, 3)]
    yield "matmul of turned operands", lambda a, b: torch.ops.ridge.matmul(a.t(), b.t()), lambda a, b: a.t() @ b.t(), [r(7, 5), r(3, 7)]
    yield "matmul in batches", torch.ops.ridge.matmul, torch.matmul, [r(2, 5, 7), r(2, 7, 3)]
    yield "matmul with one matrix", torch.ops.ridge.matmul, torch.matmul, [r(2, 3, 5, 7), r(7, 3)]
    yield "geglu", torch.ops.ridge.geglu, geglu, [r(9, 12), r(10, 12) / 4, r(10)]
    yield "geglu of three axes", torch.ops.ridge.geglu, geglu, [r(2, 33, 16), r(34, 16) / 4]
    yield "attention", torch.ops.ridge.attention, attention, [r(2, 3, 17, 8), r(2, 3, 9, 8), r(2, 3, 9, 5)]
    yield ("causal attention", lambda q, k, v: torch.ops.ridge.attention(q, k, v, True, 0.5),
           lambda q, k, v: attention(q, k, v, True, 0.5), [r(3, 33, 8), r(3, 33, 8), r(3, 33, 8)])
    yield "softmax", torch.ops.ridge.softmax, lambda x: x.softmax(-1), [r(3, 5, 7)]
    yield "softmax along the first axis", lambda x: torch.ops.ridge.softmax(x, 0), lambda x: x.softmax(0), [r(9, 7)]
    yield "rmsnorm", torch.ops.ridge.rmsnorm, rmsnorm, [r(4, 33), r(33)]
    yield ("rmsnorm without a weight", lambda x: torch.ops.ridge.rmsnorm(x, None, 1e-6), lambda x: rmsnorm(x, None, 1e-6),
           [r(2, 3, 16)])


class Operators(unittest.TestCase):
    device, cases = "cpu", staticmethod(cases)

    def test_results_and_gradients_are_as_exact_as_torchs(self):
        for name, ours, theirs, inputs in self.cases():
            inputs = [tensor.to(torch.bfloat16).float() for tensor in inputs]  # the same numbers in every dtype
            exact = gradients(theirs, inputs, torch.float64, self.device)
            for dtype in DTYPES:
                found, reference = (gradients(each, inputs, dtype, self.device) for each in (ours, theirs))
                for part, (a, b, e) in enumerate(zip(found, reference, exact)):
                    with self.subTest(name=name, dtype=dtype, part=part):
                        self.assertEqual(a.shape, b.shape)
                        self.assertEqual(a.dtype, b.dtype)
                        floor = 4 * torch.finfo(dtype).eps / 8
                        self.assertLessEqual(error(a, e), max(2 * error(b, e), floor))

    def test_attention_of_sequences_that_differ_in_length(self):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 3, rows, 8, requires_grad=True) for rows in (4, 9, 9))
        lengths, rows, keys = torch.tensor([5, 9], dtype=torch.int32), torch.arange(4)[:, None], torch.arange(9)
        direction = torch.randn(2, 3, 4, 8)
        for causal in (False, True):
            of_each = lengths[:, None, None, None]
            seen = keys <= rows + of_each - 4 if causal else keys < of_each
            s = (q @ k.transpose(-1, -2)) * 8 ** -0.5
            expected = s.masked_fill(~seen, -math.inf).softmax(-1) @ v
            found = torch.ops.ridge.attention(q, k, v, causal, None, lengths)
            for ours, theirs in zip([found, *torch.autograd.grad(found, (q, k, v), direction)],
                                    [expected, *torch.autograd.grad(expected, (q, k, v), direction)]):
                self.assertLessEqual(error(ours.detach(), theirs.detach().double()), 1e-5)

    def test_opcheck(self):
        def r(*shape):
            return torch.randn(*shape, device=self.device)

        for name, arguments in [("matmul", (r(3, 4), r(4, 5))), ("geglu", (r(3, 8), r(12, 8), r(12))), ("geglu", (r(3, 8), r(12, 8))),
                                ("attention", (r(2, 5, 8), r(2, 7, 8), r(2, 7, 4))), ("softmax", (r(3, 5), 0)),
                                ("rmsnorm", (r(3, 8), r(8))), ("rmsnorm", (r(3, 8),))]:
            operator = getattr(torch.ops.ridge, name).default
            needing = tuple(a.requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments)
            with self.subTest(name=name, arguments=len(arguments)):
                torch.library.opcheck(operator, needing)

    def test_fake_tensors_follow_the_shapes(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode():
            self.assertEqual(torch.ops.ridge.geglu(torch.empty(2, 3, 8), torch.empty(12, 8)).shape, (2, 3, 6))
            self.assertEqual(torch.ops.ridge.matmul(torch.empty(2, 3, 8), torch.empty(8, 5)).shape, (2, 3, 5))

    def test_autocast_chooses_the_dtype(self):
        x, w, b = (torch.randn(*shape, device=self.device).requires_grad_() for shape in ((5, 16), (24, 16), (24,)))
        with torch.autocast(self.device, torch.bfloat16):
            layer = torch.ops.ridge.geglu(x, w, b)
            product = torch.ops.ridge.matmul(x, w.t())
            attention = torch.ops.ridge.attention(x, w, w.half(), scale=0.5)
            self.assertEqual([y.dtype for y in (layer, product, attention)], [torch.bfloat16] * 3)
            self.assertEqual(torch.ops.ridge.softmax(product).dtype, torch.float32)
            self.assertEqual(torch.ops.ridge.rmsnorm(product, torch.ones(24, device=self.device)).dtype, torch.float32)
        found = torch.autograd.grad(layer.float().sum(), (x, w, b))
        expected = torch.autograd.grad(geglu(*(t.bfloat16() for t in (x, w, b))).float().sum(), (x, w, b))
        for a, e in zip(found, expected):
            self.assertEqual(a.dtype, torch.float32)
            torch.testing.assert_close(a, e, rtol=5e-2, atol=5e-2)

    def test_what_wants_no_gradient_has_no_history(self):
        x, w = torch.randn(4, 4, device=self.device), torch.randn(4, 4, device=self.device, requires_grad=True)
        for product in (torch.ops.ridge.matmul, torch.ops.ridge.geglu):
            self.assertFalse(product(x, x).requires_grad)
            self.assertTrue(product(x, w).requires_grad)
            self.assertTrue(product(w * 2, x).requires_grad)
            with torch.no_grad():
                self.assertFalse(product(w, w).requires_grad)

    def test_fake_tensors_of_what_is_kept_for_backward(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        always = {"_has_kernels": lambda *tensors: True}
        with unittest.mock.patch.multiple(operators, **always, _keeps_h=lambda x, w: True), \
                unittest.mock.patch.multiple(attentions, **always), FakeTensorMode():
            x, w, b, q, k = (torch.empty(*shape, requires_grad=True) for shape in ((2, 4, 8), (12, 8), (12,), (2, 5, 8), (2, 7, 8)))
            for result, leaves in [(torch.ops.ridge.geglu(x, w, b), (x, w, b)), (torch.ops.ridge.geglu(x, w), (x, w)),
                                   (torch.ops.ridge.attention(q, k, k), (q, k))]:
                found = torch.autograd.grad(result, leaves, torch.empty_like(result))
                self.assertEqual([each.shape for each in found], [leaf.shape for leaf in leaves])

    def test_a_training_step_learns(self):
        torch.manual_seed(0)
        x, y = torch.randn(64, 16), torch.randn(64, 8)
        w, b, out = (torch.nn.Parameter(torch.randn(*shape) / 4) for shape in ((32, 16), (32,), (16, 8)))
        optimizer = torch.optim.SGD([w, b, out], lr=0.05)
        losses = []
        for _ in range(20):
            loss = (torch.ops.ridge.matmul(torch.ops.ridge.geglu(x, w, b), out) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.8 * losses[0])

    def test_mistakes_are_sentences(self):
        with self.assertRaises(ridge.Error) as raised:
            torch.ops.ridge.matmul(torch.randn(2, 3), torch.randn(4, 5))
        self.assertEqual(str(raised.exception), "expected a[..., m, k] and b[..., k, n], found k = 3 in a and 4 in b: a has "
                         "shape [2, 3], b has shape [4, 5]")
        with self.assertRaisesRegex(ridge.Error, "'a' requires a gradient, but this function records none"):
            ridge.matmul(torch.randn(2, 2, requires_grad=True), torch.randn(2, 2))


class FreeMemory(unittest.TestCase):
    """Of a device that is not here: what its allocator holds, what the driver says, and whether a graph is captured."""
    def free(self, reserved, allocated, of_driver, captured=False):
        stats = {"reserved_bytes": {"all": {"current": reserved}}, "allocated_bytes": {"all": {"current": allocated}}}
        self.asked = unittest.mock.Mock(return_value=(of_driver, 80))
        with unittest.mock.patch.multiple(torch.cuda, memory_stats_as_nested_dict=lambda device: stats, mem_get_info=self.asked,
                                          is_current_stream_capturing=lambda: captured):
            return operators._free_bytes("a device")

    def test_the_driver_is_asked_when_the_allocator_has_changed(self):
        with unittest.mock.patch.dict(operators._FREE, clear=True):
            self.assertEqual(self.free(10, 4, of_driver=70, captured=True), 6)
            self.asked.assert_not_called()
            self.assertEqual(self.free(10, 4, of_driver=70), 76)
            self.asked.assert_called_once()
            self.assertEqual(self.free(10, 9, of_driver=60), 71)
            self.asked.assert_not_called()
            self.assertEqual(self.free(20, 15, of_driver=60, captured=True), 65)
            self.asked.assert_not_called()
            self.assertEqual(self.free(20, 15, of_driver=55), 60)
            self.asked.assert_called_once()


class Arrays(unittest.TestCase):
    def test_tensors_in_tensors_out(self):
        for dtype in DTYPES:
            a, b = torch.randn(5, 7).to(dtype), torch.randn(7, 3).to(dtype)
            found = ridge.matmul(a, b)
            self.assertEqual(found.dtype, dtype)
            torch.testing.assert_close(found, a @ b, rtol=2e-2, atol=2e-2)
        x = torch.randn(3, 4)
        out = torch.empty(3, 4)
        self.assertIs(ridge.softmax(x, out=out), out)
        torch.testing.assert_close(out, x.softmax(-1))


class Trace(unittest.TestCase):
    def model(self):
        return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256),
                                   torch.nn.Linear(256, 8)).to(torch.bfloat16)

    def test_products_are_counted_as_ridge_does(self):
        report = ridge.torch.explain(self.model(), torch.randn(32, 64).to(torch.bfloat16), on="h200")
        products = [op for op in report.ops if op.name == "aten.addmm"]
        self.assertEqual([op.flops for op in products], [2 * 32 * 64 * 256, 2 * 32 * 256 * 8])
        self.assertEqual([op.module for op in products], ["0", "3"])
        self.assertEqual(products[0].bytes, 2 * (32 * 64 + 64 * 256 + 256 + 32 * 256))
        self.assertEqual(products[0].limiter, "memory")
        self.assertAlmostEqual(products[0].time_lower, products[0].bytes / 4.8e12)
        self.assertEqual([op.name for op in report.ops], ["aten.addmm", "aten.gelu", "aten.native_layer_norm", "aten.addmm"])
        self.assertTrue(all(op.known and op.flops for op in report.ops))
        self.assertIn("aten.addmm", str(report))
        self.assertIn("<table>", report._repr_html_())

    def test_unknown_operations_are_listed_with_their_bytes(self):
        report = ridge.torch.explain(lambda x: torch.linalg.inv(x @ x), torch.randn(16, 16), on="h100")
        self.assertTrue(report.unknown)
        for op in report.unknown:
            self.assertIsNone(op.flops)
            self.assertGreater(op.bytes, 0)
            self.assertGreater(op.time_lower, 0)
        self.assertIn("unknown", str(report))

    def test_a_transformer_layer_is_known_whole(self):
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        report = ridge.torch.explain(layer, torch.randn(2, 16, 64), on="h200")
        self.assertEqual([op.name for op in report.unknown], [])
        matrices = ("aten.addmm", "aten.mm", "aten.bmm", "aten.scaled_dot_product_attention")
        products = sum(op.flops for op in report.ops if op.name.startswith(matrices))
        self.assertEqual(products, 2 * 32 * 64 * (3 * 64 + 64 + 2 * 128) + 2 * 2 * 2 * 16 * 16 * 64)

    def test_a_layer_for_inference_is_known_whole(self):
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
        fused = torch.backends.mha.get_fastpath_enabled()
        self.assertEqual(ridge.torch.explain(layer, torch.randn(2, 16, 64), on="h200").unknown, ())
        self.assertEqual(torch.backends.mha.get_fastpath_enabled(), fused)

    def test_operators_of_ridge_are_known(self):
        w, b = torch.randn(8, 4), torch.randn(8)

        def model(x):
            y = torch.ops.ridge.geglu(x, w, b)
            y = torch.ops.ridge.attention(y, y, y)
            return torch.ops.ridge.softmax(torch.ops.ridge.rmsnorm(torch.ops.ridge.matmul(y, y.mT)))

        report = ridge.torch.explain(model, torch.randn(2, 3, 4), on="h200")
        self.assertEqual(report.unknown, ())
        found = {op.name: op.flops for op in report.ops if op.limiter}
        self.assertEqual(found["ridge.geglu"], 2 * 6 * 4 * 8)
        self.assertEqual(found["ridge.attention"], 2 * 2 * 3 * 3 * (4 + 4))
        self.assertEqual(found["ridge.matmul"], 2 * 2 * 3 * 4 * 3)

    def test_what_is_not_known_comes_first(self):
        report = ridge.torch.explain(lambda x: torch.linalg.inv(x) @ x, torch.randn(16, 16), on="h100")
        self.assertFalse(report.slowest(1)[0].known)
        self.assertIn("of them counted by bytes only", str(report))

    def test_embeddings_read_their_rows(self):
        model = torch.nn.Embedding(1000, 64)
        report = ridge.torch.explain(model, torch.zeros(7, dtype=torch.int64), on="h200")
        self.assertEqual(report.ops[0].bytes, 2 * 7 * 64 * 4 + 7 * 8)

    def test_a_model_is_left_as_it_was(self):
        model = torch.nn.BatchNorm1d(4)
        before = model.running_mean.clone()
        ridge.torch.explain(model, torch.randn(8, 4), on="h100")
        self.assertTrue(torch.equal(model.running_mean, before))

    def test_the_slowest_comes_first(self):
        report = ridge.torch.explain(self.model(), torch.randn(8, 64).to(torch.bfloat16), on="h200")
        self.assertEqual(report.slowest(1)[0].name, "aten.addmm")
        self.assertEqual(report.slowest(1)[0].module, "0")


class Derivatives(unittest.TestCase):
    def layers(self):
        w, b = torch.randn(8, 4, requires_grad=True), torch.randn(8, requires_grad=True)
        ops = torch.ops.ridge
        return [lambda x: ops.geglu(x, w, b), lambda x: ops.rmsnorm(x, b[:4]), ops.softmax, lambda x: ops.attention(x, x, x)]

    def test_what_is_saved_is_read_once(self):
        for layer in self.layers():
            x = torch.randn(3, 4, requires_grad=True)
            expected, = torch.autograd.grad(layer(x).square().sum(), x)
            checkpoint(layer, x, use_reentrant=False).square().sum().backward()
            torch.testing.assert_close(x.grad, expected)


class Compiled(unittest.TestCase):
    def test_one_graph(self):
        def layer(x, w, b):
            return torch.ops.ridge.softmax(torch.ops.ridge.geglu(x, w, b) * 2)

        x, w, b = torch.randn(4, 8), torch.randn(12, 8), torch.randn(12)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, w, b), layer(x, w, b))
        leaves = [tensor.clone().requires_grad_() for tensor in (x, w, b)]
        compiled(*leaves).square().sum().backward()
        expected = [tensor.clone().requires_grad_() for tensor in (x, w, b)]
        layer(*expected).square().sum().backward()
        for found, wanted in zip(leaves, expected):
            torch.testing.assert_close(found.grad, wanted.grad)


if __name__ == "__main__":
    unittest.main()
