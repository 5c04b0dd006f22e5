"""Traces of PyTorch models: what is copied, counted, grouped and refused."""
import functools
import json
import pickle
import threading
import unittest
import warnings
import xml.dom.minidom

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed: the tests of ridge.torch are skipped") from None

import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import ridge
import ridge.torch

explain = ridge.torch.explain


class Block(torch.nn.Module):
    """Causal attention and a feed-forward layer; the input is a keyword, as in transformers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.self_attn, self.mlp = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.self_attn(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.mlp(seen.transpose(1, 2).reshape(x.shape))


class Model(torch.nn.Module):
    def __init__(self, width=64, heads=4, layers=3, vocabulary=100):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x=x)
        return self.head(x)


IDS = torch.zeros(2, 16, dtype=torch.int64)
PAIRS = 16 * 17 // 2
FORWARD = 2 * 32 * 64 * 100 + 3 * (2 * 32 * 64 * 4 * 64 + 2 * 2 * 4 * PAIRS * (16 + 16))  # Products; scores are 4 heads of 16


def products(report):
    return sum(op.flops for op in report.ops if op.on_matrix)


class Counting(unittest.TestCase):
    def test_attention_is_one_operation_on_meta_too(self):
        with torch.device("meta"):
            remote = Model().to(torch.bfloat16)
        local = Model().to(torch.bfloat16)
        found = [explain(model, ids, on="h200") for model, ids in
                 ((local, IDS), (remote, IDS), (remote, IDS.to("meta")))]
        for report in found:
            self.assertEqual(products(report), FORWARD)
            self.assertEqual([op.name for op in report.ops], [op.name for op in found[0].ops])
            self.assertEqual(report.bytes, found[0].bytes)
            self.assertIn("operations as PyTorch calls them on cpu", str(report))
        with torch.device("meta"):  # An example that is made and traced inside
            self.assertEqual(products(explain(Model(), torch.zeros(2, 16, dtype=torch.int64), on="h200")), FORWARD)

    def test_attention_that_torch_decomposes_is_one_operation(self):
        q = torch.randn(1, 2, 8, 4)
        mask = torch.zeros(8, 8, requires_grad=True)
        for call in (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.1),
                     lambda q: F.scaled_dot_product_attention(q, q, q, mask)):
            self.assertEqual([op.name for op in explain(call, q, on="h200").ops], ["aten.scaled_dot_product_attention"])
        encoder = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        names = [op.name for op in explain(encoder, torch.randn(2, 16, 64), on="h200", training=True).ops]
        self.assertEqual(names.count("aten.scaled_dot_product_attention"), 1)
        self.assertEqual(names.count("aten.scaled_dot_product_attention_backward"), 1)

    def test_attention_that_cannot_run_is_torchs_error(self):
        with self.assertRaises(RuntimeError):
            explain(lambda q, k: F.scaled_dot_product_attention(q, k, k), (torch.randn(1, 2, 8, 4), torch.randn(1, 2, 8, 5)), on="h200")

    def test_dtypes_are_named(self):
        for dtype, name in [(torch.int64, "int64"), (torch.bool, "bool"), (torch.complex64, "complex64"), (torch.uint8, "uint8"),
                            (torch.bfloat16, "bf16"), (torch.float32, "f32"), (torch.int8, "int8")]:
            self.assertEqual(explain(lambda k: k + k, torch.zeros(4, dtype=dtype), on="h200").ops[0].dtype, name)

    def test_a_missing_peak_leaves_the_operation_without_a_time(self):
        report = explain(lambda a: a @ a + 1, torch.zeros(8, 8, dtype=torch.bfloat16), on="t4")
        product, addition = report.ops
        self.assertEqual((product.time_lower, product.limiter, product.flops, product.known), (None, None, 1024, True))
        self.assertGreater(addition.time_lower, 0)
        self.assertEqual(report.untimed, (product,))
        self.assertRegex(str(report), r"aten\.mm .* 256 B +\?  +\?  +0\.0 %")
        self.assertIn("left out of the time: 1 operation; t4 has no matrix peak for bf16 on record", str(report))

    def test_composite_operations_of_inference_mode_are_decomposed(self):
        layer = torch.nn.Linear(8, 4)

        @torch.inference_mode()
        def call(x):
            return layer(x).matmul(layer(x).t())

        report = explain(call, torch.randn(3, 8), on="h200")
        self.assertEqual([op.name for op in report.ops], ["aten.addmm", "aten.addmm", "aten.mm"])

    def test_the_bound_of_a_fused_model_has_the_bytes_of_its_products(self):
        x = torch.randn(64, 64)
        report = explain(lambda x: (x * 2 + 1).relu() @ x, x, on="h200")
        self.assertAlmostEqual(report.time_fused * 4.8e12, 3 * 64 * 64 * 4, places=3)
        self.assertAlmostEqual(report.time_lower * 4.8e12, 9 * 64 * 64 * 4, places=3)
        only_pointwise = explain(lambda x: x * 2 + 1, x, on="h200")
        self.assertAlmostEqual(only_pointwise.time_fused * 4.8e12, 2 * 64 * 64 * 4, places=3)

    def test_launches_have_a_total_of_their_own(self):
        report = explain(Model(), IDS[:1, :1], on="h200")
        self.assertEqual(report.launches, len(report.ops))
        self.assertGreaterEqual(report.time_with_launches, 0.999 * report.launches * report.launch_overhead)
        self.assertRegex(str(report).split("\n")[0], r"^at least .* on h200, limited by launches; .* without; ")
        without = explain(Model(), IDS, on="t4")
        self.assertEqual((without.launch_overhead, without.time_with_launches), (None, None))


class Lazy(torch.nn.Module):
    """Stores what it computes in attributes, lists and dicts, and holds a lock, which cannot be copied."""

    def __init__(self):
        super().__init__()
        self.table, self.losses, self.cache, self.lock = None, [], {}, threading.Lock()
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(8.0)
        self.count += 1
        if self.count.item() < 1:
            raise AssertionError("a number that the model holds has its value")
        self.losses.append(x.sum())
        self.cache["x"] = x
        return self.layer(x) * self.table


@functools.lru_cache
def cached_table(width):
    return torch.arange(float(width))


TABLES = {}


class Cached(torch.nn.Module):
    def forward(self, x):
        return x * cached_table(x.shape[-1])


class Global(torch.nn.Module):
    def forward(self, x):
        TABLES[x.shape[-1]] = torch.arange(8.0)
        return x * TABLES[8]


class Originals(unittest.TestCase):
    def test_cached_functions_return_values_again(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            explain(Cached(), torch.randn(2, 8), on="h200")
        self.assertIs(type(cached_table(8)), torch.Tensor)

    def test_a_global_that_is_left_fake_is_named(self):
        with self.assertWarnsRegex(UserWarning, r"^the traced code stored a fake tensor in test_trace\.TABLES, which the next call"):
            explain(Global(), torch.randn(2, 8), on="h200")
        TABLES.clear()

    def test_hooks_write_to_copies(self):
        model, seen = torch.nn.Linear(8, 8), []
        model.register_forward_hook(lambda module, args, result: seen.append(result))
        explain(model, torch.randn(2, 8), on="h200")
        self.assertEqual(seen, [])

    def test_attributes_lists_and_numbers_are_left_as_they_were(self):
        model, x = Lazy(), torch.randn(2, 8)
        for call in (model, model.forward, lambda x: model(x)):
            explain(call, x, on="h200")
            self.assertEqual((model.table, model.losses, model.cache, model.count.item()), (None, [], {}, 0))
        self.assertIs(type(model(x)), torch.Tensor)

    def test_a_training_step_changes_nothing(self):
        layer, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
        optimizer = torch.optim.AdamW(layer.parameters())

        def step(x):
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()

        before = layer.weight.clone()
        for call in (lambda: explain(step, x, on="h200"), lambda: explain(layer, x, on="h200", training=True, optimizer=optimizer)):
            report = call()
            self.assertEqual(sorted({op.phase for op in report.ops}), ["backward", "forward", "step"])
            self.assertTrue(torch.equal(layer.weight, before))
            self.assertIsNone(layer.weight.grad)
            self.assertEqual(len(optimizer.state), 0)


class Training(unittest.TestCase):
    def test_a_step_has_three_times_the_products_and_five_halves_of_the_attention(self):
        report = ridge.explain(Model(), IDS, on="h200", training=True, optimizer=torch.optim.AdamW)
        attention = 3 * 2 * 2 * 4 * PAIRS * (16 + 16)
        self.assertEqual(products(report), 3 * (FORWARD - attention) + attention * 7 // 2)
        self.assertEqual(report.unknown, ())

    def test_memory_is_that_of_weights_gradients_and_state(self):
        model = Model()
        size = sum(parameter.numel() * 4 for parameter in model.parameters())
        memory = ridge.explain(model, IDS, on="h200", training=True, optimizer=torch.optim.AdamW).memory
        numbers = 4 * len(list(model.parameters()))  # AdamW counts the steps of each parameter
        self.assertEqual((memory.weights, memory.gradients, memory.optimizer), (size, size, 2 * size + numbers))
        self.assertGreater(memory.activations, 0)
        self.assertEqual(memory.peak, memory.weights + memory.gradients + memory.optimizer + memory.activations)

    def test_peak_memory_of_inference_is_counted_exactly(self):
        layer = torch.nn.Linear(64, 256, bias=False)
        memory = explain(torch.nn.Sequential(layer, torch.nn.ReLU()), torch.randn(32, 64), on="h200").memory
        # The input, the layer's result and that of the ReLU are alive together.
        self.assertEqual((memory.weights, memory.activations), (64 * 256 * 4, 4 * (32 * 64 + 2 * 32 * 256)))

    def test_backward_belongs_to_the_modules_of_forward(self):
        report = ridge.explain(Model(), IDS, on="h200", training=True)
        forward = {op.module for op in report.ops if op.on_matrix and op.phase == "forward"}
        backward = [op.module for op in report.ops if op.on_matrix and op.phase == "backward"]
        self.assertEqual(set(backward), forward)
        self.assertEqual(backward.count("layers.1.mlp"), 2)

    def test_checkpointed_layers_are_called_again(self):
        class Checkpointed(Model):
            def forward(self, ids):
                x = self.embed(ids)
                for layer in self.layers:
                    x = checkpoint(layer, x, use_reentrant=False)
                return self.head(x)

        names = [op.name for op in ridge.explain(Checkpointed(), IDS, on="h200", training=True).ops]
        self.assertEqual(names.count("aten.scaled_dot_product_attention"), 2 * 3)
        self.assertEqual(names.count("aten.scaled_dot_product_attention_backward"), 3)

    def test_loss_may_be_given(self):
        layer, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
        names = [op.name for op in explain(layer, x, on="h200", training=True, loss=lambda y: F.cross_entropy(y, y.argmax(-1))).ops]
        self.assertIn("aten.nll_loss_backward", names)


class Refused(unittest.TestCase):
    def refused(self, call, *inputs, **more):
        with self.assertRaises(ridge.Error) as caught:
            explain(call, inputs, on="h200", **more)
        return caught.exception

    def test_what_depends_on_values_names_line_module_and_a_way_out(self):
        class Gate(torch.nn.Module):
            def forward(self, x):
                return x[x > 0]

        error = self.refused(torch.nn.Sequential(torch.nn.Linear(4, 4), Gate()), torch.randn(2, 4))
        self.assertEqual(error.message, "the shape of the result of aten.nonzero depends on values, but explain computes no values; "
                                        "in module '1'")
        self.assertEqual((error.kind, error.source, error.hint), (
            "input", __file__, "replace it by an operation with a fixed shape, such as torch.where, or explain the parts before and "
            "after it"))
        self.assertTrue(str(error).startswith(f"{__file__}:{error.line}: {error.message}\n  return x[x > 0]\n  hint: "))

    def test_values_are_not_read(self):
        x = torch.randn(2, 4)
        for call in (lambda x: x * x.max().item(), lambda x: x if x.sum() > 0 else -x, lambda x: x.tolist()):
            self.assertEqual(self.refused(call, x).message, "item() reads the value of a tensor, but explain computes no values")
        self.assertEqual(self.refused(lambda x: x.numpy(), x).message,
                         "numpy() reads the value of a tensor, but explain computes no values")

    def test_products_of_two_dtypes_are_refused_as_a_call_does(self):
        x, model = torch.randn(2, 4, 8), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(8, 4).bfloat16())
        with self.assertRaises(RuntimeError):
            model(x)
        error = self.refused(model, x)
        self.assertEqual(str(error), "expected operands of aten.addmm to have one dtype, found bf16 and f32; in module '1'\n  hint: "
                                     "convert them, such as x.to(weight.dtype), or call the model under torch.autocast")
        self.assertEqual(error.kind, "input")
        for call, name in [(lambda x: x[0].mv(x[0, 0].bfloat16()), "mv"), (lambda x: torch.addmm(x[0, 0].half(), x[0], x[1].t()), "addmm"),
                           (lambda x: F.conv1d(x, torch.ones(4, 4, 3).bfloat16()), "convolution")]:
            with self.assertRaises(RuntimeError):
                call(torch.randn(2, 4, 4))
            self.assertIn(f"expected operands of aten.{name} to have one dtype", self.refused(call, torch.randn(2, 4, 4)).message)
        with torch.autocast("cpu"):
            self.assertEqual(explain(model, x, on="h200").flops, 2 * 8 * 8 * 4 + 64)

    def test_calls_that_are_none(self):
        layer, x = torch.nn.Linear(8, 4), torch.randn(2, 8)
        for call, said in [
                (lambda: ridge.explain(layer, x, on="h200", B=4),
                 "a model takes inputs, kwargs, on, training, optimizer and loss, found B"),
                (lambda: ridge.explain("ij,jk->ik", x), "expected one program, found 1 more argument: pass sizes by name, such as B=64"),
                (lambda: ridge.explain("ij,jk->ik", training=True),
                 "inputs, kwargs, training, optimizer and loss are those of a model; sizes of a program are keywords such as B=64"),
                (lambda: explain(layer, x, optimizer=torch.optim.SGD), "optimizer and loss need training=True"),
                (lambda: explain(layer, x, training=True, optimizer="adam"),
                 "optimizer: expected a torch.optim.Optimizer, or a function of parameters such as torch.optim.AdamW, found 'adam'"),
                (lambda: ridge.explain(layer, x, training=True, optimizer=lambda parameters: 0.1),
                 "optimizer: expected the function to return a torch.optim.Optimizer, found float"),
                (lambda: ridge.explain(layer, x, training=True, loss=3),
                 "loss: expected a function of the model's result, found 3"),
                (lambda: explain(layer, x, training=True, loss=lambda y: 3),
                 "loss: expected a tensor that requires a gradient"),
                (lambda: explain(layer, x, 3), "kwargs: expected a mapping from names to arguments, found 3"),
                (lambda: explain(layer, x, on=None), "expected one machine, such as 'h200', found None"),
                (lambda: explain(lambda x: x, x, training=True),
                 "training=True needs a torch.nn.Module; a function may call backward() and step() itself"),
                (lambda: explain(torch.jit.script(layer), x),
                 "expected a model of Python code, found a TorchScript module: pass the module that it was made from"),
                (lambda: explain(3, x), "expected a model or a function of tensors, found int"),
                (lambda: explain(layer, x, on=[]), "expected at least one machine, such as 'h200', found an empty list"),
                (lambda: explain(layer.requires_grad_(False), x, training=True),
                 "training=True needs a result that requires a gradient, found none: are all parameters frozen?")]:
            with self.assertRaises(ridge.Error) as caught:
                call()
            self.assertEqual((str(caught.exception), caught.exception.kind), (said, "usage"))


class Reports(unittest.TestCase):
    def setUp(self):
        self.report = ridge.explain(Model(), {"ids": IDS}, on="h200")

    def test_equal_layers_are_one_row(self):
        groups = {group.label: group for group in self.report.modules}
        self.assertEqual({label: group.layers for label, group in groups.items()},
                         {"self_attn": 3, "mlp": 3, "layers": 3, "head": 1, "embed": 1})
        self.assertEqual(sum(len(group.ops) for group in groups.values()), len(self.report.ops))
        self.assertAlmostEqual(sum(group.time_lower for group in groups.values()), self.report.time_lower)
        self.assertRegex(str(self.report), r"\n3 x self_attn +\S+ MFLOP .* \d+\.\d %\n")
        product = next(group for group in self.report.operations if group.label == "layers.*.mlp")
        self.assertEqual((product.layers, len(product.ops), product.flops), (3, 3, 3 * 2 * 32 * 64 * 64))

    def test_different_layers_keep_their_numbers(self):
        report = explain(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)), torch.randn(2, 8), on="h200")
        self.assertEqual({group.label for group in report.modules}, {"0", "1", "2"})

    def test_unknown_operations_are_ranked_by_bytes(self):
        report = explain(lambda x, y: (torch.linalg.inv(x), torch.fft.fft(y)), (torch.randn(8, 8), torch.randn(64, 64)), on="h200")
        self.assertRegex(str(report).split("\n")[-1], r"^unknown: \d operations with .*: aten\._fft_r2c .*, aten\.linalg_inv_ex ")
        self.assertIn("of them counted by bytes only", str(report))

    def test_one_trace_serves_several_machines(self):
        reports = ridge.explain(Model(), IDS, on=["h100", "h200"])
        self.assertEqual([report.machine for report in reports], ["h100", "h200"])
        self.assertEqual(reports["h200"].time_lower, self.report.time_lower)
        self.assertIn("\nmachine ", str(reports))
        self.assertEqual([report["machine"] for report in json.loads(reports.json())], ["h100", "h200"])
        with self.assertRaisesRegex(KeyError, "expected one of h100, h200, found 'b200'"):
            reports["b200"]
        xml.dom.minidom.parseString(reports.svg())
        xml.dom.minidom.parseString(reports._repr_html_())
        self.assertEqual(len(reports.columns()["name"]), 2 * len(self.report.ops))

    def test_becomes_json_pictures_and_tables(self):
        tree = json.loads(self.report.to_json())
        self.assertEqual((tree["machine"], tree["launches"], tree["flops"]), ("h200", len(self.report.ops), self.report.flops))
        self.assertEqual(sum(row["calls"] for row in tree["operations"]), len(self.report.ops))
        self.assertEqual(tree["memory"]["weights"], self.report.memory.weights)
        self.assertEqual(self.report.to_svg(), self.report.svg())
        self.assertEqual(len(xml.dom.minidom.parseString(self.report.svg()).getElementsByTagName("rect")), 5)
        page = xml.dom.minidom.parseString(self.report._repr_html_())
        cells = page.getElementsByTagName("td")
        self.assertTrue(all("white-space: nowrap" in cell.getAttribute("style") for cell in cells))
        self.assertIn("text-align: right", cells[1].getAttribute("style"))

    def test_can_be_pickled(self):
        for report in (self.report, ridge.explain(Model(), IDS, on=["h100", "h200"])):
            self.assertEqual(str(pickle.loads(pickle.dumps(report))), str(report))

    def test_becomes_a_data_frame(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = self.report.to_pandas()
        self.assertEqual(len(frame), len(self.report.ops))
        self.assertEqual(int(frame["flops"].sum()), self.report.flops)

    def test_both_names_are_one_function(self):
        self.assertEqual(str(explain(Model(), IDS, on="h200")), str(ridge.explain(Model(), IDS, on="h200")))


if __name__ == "__main__":
    unittest.main()
