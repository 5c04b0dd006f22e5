"""Bytes and FLOPs of single operations against literal counts: what a kernel must read and write."""
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed: the tests of ridge.torch are skipped") from None

import torch.nn.functional as F

import ridge
import ridge.torch

N = 64
SQUARE = N * N * 4  # Bytes of an f32 matrix


def r(*shape):
    return torch.randn(*shape)


def rows(*numbers):
    return torch.tensor(numbers)


# name, function, inputs, bytes: each element read once, each element written once.
SNIPPETS = [
    ("x * x", lambda x: x * x, (r(N, N),), 2 * SQUARE),
    ("x + y", lambda x, y: x + y, (r(N, N), r(N, N)), 3 * SQUARE),
    ("x + x.t()", lambda x: x + x.t(), (r(N, N),), 2 * SQUARE),
    ("expand", lambda v: v.expand(N, N) + 1, (r(N),), 4 * N + SQUARE),
    ("expand of every second element", lambda v: v[::2].expand(N, N // 2) + 1, (r(N),), 4 * N // 2 + SQUARE // 2),
    ("broadcast", lambda x, v: x + v, (r(N, N), r(N)), 2 * SQUARE + 4 * N),
    ("scalar", lambda x: x + 1, (r(N, N),), 2 * SQUARE),
    ("comparison", lambda x: x > 0, (r(N, N),), SQUARE + N * N),
    ("zeros_like", torch.zeros_like, (r(N, N),), SQUARE),
    ("full_like", lambda x: torch.full_like(x, 3.0), (r(N, N),), SQUARE),
    ("new_zeros", lambda x: x.new_zeros(N, N), (r(2),), SQUARE),
    ("arange", lambda x: torch.arange(N), (r(2),), 8 * N),
    ("rand_like", torch.rand_like, (r(N, N),), SQUARE),
    ("fill_", lambda x: x.fill_(1.0), (r(N, N),), SQUARE),
    ("zero_", lambda x: x.zero_(), (r(N, N),), SQUARE),
    ("normal_", lambda x: x.normal_(), (r(N, N),), SQUARE),
    ("copy_", lambda x, y: x.copy_(y), (r(N, N), r(N, N)), 2 * SQUARE),
    ("copy_ of a row", lambda x, v: x.copy_(v), (r(N, N), r(N)), SQUARE + 4 * N),
    ("add_", lambda x, y: x.add_(y), (r(N, N), r(N, N)), 3 * SQUARE),
    ("mul_ by itself", lambda x: x.mul_(x), (r(N, N),), 2 * SQUARE),
    ("out=", lambda x, y: torch.add(x, 1, out=y), (r(N, N), r(N, N)), 2 * SQUARE),
    ("to", lambda x: x.to(torch.bfloat16), (r(N, N),), SQUARE + SQUARE // 2),
    ("clone", lambda x: x.clone(), (r(N, N),), 2 * SQUARE),
    ("clone of every second row", lambda x: x[::2].clone(), (r(N, N),), SQUARE),
    ("contiguous", lambda x: x.t().contiguous(), (r(N, N),), 2 * SQUARE),
    ("views", lambda x: x.view(-1)[3:].unsqueeze(0).expand(5, -1), (r(N, N),), 0),
    ("repeat_kv", lambda k: k[:, :, None].expand(2, 4, 3, N, 8).reshape(2, 12, N, 8), (r(2, 4, N, 8),), (1 + 3) * 4 * 2 * 4 * N * 8),
    ("windows of unfold", lambda x: x.unfold(0, 8, 1) + 1, (r(N),), 4 * N + 4 * (N - 7) * 8),
    ("cat", lambda x, y: torch.cat([x, y]), (r(N, N), r(N, N)), 4 * SQUARE),
    ("cat with itself", lambda x: torch.cat([x, x]), (r(N, N),), 3 * SQUARE),
    ("chunks of one tensor", lambda x: x[:, :N] * x[:, N:], (r(N, 2 * N),), 3 * SQUARE),
    ("sum", lambda x: x.sum(), (r(N, N),), SQUARE + 4),
    ("softmax", lambda x: x.softmax(-1), (r(N, N),), 2 * SQUARE),
    ("index_select", lambda x, i: x.index_select(0, i), (r(N, N), rows(1, 2)), 2 * 2 * 4 * N + 16),
    ("gather", lambda x, i: x.gather(1, i), (r(N, N), torch.zeros(N, 1, dtype=torch.int64)), 2 * 4 * N + 8 * N),
    ("index", lambda x, i: x[i], (r(N, N), rows(5, 6, 7)), 2 * 3 * 4 * N + 24),
    ("index of a small table", lambda x, i: x[i], (r(2, N), torch.zeros(N, dtype=torch.int64)), 2 * 4 * N + SQUARE + 8 * N),
    ("embedding", F.embedding, (rows(1, 2), r(N, N)), 2 * 2 * 4 * N + 16),
    ("index_copy_", lambda x, i, y: x.index_copy_(0, i, y), (r(N, N), rows(1), r(1, N)), 2 * 4 * N + 8),
    ("index_add_", lambda x, i, y: x.index_add_(0, i, y), (r(N, N), rows(1), r(1, N)), 3 * 4 * N + 8),
    ("index_add", lambda x, i, y: x.index_add(0, i, y), (r(N, N), rows(1), r(1, N)), 2 * SQUARE + 4 * N + 8),
    ("index_put_", lambda x, i, y: x.index_put_((i,), y), (r(N, N), rows(1, 2), r(2, N)), 2 * 2 * 4 * N + 16),
    ("x[:, i] = y", lambda x, i, y: x.__setitem__((slice(None), i), y), (r(N, N), rows(1), r(N, 1)), 2 * 4 * N + 8),
    ("x[3] = y", lambda x, y: x.__setitem__(3, y), (r(N, N), r(N)), 2 * 4 * N),
    ("scatter_", lambda x, i: x.scatter_(1, i, 1.0), (r(N, N), torch.zeros(N, 1, dtype=torch.int64)), 4 * N + 8 * N),
    ("scatter_add_", lambda x, i, y: x.scatter_add_(1, i, y), (r(N, N), torch.zeros(N, 1, dtype=torch.int64), r(N, N)), 3 * 4 * N + 8 * N),
    ("nll_loss", lambda x, t: F.nll_loss(x, t), (r(N, N), torch.zeros(N, dtype=torch.int64)), 4 * N + 8 * N + 8),
    ("tril", lambda x: x.tril(), (r(N, N),), 4 * N * (N + 1) // 2 + SQUARE),
    ("triu above the diagonal", lambda x: x.triu(1), (r(N, N),), 4 * N * (N - 1) // 2 + SQUARE),
    ("mm", lambda x, y: x @ y, (r(N, N), r(N, N)), 3 * SQUARE),
    ("mm with its transpose", lambda x: x @ x.t(), (r(N, N),), 2 * SQUARE),
    ("conv of 1 x 1 with stride 2", lambda x, w: F.conv2d(x, w, stride=2), (r(1, 4, 16, 16), r(8, 4, 1, 1)),
     4 * (4 * 8 * 8 + 8 * 4 + 8 * 8 * 8)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), (r(1, 4, 16, 16),), 4 * 4 * 256 + (4 + 8) * 4 * 64),
    ("interpolation to a quarter", lambda x: F.interpolate(x, scale_factor=0.5), (r(1, 1, N, N),), 2 * SQUARE // 4),
    ("crop", lambda x: F.pad(x, (-32, 0)), (r(N, N),), SQUARE),
    ("trace", torch.trace, (r(N, N),), 4 * N + 4),
    ("causal attention", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (r(1, 2, N, 8),), 2 * 4 * 2 * N * 8),
    ("grouped attention", lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), (r(1, 4, N, 8), r(1, 2, N, 8)),
     4 * (2 * 4 + 2) * N * 8),
]


class Bytes(unittest.TestCase):
    def test_are_those_of_a_literal_count(self):
        self.assertGreaterEqual(len(SNIPPETS), 40)
        for name, function, inputs, expected in SNIPPETS:
            with self.subTest(name):
                self.assertEqual(ridge.torch.explain(function, inputs, on="h200").bytes, expected)

    def test_of_gradients_of_a_convolution(self):
        def step(x, w):
            F.conv2d(x, w).sum().backward()

        x, w = r(1, 4, 8, 8), r(6, 4, 3, 3).requires_grad_()
        report = ridge.torch.explain(step, (x, w), on="h200")
        backward = next(op for op in report.ops if op.name == "aten.convolution_backward")
        self.assertEqual(backward.bytes, 4 + 4 * (4 * 64 + 6 * 4 * 9))  # The gradient is one number, expanded; x; the result

    def test_of_a_fused_optimizer(self):
        layer = torch.nn.Linear(N, N, bias=False)
        report = ridge.torch.explain(layer, r(2, N), on="h200", training=True,
                                     optimizer=lambda parameters: torch.optim.AdamW(parameters, fused=True))
        fused = next(op for op in report.ops if op.name == "aten._fused_adamw")
        self.assertEqual(fused.bytes, 7 * SQUARE + 4)  # Weight and two moments read and written, gradient and step count read

    def test_of_a_product_of_bytes(self):
        a, b = torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)
        report = ridge.torch.explain(torch._int_mm, (a, b), on="h200")
        self.assertEqual(report.bytes, 32 * 16 + 16 * 8 + 4 * 32 * 8)  # The result is int32


# name, function, inputs, matrix FLOPs.
PRODUCTS = [
    ("grouped_mm of rows", lambda a, w, o: F.grouped_mm(a, w, offs=o), (r(24, 16), r(3, 16, 5), rows(8, 16, 24).int()), 2 * 24 * 16 * 5),
    ("grouped_mm along k", lambda a, b, o: F.grouped_mm(a, b, offs=o), (r(16, 24), r(24, 8), rows(8, 16, 24).int()), 2 * 16 * 24 * 8),
    ("_int_mm", torch._int_mm, (torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)), 2 * 32 * 16 * 8),
    ("mv", torch.mv, (r(8, 16), r(16)), 2 * 8 * 16),
    ("baddbmm", torch.baddbmm, (r(2, 4, 6), r(2, 4, 5), r(2, 5, 6)), 2 * 2 * 4 * 5 * 6),
    ("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (r(2, 3, 9, 8), r(2, 3, 7, 8), r(2, 3, 7, 4)),
     2 * 2 * 3 * 9 * 7 * (8 + 4)),
    ("causal", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (r(2, 3, 9, 8),), 2 * 2 * 3 * 45 * (8 + 8)),
    ("causal, more rows than keys", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), (r(1, 1, 9, 8), r(1, 1, 4, 8)),
     2 * (10 + 5 * 4) * 16),
    ("causal, more keys than rows", lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), (r(1, 1, 4, 8), r(1, 1, 9, 8)),
     2 * 10 * 16),
    ("ridge's causal attention", lambda q: torch.ops.ridge.attention(q, q, q, True), (r(2, 9, 8),), 2 * 2 * 45 * (8 + 8)),
    ("attention with dropout", lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), (r(1, 1, 9, 8),), 2 * 81 * 16),
    ("conv2d", F.conv2d, (r(1, 4, 8, 8), r(6, 4, 3, 3)), 2 * 6 * 6 * 6 * 4 * 9),
    ("conv_transpose2d", F.conv_transpose2d, (r(1, 4, 8, 8), r(4, 6, 2, 2)), 2 * 64 * 4 * 6 * 4),
]
# name, function, inputs, FLOPs of the vector unit by ridge's convention of one for each pointwise function.
VECTOR = [
    ("elu", F.elu, (r(8, 8),), 64), ("log1p", torch.log1p, (r(8, 8),), 64), ("atan2", torch.atan2, (r(8), r(8)), 8),
    ("lerp", lambda x, y: torch.lerp(x, y, 0.5), (r(8), r(8)), 8), ("remainder", lambda x: x % 3, (r(8),), 8),
    ("floor_divide", lambda x: x // 3, (r(8),), 8), ("logsumexp", lambda x: x.logsumexp(-1), (r(8, 8),), 192),
    ("index_add", lambda x, i, y: x.index_add(0, i, y), (r(8, 4), rows(1, 2), r(2, 4)), 8),
    ("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), (r(8), rows(1, 2), r(2)), 2),
    ("scatter_reduce", lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), (r(8), rows(1, 2), r(2)), 2),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), (r(1, 1, 8, 8),), 64), ("avg_pool2d", lambda x: F.avg_pool2d(x, 2), (r(1, 1, 8, 8),), 64),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), (r(1, 2, 8, 8),), 128),
    ("upsample nearest", lambda x: F.interpolate(x, scale_factor=2), (r(1, 1, 4, 4),), 0),
    ("upsample bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (r(1, 1, 4, 4),), 64 * 7),
    ("topk", lambda x: x.topk(3), (r(8, 8),), 0), ("sort", lambda x: x.sort(), (r(8, 8),), 0),
    ("nll_loss", lambda x, t: F.nll_loss(x, t), (r(8, 4), torch.zeros(8, dtype=torch.int64)), 8),
    ("embedding_bag", lambda i, w: F.embedding_bag(i, w, mode="sum"), (torch.zeros(4, 3, dtype=torch.int64), r(9, 5)), None),
    ("group_norm", lambda x: F.group_norm(x, 2), (r(2, 4, 8),), "layernorm(x over D)", 4, 16),
    ("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), (r(6, 4),), "layernorm(x over D)", 4, 6),
]


class Flops(unittest.TestCase):
    def test_of_products_are_those_of_the_formulas(self):
        for name, function, inputs, expected in PRODUCTS:
            with self.subTest(name):
                report = ridge.torch.explain(function, inputs, on="h200")
                self.assertEqual(report.unknown, ())
                self.assertEqual(report.flops, expected)

    def test_of_other_operations_follow_the_conventions(self):
        for name, function, inputs, expected, *of_rows in VECTOR:
            with self.subTest(name):
                report = ridge.torch.explain(function, inputs, on="h200")
                self.assertEqual(report.unknown, ())
                if of_rows:
                    program = f"x: f32[N, D]\ny: f32[N, D] = {expected}"
                    expected = ridge.explain(program, on="h200", N=of_rows[0], D=of_rows[1]).total.flops
                if expected is not None:
                    self.assertEqual(report.flops, expected)

    def test_of_gradients_of_attention_are_five_products(self):
        def step(q):
            F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

        report = ridge.torch.explain(step, r(2, 3, 9, 8).requires_grad_(), on="h200")
        found = {op.name: op.flops for op in report.ops if "attention" in op.name}
        self.assertEqual(found, {"aten.scaled_dot_product_attention": 2 * 6 * 45 * 16,
                                 "aten.scaled_dot_product_attention_backward": 2 * 6 * 45 * 5 * 8})


if __name__ == "__main__":
    unittest.main()
