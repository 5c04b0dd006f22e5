"""Functions of JAX on the roof: FLOPs against formulas and against XLA's own counts, bytes against literal sums."""
import functools
import unittest

try:
    import jax
except ImportError:
    raise unittest.SkipTest("jax is not installed: the tests of ridge.jax are skipped") from None

import jax.numpy as jnp

import ridge
import ridge.jax

ON = "h200"
explain = functools.partial(ridge.jax.explain, on=ON)


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def count_by_xla(function, *args):
    return jax.jit(function).lower(*args).compile().cost_analysis()["flops"]


def matrix_flops(report):
    return sum(op.flops * op.calls for op in report.ops if op.on_matrix)


def mlp(x, w1, b1, w2, b2):
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


B, T, D, H = 2, 16, 32, 4


def norm(x):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered ** 2).mean(-1, keepdims=True) + 1e-5)


def block(p, x):
    """A transformer block, of B sequences of T tokens, width D and H heads."""
    with jax.named_scope("attention"):
        h = norm(x)
        q, k, v = (jnp.einsum("btd,dhe->bhte", h, p[name]) for name in "qkv")
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), q @ k.swapaxes(2, 3) / 3.0, -jnp.inf)
        x = x + jnp.einsum("bhte,hed->btd", jax.nn.softmax(s, -1) @ v, p["o"])
    with jax.named_scope("mlp"):
        return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


PARAMETERS = {**{name: f32(D, H, D // H) for name in "qkv"}, "o": f32(H, D // H, D), "up": f32(D, 4 * D), "down": f32(4 * D, D)}
BLOCK_FLOPS = 2 * B * T * (4 * D * D + 8 * D * D) + 2 * 2 * B * H * T * T * (D // H)


def stacked(layers):
    return jax.tree.map(lambda each: f32(layers, *each.shape), PARAMETERS)


def model(parameters, x):
    return jax.lax.scan(lambda x, p: (block(p, x), None), x, parameters)[0]


class Flops(unittest.TestCase):
    def test_mlp(self):
        args = f32(32, 64), f32(64, 256), f32(256), f32(256, 64), f32(64)
        report = explain(mlp, *args)
        # The product and the sum of the biases, and eight pointwise operations of gelu
        self.assertEqual(report.flops, 2 * 2 * 32 * 64 * 256 + 32 * 256 + 32 * 64 + 8 * 32 * 256)
        self.assertEqual(report.flops, count_by_xla(mlp, *args))
        self.assertEqual(report.unknown, ())

    def test_gradients_of_an_mlp(self):
        args = f32(32, 64), f32(64, 256), f32(256), f32(256, 64), f32(64)
        one = 2 * 32 * 64 * 256
        gradient = jax.grad(lambda *each: (mlp(*each) ** 2).sum(), (1, 2, 3, 4))
        self.assertEqual(matrix_flops(explain(gradient, *args)), 5 * one)
        # A sum does not need the result of the second product
        gradient = jax.grad(lambda *each: mlp(*each).sum(), (0, 1, 2, 3, 4))
        self.assertEqual(matrix_flops(explain(gradient, *args)), 5 * one)

    def test_transformer_block(self):
        report = explain(block, PARAMETERS, f32(B, T, D))
        self.assertEqual(matrix_flops(report), BLOCK_FLOPS)
        self.assertAlmostEqual(report.flops / count_by_xla(block, PARAMETERS, f32(B, T, D)), 1, delta=0.01)
        self.assertEqual({op.module.partition(".")[0] for op in report.ops}, {"attention", "mlp"})
        self.assertEqual(report.unknown, ())

    def test_scan_multiplies_by_its_length(self):
        one = explain(block, PARAMETERS, f32(B, T, D))
        report = explain(model, stacked(6), f32(B, T, D))
        self.assertEqual((report.flops, report.bytes, report.launches), (6 * one.flops, 6 * one.bytes, 6 * one.launches))
        self.assertAlmostEqual(report.time_lower, 6 * one.time_lower)

    def test_training_step(self):
        def step(remat, parameters, x):
            def loss(parameters):
                layer = jax.checkpoint(block) if remat else block
                return (jax.lax.scan(lambda x, p: (layer(p, x), None), x, parameters)[0] ** 2).mean()
            value, gradients = jax.value_and_grad(loss)(parameters)
            return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

        down = 2 * B * T * D * 4 * D
        report = explain(functools.partial(step, False), stacked(3), f32(B, T, D))
        self.assertEqual(matrix_flops(report), 3 * 3 * BLOCK_FLOPS)
        # Without the last product, whose result the gradients do not need
        recomputed = explain(functools.partial(step, True), stacked(3), f32(B, T, D))
        self.assertEqual(matrix_flops(recomputed), 3 * (4 * BLOCK_FLOPS - down))
        weights = 3 * sum(each.size for each in PARAMETERS.values())
        updates = [op for op in report.ops if op.name == "sub" and op.module == "" and op.calls == 1]
        self.assertEqual(sum(op.flops for op in updates), weights)
        self.assertEqual({op.phase for op in report.ops}, {"forward", "backward"})

    def test_recurrent_network(self):
        def rnn(w, u, xs, h):
            return jax.lax.scan(lambda h, x: (jnp.tanh(x @ w + h @ u),) * 2, h, xs)

        report = explain(rnn, f32(8, 16), f32(16, 16), f32(100, 4, 8), f32(4, 16))
        self.assertEqual(report.flops, 100 * (2 * 4 * 8 * 16 + 2 * 4 * 16 * 16 + 2 * 4 * 16))

    def test_convolutions_are_those_of_xla(self):
        for x, k, stride, padding, spread, dilation, groups in (
                ((2, 6, 9, 11), (8, 6, 3, 3), (1, 1), "SAME", (1, 1), (1, 1), 1),
                ((2, 6, 9, 11), (8, 6, 3, 5), (2, 3), "SAME", (1, 1), (1, 1), 1),
                ((2, 6, 9, 11), (8, 6, 3, 5), (1, 1), ((2, 1), (3, 0)), (2, 3), (1, 2), 1),
                ((2, 6, 9, 11), (8, 6, 3, 5), (1, 1), ((-1, 1), (3, -2)), (1, 1), (1, 1), 1),
                ((2, 6, 9, 11), (6, 1, 3, 3), (2, 1), "VALID", (1, 1), (2, 1), 6)):
            def convolve(x, k):
                return jax.lax.conv_general_dilated(x, k, stride, padding, spread, dilation, feature_group_count=groups)

            report = explain(convolve, f32(*x), f32(*k))
            self.assertEqual(report.flops, count_by_xla(convolve, f32(*x), f32(*k)))
            # The gradients have as many multiply-adds as the result, each
            gradient = explain(jax.grad(lambda x, k: convolve(x, k).sum(), (0, 1)), f32(*x), f32(*k))
            self.assertEqual(matrix_flops(gradient), 2 * report.flops)

    def test_convolution_in_full_is_the_closed_form(self):
        def net(x, k1, k2, w):
            x = jax.nn.relu(jax.lax.conv(x, k1, (1, 1), "VALID"))
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            x = jax.nn.relu(jax.lax.conv(x, k2, (1, 1), "VALID"))
            return x.mean((2, 3)) @ w

        report = explain(net, f32(2, 3, 18, 18), f32(8, 3, 3, 3), f32(16, 8, 3, 3), f32(16, 10))
        products = 2 * 2 * 8 * 16 * 16 * 27 + 2 * 2 * 16 * 6 * 6 * 72 + 2 * 2 * 16 * 10
        self.assertEqual(matrix_flops(report), products)
        others = 2 * 8 * 16 * 16 * 2 + 2 * 16 * 6 * 6 * 2 + 2 * 16  # relu and window, relu and sum, division
        self.assertEqual(report.flops, products + others)
        self.assertEqual(report.unknown, ())

    def test_operators_of_ridge(self):
        j, bf16 = ridge.jax, functools.partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
        q = bf16((2, 3, 8, 16))
        self.assertEqual(explain(j.matmul, f32(5, 7), f32(7, 3)).flops, 2 * 5 * 7 * 3)
        self.assertEqual(explain(j.geglu, f32(5, 7), f32(12, 7)).flops, 2 * 5 * 7 * 12)
        self.assertEqual(explain(j.attention, q, q, q).flops, 2 * 2 * 6 * 8 * 8 * 16)
        causal = functools.partial(j.attention, causal=True)
        self.assertEqual(explain(causal, q, q, q).flops, 2 * 2 * 6 * 36 * 16)
        gradient = explain(jax.value_and_grad(lambda *each: causal(*each).astype(jnp.float32).sum(), (0, 1, 2)), q, q, q)
        self.assertEqual(matrix_flops(gradient), 7 * 2 * 6 * 36 * 16)
        self.assertEqual(explain(j.softmax, f32(5, 7)).flops,
                         ridge.explain("x: f32[N, D]\ny: f32[N, D] = softmax(x over D)", on=ON, N=5, D=7).total.flops)
        tangent = explain(lambda *each: jax.jvp(causal, each, each), q, q, q)
        self.assertEqual(tangent.unknown, ())

    def test_known_operations(self):
        def many(x, i, key):
            y = jnp.sort(x), jax.lax.top_k(x, 2), jnp.cumsum(x), x.at[i].add(2.0), x[i], jnp.argmax(x), x.at[i].set(1.0)
            z = jax.lax.dynamic_slice(x, (i[0],), (3,)), jax.lax.dynamic_update_slice(x, x[:2], (i[0],)), jnp.flip(x), jnp.pad(x, 2)
            noise = jax.random.normal(key, (5,)), jax.random.bernoulli(key, 0.5, (5,)), jax.random.permutation(key, 5)
            return y, z, noise, jnp.concatenate([x, x]), jax.nn.logsumexp(x), jnp.where(x > 0, x, 0), x.astype(jnp.bfloat16)

        report = explain(many, f32(100), jax.ShapeDtypeStruct((3,), jnp.int32), jax.random.key(0))
        self.assertEqual(report.unknown, ())

        def moved(function, *args):
            [op] = [op for op in explain(function, *args).ops if op.name not in ("lt", "add", "select_n")]
            return op.bytes

        i = jax.ShapeDtypeStruct((3,), jnp.int32)
        self.assertEqual(moved(lambda x, i: x[i], f32(100, 8), i), 2 * 3 * 8 * 4 + 3 * 4)
        self.assertEqual(moved(lambda x, i, u: x.at[i].set(u), f32(100, 8), i, f32(3, 8)), 2 * 3 * 8 * 4 + 3 * 4)
        self.assertEqual(moved(lambda x, i, u: x.at[i].add(u), f32(100, 8), i, f32(3, 8)), 3 * 3 * 8 * 4 + 3 * 4)
        self.assertEqual(moved(lambda x: x * x, f32(100)), 2 * 400)
        self.assertEqual(moved(lambda x, y: x * y[:, None], f32(100, 8), f32(100)), 2 * 3200 + 400)

    def test_views_cost_nothing(self):
        self.assertEqual(explain(lambda x: jnp.broadcast_to(x.T.reshape(-1)[:5], (3, 5)), f32(4, 8)).ops, ())


class Fusion(unittest.TestCase):
    def test_a_chain_reads_and_writes_once(self):
        report = explain(lambda x: jnp.tanh(x * 2 + 1) * x, f32(1000))
        self.assertEqual([op.bytes for op in report.ops], [8000, 8000, 8000, 12000])
        self.assertEqual(sum(op.fused_bytes for op in report.ops), 8000)
        self.assertEqual(len({op.group for op in report.ops}), 1)

    def test_softmax_reads_and_writes_once(self):
        report = explain(lambda x: jax.nn.softmax(x, -1), f32(64, 1000))
        self.assertEqual(sum(op.fused_bytes for op in report.ops), 2 * 64 * 1000 * 4)

    def test_what_a_product_reads_is_stored(self):
        report = explain(lambda x, w: jnp.tanh(x + 1) @ w, f32(8, 16), f32(16, 4))
        self.assertEqual([(op.name, op.fused_bytes) for op in report.ops],
                         [("add", 512), ("tanh", 512), ("dot_general", 512 + 256 + 128)])

    def test_results_and_operands_of_loops_are_stored(self):
        def looped(x):
            y = x * 2
            return jax.lax.scan(lambda y, _: (y + 1, None), y, length=7)[0], jnp.sin(y)

        report = explain(looped, f32(100))
        self.assertEqual([(op.name, op.calls, op.fused_bytes) for op in report.ops], [("add", 7, 800), ("mul", 1, 800), ("sin", 1, 800)])
        self.assertEqual(len({op.group for op in report.ops}), 3)

    def test_fused_time_is_at_most_the_time_one_by_one(self):
        report = explain(block, PARAMETERS, f32(B, T, D))
        self.assertLess(report.time_fused, report.time_lower)
        self.assertGreater(report.time_fused, sum(op.time_lower for op in report.ops if op.on_matrix))


class Reports(unittest.TestCase):
    def test_nothing_is_computed(self):
        huge = jax.ShapeDtypeStruct((1 << 20, 1 << 20), jnp.bfloat16)
        report = explain(lambda a, b: a @ b, huge, huge)
        self.assertEqual((report.flops, report.ops[0].limiter, report.ops[0].dtype), (2 << 60, "compute", "bf16"))
        peak = ridge.explain(flops=1e15, bytes=1, on=ON, dtype="bf16").total.time.math / 1e15
        self.assertAlmostEqual(report.time_lower, (2 << 60) * peak, delta=1e-6 * report.time_lower)

    def test_text_tables_and_html(self):
        report = explain(model, stacked(6), f32(B, T, D))
        lines = str(report).splitlines()
        self.assertRegex(lines[0], r"^48 operations on h200: at least .* one by one; .*FLOP, .*B$")
        self.assertRegex(lines[1], r"^at least .* as 12 kernels, if XLA fuses each chain of pointwise operations and reductions$")
        self.assertIn("6      dot_general", str(report))
        self.assertIn("<table>", report._repr_html_())
        self.assertEqual(len(report.columns()["time_lower_s"]), len(report.ops))
        self.assertEqual(repr(report), "<ridge.jax.TracedReport of 48 operations on h200>")

    def test_loops_and_conditions_are_said(self):
        looped = explain(lambda x: jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ x, x), f32(4, 4))
        self.assertEqual(looped.notes, ("a while loop, whose number of iterations is unknown, is counted as one iteration",))
        self.assertEqual(matrix_flops(looped), 2 * 4 ** 3)
        chosen = explain(lambda x: jax.lax.cond(x.sum() > 0, lambda x: x, lambda x: x @ x, x), f32(4, 4))
        self.assertEqual(chosen.notes, ("a conditional is counted as its most expensive branch",))
        self.assertEqual(matrix_flops(chosen), 2 * 4 ** 3)
        self.assertIn(chosen.notes[0], str(chosen))

    def test_unknown_operations_are_listed(self):
        report = explain(jnp.fft.fft, jax.ShapeDtypeStruct((8,), jnp.complex64))
        self.assertEqual([(op.name, op.flops, op.bytes, op.limiter) for op in report.unknown], [("fft", None, 128, None)])
        self.assertIn("unknown: 1 operations with 128 B, bounded by their bytes only: fft", str(report))

    def test_errors(self):
        mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
        split = jax.sharding.PartitionSpec("x")
        mapped = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=split, out_specs=split)
        with self.assertRaises(ridge.Error) as raised:
            explain(mapped, f32(4))
        self.assertEqual(str(raised.exception), "expected a function without shard_map, whose shapes are those of one device; explain "
                         "the function that shard_map maps, with the shapes of one device")
        with self.assertRaises(ridge.Error):
            ridge.jax.explain(jnp.sin, f32(4), on="h2000")


if __name__ == "__main__":
    unittest.main()
