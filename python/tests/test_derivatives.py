"""Derivatives of PyTorch's operators in every mode, against those of torch's own operators in fp64."""
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("torch is not installed: the tests of derivatives are skipped") from None

import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils._pytree import tree_leaves

import ridge
import ridge.torch

OPS = torch.ops.ridge
BOUND = 5e-6


def geglu(x, w, b):
    u, g = F.linear(x, w, b).chunk(2, -1)
    return u * F.gelu(g)


def attention(q, k, v, causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def masked_attention(q, k, v, mask):
    k, v = (each.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for each in (k, v))
    return (q @ k.mT / q.shape[-1] ** 0.5 + mask).softmax(-1) @ v


def cases():
    """Yields a name, ridge's function, torch's and the arguments."""
    torch.manual_seed(0)
    r = torch.randn
    yield "matmul", OPS.matmul, torch.matmul, (r(3, 4), r(4, 2))
    yield "matmul with one matrix", OPS.matmul, torch.matmul, (r(2, 3, 4), r(4, 2))
    yield "matmul with broadcast axes", OPS.matmul, torch.matmul, (r(2, 1, 3, 4), r(3, 4, 2))
    yield "matmul of vectors", OPS.matmul, torch.matmul, (r(4), r(4))
    yield "softmax", OPS.softmax, lambda x: x.softmax(-1), (r(3, 4),)
    yield "softmax along axis 0", lambda x: OPS.softmax(x, 0), lambda x: x.softmax(0), (r(3, 4),)
    yield "rmsnorm", OPS.rmsnorm, lambda x, w: F.rms_norm(x, (4,), w, 1e-5), (r(3, 4), r(4))
    yield "geglu", OPS.geglu, geglu, (r(3, 4), r(6, 4), r(6))
    yield "attention", OPS.attention, attention, (r(2, 3, 4), r(2, 5, 4), r(2, 5, 4))
    yield ("causal attention", lambda q, k, v: OPS.attention(q, k, v, True), lambda q, k, v: attention(q, k, v, True),
           (r(2, 3, 4), r(2, 5, 4), r(2, 5, 3)))
    yield ("attention with a mask and shared heads", lambda *x: ridge.torch.attention(*x, enable_gqa=True), masked_attention,
           (r(2, 4, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), r(3, 5)))


def loss_of(function):
    return lambda *arguments: (function(*arguments) ** 3).sum()


def second_gradient(function, arguments):
    """Returns the gradients of the sum of the squared gradients, by two backward passes."""
    leaves = [each.clone().requires_grad_() for each in arguments]
    first = torch.autograd.grad(function(*leaves), leaves, create_graph=True)
    return torch.autograd.grad(sum(each.square().sum() for each in first), leaves)


def tangent_of_dual(function, arguments, tangents):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(*map(forward_ad.make_dual, arguments, tangents))).tangent


class Derivatives(unittest.TestCase):
    def compare(self, derive):
        """Compares derive(function, arguments) for ridge's function in f32 and torch's in fp64."""
        for name, ours, theirs, arguments in cases():
            with self.subTest(name):
                found = tree_leaves(derive(ours, arguments))
                expected = tree_leaves(derive(theirs, tuple(each.double() for each in arguments)))
                self.assertEqual(len(found), len(expected))
                for a, e in zip(found, expected):
                    self.assertLessEqual((a.double() - e).norm().item(), BOUND * max(e.norm().item(), 1))

    def test_forward_mode(self):
        def tangents(arguments):
            return tuple((torch.arange(each.numel(), dtype=each.dtype).reshape(each.shape) * 0.7).sin() for each in arguments)

        self.compare(lambda f, x: jvp(f, x, tangents(x))[1])
        self.compare(lambda f, x: tangent_of_dual(f, x, tangents(x)))

    def test_tangents_of_some_arguments(self):
        for name, ours, theirs, arguments in cases():
            for i in range(len(arguments)):
                tangent = torch.ones_like(arguments[i])
                found, expected = (
                    jvp(lambda x, f=f, given=given: f(*given[:i], x, *given[i + 1:]), (given[i],), (tangent.to(given[i].dtype),))[1]
                    for f, given in ((ours, arguments), (theirs, tuple(each.double() for each in arguments))))
                with self.subTest(name, argument=i):
                    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)

    def test_gradients_of_torch_func(self):
        self.compare(lambda f, x: grad(loss_of(f), tuple(range(len(x))))(*x))

    def test_jacobians(self):
        for jacobian in (jacrev, jacfwd):
            self.compare(lambda f, x: jacobian(f, tuple(range(len(x))))(*x))

    def test_second_derivatives(self):
        self.compare(lambda f, x: hessian(loss_of(f), tuple(range(len(x))))(*x))
        self.compare(lambda f, x: second_gradient(loss_of(f), x))
        for outer, inner in ((jacrev, jacrev), (jacfwd, jacfwd), (jacrev, jacfwd)):
            self.compare(lambda f, x: outer(inner(loss_of(f), 0), 0)(*x))

    def test_batches(self):
        def batched(arguments):
            return tuple(torch.stack([each, each * 2, each - 1]) for each in arguments)

        self.compare(lambda f, x: vmap(f)(*batched(x)))
        self.compare(lambda f, x: vmap(grad(loss_of(f), tuple(range(len(x)))))(*batched(x)))

    def test_functions_on_arrays_refuse_derivatives(self):
        x = torch.randn(2, 3)
        said = ("'x' requires a gradient, but this function records none\n  hint: pass x.detach(), or use the operators of "
                "ridge.torch, which have gradients")
        for call in (lambda: jvp(ridge.softmax, (x,), (x,)), lambda: grad(lambda x: ridge.softmax(x).sum())(x),
                     lambda: tangent_of_dual(ridge.softmax, (x,), (x,)), lambda: ridge.softmax(x.clone().requires_grad_())):
            with self.assertRaises(ridge.Error) as raised:
                call()
            self.assertEqual(str(raised.exception), said)


class Transformed(unittest.TestCase):
    def layer(self, x, w, b, q):
        y = OPS.rmsnorm(OPS.geglu(x, w, b))
        return OPS.softmax(OPS.matmul(OPS.attention(y, y, y), q))

    def arguments(self, rows=4):
        torch.manual_seed(0)
        return tuple(torch.randn(*shape) for shape in ((2, rows, 8), (16, 8), (16,), (8, 5)))

    def expected(self, x, w, b, q):
        y = F.rms_norm(geglu(x, w, b), (8,), None, 1e-5)
        return torch.matmul(attention(y, y, y), q).softmax(-1)

    def test_exported_programs_compute_the_same(self):
        rows = torch.export.Dim("rows", min=2, max=64)
        model = torch.nn.Module()
        model.forward = self.layer
        for shapes in (None, ({1: rows}, None, None, None)):
            exported = torch.export.export(model, self.arguments(), dynamic_shapes=shapes)
            for count in (4,) if shapes is None else (4, 7):
                given = self.arguments(count)
                exact = self.expected(*(each.double() for each in given))
                torch.testing.assert_close(exported.module()(*given).double(), exact, rtol=1e-5, atol=1e-6)

    def test_compiled_for_any_size(self):
        compiled = torch.compile(self.layer, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows in (4, 7, 12):
            given = [each.requires_grad_() for each in self.arguments(rows)]
            exact = [each.detach().double().requires_grad_() for each in given]
            found, expected = compiled(*given), self.expected(*exact)
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
            for a, e in zip(torch.autograd.grad(found.square().sum(), given), torch.autograd.grad(expected.square().sum(), exact)):
                torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-5)


class Shapes(unittest.TestCase):
    def test_fake_tensors_fail_as_a_call_does(self):
        def shapes():
            yield OPS.matmul, (3, 4), (5, 4)
            yield OPS.matmul, (2, 3, 4), (3, 4, 5)
            yield OPS.geglu, (3, 4), (6, 5)
            yield OPS.geglu, (3, 4), (5, 4)
            yield OPS.rmsnorm, (3, 4), (5,)
            yield OPS.attention, (2, 3, 4), (2, 5, 3), (2, 5, 4)
            yield OPS.attention, (2, 3, 4), (2, 5, 4), (2, 6, 4)
            yield OPS.attention, (4, 3, 4), (2, 5, 4), (2, 5, 4)
            yield lambda x: OPS.softmax(x, 2), (3, 4)

        for operator, *given in shapes():
            said = []
            for device in ("cpu", "meta"):
                with self.assertRaises(ridge.Error) as raised:
                    operator(*(torch.empty(shape, device=device) for shape in given))
                said.append(str(raised.exception))
            self.assertEqual(said[0], said[1])

    def test_fake_results_have_the_shapes_of_a_call(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        for name, ours, _, arguments in cases():
            with FakeTensorMode() as mode:
                found = ours(*(mode.from_tensor(each) for each in arguments))
            with self.subTest(name):
                self.assertEqual((found.shape, found.dtype), (ours(*arguments).shape, torch.float32))


if __name__ == "__main__":
    unittest.main()
