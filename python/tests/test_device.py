"""Arrays on a CUDA device: what is refused without one, and with one the results, the current stream and graphs."""
import ctypes
import sys
import types
import unittest
import unittest.mock

import ridge

try:
    import torch
    import test_torch
except ImportError:
    torch = None
HAS_DEVICE = torch is not None and torch.cuda.is_available()


class Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
LENT = []  # memory behind capsules, whose readers may be the last to hold it
CUDA, ROCM, NO_SUCH_DEVICE = 2, 10, 99


def array_of(module, device_type, device=NO_SUCH_DEVICE):
    """A 2 x 2 matrix of f32 that says of itself that it lies there; its memory is not read."""
    class ndarray:
        shape, dtype = (2, 2), "float32"

        def __dlpack__(self, stream=None, **_):
            self.stream = stream
            memory, extents = (ctypes.c_float * 4)(), (ctypes.c_int64 * 2)(2, 2)
            managed = Managed(ctypes.addressof(memory), device_type, device, 2, 2, 32, 1, extents)
            LENT.extend([memory, extents, managed])
            return ctypes.pythonapi.PyCapsule_New(ctypes.addressof(managed), b"dltensor", None)

    ndarray.__module__ = module
    return ndarray()


class StandIn(types.ModuleType):
    """What of CuPy is asked while arrays are read."""
    def __init__(self, current):
        super().__init__("cupy")
        stream, runtime = types.SimpleNamespace(ptr=0), types.SimpleNamespace(getDevice=lambda: current)
        self.cuda = types.SimpleNamespace(get_current_stream=lambda: stream, runtime=runtime)


class Refused(unittest.TestCase):
    def refusal(self, *arguments, function=None):
        with self.assertRaises(ridge.Error) as caught:
            (function or ridge.matmul)(*arguments)
        return caught.exception

    def test_devices_and_libraries_that_are_not_known(self):
        error = self.refusal(array_of("jaxlib", CUDA), array_of("jaxlib", CUDA))
        self.assertEqual(str(error), "'a' is on a CUDA device; expected an array of PyTorch or CuPy\n"
                                     "  hint: torch.from_dlpack(x) is a tensor with the same memory")
        error = self.refusal(array_of("jaxlib", ROCM), array_of("jaxlib", ROCM))
        self.assertEqual(str(error), "'a' is on a device (DLPack's type 10); expected a CUDA device or host "
                                     "memory\n  hint: move it to host memory")

    def test_arrays_in_several_places(self):
        if "cupy" in sys.modules:
            self.skipTest("CuPy is loaded: nothing can stand in for it")
        sys.modules["cupy"] = StandIn(current=NO_SUCH_DEVICE)
        try:
            here, there = array_of("cupy", CUDA), memoryview((ctypes.c_float * 2 * 2)())
            error = self.refusal(here, there)
            self.assertEqual(str(error), "'a' is on CUDA device 99 and 'b' is in host memory; expected all "
                                         "arrays on one device\n  hint: move 'b' to the device of 'a'")
            self.assertEqual(here.stream, 1)  # DLPack's number of the default stream
            error = self.refusal(there, here, function=lambda x, y: ridge.run("ab,bc->ac", x, y))
            self.assertIn("expected all arrays on one device", str(error))
            error = self.refusal(here, here, function=lambda x, y: ridge.run("ab,bc->ac", x, y))
            self.assertEqual(error.kind, "absent")  # this build has no CUDA, or no device has that number
        finally:
            del sys.modules["cupy"]


def cases():
    """Those of the operators, and sizes at which the kernels of tensor cores run."""
    yield from test_torch.cases()
    torch.manual_seed(2)
    r, ops = torch.randn, torch.ops.ridge
    yield "matmul of tiles", ops.matmul, torch.matmul, [r(200, 320), r(320, 264)]
    yield "matmul of few rows", ops.matmul, torch.matmul, [r(3, 1024), r(1024, 515)]
    yield "geglu of tiles", ops.geglu, test_torch.geglu, [r(130, 256), r(768, 256) / 16, r(768)]
    yield "attention in one kernel", ops.attention, test_torch.attention, [r(2, 3, 130, 64), r(2, 3, 70, 64), r(2, 3, 70, 64)]
    yield ("causal attention in one kernel", lambda q, k, v: ops.attention(q, k, v, True),
           lambda q, k, v: test_torch.attention(q, k, v, True), [r(4, 257, 128)] * 3)
    yield "softmax of long rows", ops.softmax, lambda x: x.softmax(-1), [r(33, 5000)]
    yield "rmsnorm of long rows", ops.rmsnorm, test_torch.rmsnorm, [r(65, 4096), r(4096)]


def close(found, expected, bound):
    assert found.shape == expected.shape, (found.shape, expected.shape)
    error = (found.double() - expected).norm() / expected.norm().clamp(min=1e-30)
    assert error <= bound, float(error)


if not HAS_DEVICE:
    class OnDevice(unittest.TestCase):
        def test_none_is_here(self):
            self.skipTest("torch is not installed, or sees no CUDA device: arrays on a device are not tested")
else:
    class Operators(test_torch.Operators):
        device, cases = "cuda", staticmethod(cases)

        def test_gated_layers_that_keep_nothing(self):
            layers = staticmethod(lambda: (case for case in cases() if case[0].startswith("geglu")))
            with unittest.mock.patch.object(ridge.torch._operators, "_keeps_h", lambda x, w: False), \
                    unittest.mock.patch.object(Operators, "cases", layers):
                self.test_results_and_gradients_are_as_exact_as_torchs()

    class OnDevice(unittest.TestCase):
        def randn(self, *shape, dtype=torch.float32):
            return torch.randn(*shape, device="cuda").to(dtype)

        def test_odd_shapes_strides_and_alignments(self):
            for dtype, bound in [(torch.float32, 1e-6), (torch.bfloat16, 6e-3), (torch.float16, 1e-3)]:
                for m, n, k in [(1, 1, 1), (3, 5, 7), (64, 64, 64), (33, 65, 17), (128, 1, 31), (300, 200, 129)]:
                    a, b = self.randn(m, k, dtype=dtype), self.randn(k, n, dtype=dtype)
                    flat = self.randn(m * k + 1, dtype=dtype)[1:].view(m, k)
                    for left in (a, a.t().contiguous().t(), self.randn(m, 2 * k, dtype=dtype)[:, ::2], flat):
                        for right in (b, b.t().contiguous().t(), self.randn(k, 1, dtype=dtype).expand(k, n)):
                            expected = left.double() @ right.double()
                            close(ridge.matmul(left, right), expected, bound)
                            close(ridge.run("ab,bc->ac", left, right), expected, bound)
                            close(torch.ops.ridge.matmul(left, right), expected, bound)

        def test_batches_zeros_and_results_of_another_dtype(self):
            a, b = self.randn(2, 3, 4, 5, dtype=torch.float16), self.randn(2, 3, 5, 6, dtype=torch.float16)
            close(ridge.matmul(a, b), a.double() @ b.double(), 1e-3)
            close(ridge.matmul(a, b[0, 0]), a.double() @ b[0, 0].double(), 1e-3)
            found = ridge.matmul(a, b, dtype="f32")
            self.assertEqual(found.dtype, torch.float32)
            close(found, a.double() @ b.double(), 1e-6)
            self.assertTrue((ridge.matmul(self.randn(3, 0), self.randn(0, 4)) == 0).all())
            self.assertEqual(ridge.matmul(self.randn(0, 3), self.randn(3, 4)).shape, (0, 4))

        def test_writes_where_it_is_told(self):
            x = self.randn(3, 5)
            for out in (torch.empty_like(x), torch.empty(16, device="cuda")[1:].view(3, 5)):
                self.assertIs(ridge.softmax(x, out=out), out)
                close(out, x.double().softmax(-1), 1e-6)
                self.assertIs(ridge.matmul(x, x.t()[:, :1].expand(5, 5), out=out), out)
            for bad, message in [(torch.empty(5, 3, device="cuda").t(), "to be written row-major"), (torch.empty(3, 5), "on one device"),
                                 (torch.empty(3, 4, device="cuda"), r"^expected out to be float32 of shape \[3, 5\], found float32 of shape \[3, 4\]$"), (x, "shares memory")]:
                with self.assertRaisesRegex(ridge.Error, message):
                    ridge.softmax(x, out=bad)

        def test_parts_of_an_input_that_begin_off_the_words(self):
            x, w = self.randn(9, 13, dtype=torch.bfloat16), self.randn(14, 13, dtype=torch.bfloat16) / 4
            close(ridge.geglu(x, w), test_torch.geglu(x.double(), w.double()), 8e-3)

        def test_products_of_integers_are_exact(self):
            a, b = (torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda") for shape in ((33, 700), (700, 45)))
            found = ridge.matmul(a, b)
            self.assertEqual(found.dtype, torch.int32)
            self.assertTrue(torch.equal(found.cpu(), a.cpu().int() @ b.cpu().int()))

        def test_mistakes_are_sentences(self):
            x = self.randn(4, 4)
            with self.assertRaisesRegex(ridge.Error, "'a' is on CUDA device 0 and 'b' is in host memory"):
                ridge.matmul(x, x.cpu())
            with self.assertRaisesRegex(ridge.Error, "found int8"):
                ridge.matmul(x.to(torch.int8), x.to(torch.int8), dtype="int8")
            with self.assertRaisesRegex(ridge.Error, r"^expected 'a' to be float32, bfloat16 or float16, found float64: pass a\.float\(\)$"):
                ridge.matmul(x.double(), x.double())
            with self.assertRaisesRegex(Exception, "on one CUDA device|on one device|device"):
                torch.ops.ridge.matmul(x, x.cpu())

        def test_gathers_zeros_for_indices_out_of_range(self):
            t, i = self.randn(5, 7), torch.tensor([4, 0, 5, -1], dtype=torch.int32, device="cuda")
            found = ridge.run("t[V, D]\ni: int32[N]\ny[N, D] = gather(t, i over V)", t=t, i=i)
            expected = torch.cat([t[4:], t[:1], torch.zeros(2, 7, device="cuda")])
            self.assertTrue(torch.equal(found, expected))

        def test_joins_the_current_stream(self):
            side, a = torch.cuda.Stream(), self.randn(64, 64)
            x, expected = torch.zeros_like(a), a.double() @ a.double()
            for function in (ridge.matmul, torch.ops.ridge.matmul, lambda p, q: ridge.run("ab,bc->ac", p, q)):
                function(x, a)
                x.zero_()
                torch.cuda.synchronize()
                with torch.cuda.stream(side):
                    torch.cuda._sleep(200_000_000)  # about 100 ms: who does not wait for it reads zeros
                    x.copy_(a)
                    found = function(x, a)
                    self.assertFalse(side.query())  # nor was it waited for on the host
                side.synchronize()
                close(found, expected, 1e-6)

        def test_graphs_capture_and_replay(self):
            layers = {"matmul": lambda x, w: torch.ops.ridge.matmul(x, w.t()), "array": lambda x, w: ridge.matmul(x, w.t()),
                      "geglu": torch.ops.ridge.geglu, "softmax": lambda x, w: torch.ops.ridge.softmax(x),
                      "attention": lambda x, w: torch.ops.ridge.attention(x, w, w, True),
                      "rmsnorm": lambda x, w: torch.ops.ridge.rmsnorm(x, w[0])}
            for name, layer in layers.items():
                with self.subTest(name=name):
                    x, w = self.randn(72, 64, dtype=torch.bfloat16), self.randn(96, 64, dtype=torch.bfloat16)
                    layer(x, w)
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        found = layer(x, w)
                    for _ in range(2):
                        x.copy_(self.randn(72, 64))
                        graph.replay()
                        self.assertTrue(torch.equal(found, layer(x, w)))

        def test_a_training_step_is_captured(self):
            x, w, b = (self.randn(*shape, dtype=torch.bfloat16).requires_grad_() for shape in ((48, 64), (96, 64), (96,)))
            step = lambda: torch.autograd.grad(torch.ops.ridge.geglu(x, w, b).float().square().sum(), (x, w, b))
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                step()
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                found = step()
            with torch.no_grad():
                x.copy_(self.randn(48, 64))
            graph.replay()
            for a, b_ in zip(found, step()):
                close(a, b_.double(), 1e-2)

        def test_backward_runs_twice(self):
            x, w = (self.randn(*shape, dtype=torch.bfloat16).requires_grad_() for shape in ((48, 64), (96, 64)))
            q = self.randn(2, 130, 64, dtype=torch.bfloat16).requires_grad_()
            for result, leaves in [(torch.ops.ridge.geglu(x, w), (x, w)), (torch.ops.ridge.attention(q, q, q, True), (q,))]:
                first, second = (torch.autograd.grad(result.float().square().sum(), leaves, retain_graph=True) for _ in range(2))
                for a, b in zip(first, second):
                    close(a, b.double(), 1e-3)  # attention's sums of dq come in any order

        def test_one_graph_of_torch_compile(self):
            layer = lambda x, w: torch.ops.ridge.softmax(torch.ops.ridge.geglu(x, w) * 2)
            x, w = self.randn(16, 64), self.randn(96, 64)
            compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(compiled(x, w), layer(x, w))

        def test_arrays_of_cupy(self):
            try:
                import cupy
            except ImportError:
                self.skipTest("CuPy is not installed")
            x, w = cupy.random.standard_normal((33, 65), cupy.float32), cupy.random.standard_normal((65, 17), cupy.float32)
            for dtype, bound in [(cupy.float32, 1e-6), (cupy.float16, 1e-3)]:
                a, b = x.astype(dtype), w.astype(dtype)
                expected = a.astype(cupy.float64) @ b.astype(cupy.float64)
                cupy.cuda.Device().synchronize()  # what follows is another stream's
                with cupy.cuda.Stream(non_blocking=True) as stream:
                    for found in (ridge.matmul(a, b), ridge.run("ab,bc->ac", a, b), ridge.matmul(a, cupy.asfortranarray(b)),
                                  ridge.matmul(a[::-1], b)[::-1]):
                        self.assertIsInstance(found, cupy.ndarray)
                        self.assertEqual(found.dtype, dtype)
                        error = float(cupy.linalg.norm(found - expected) / cupy.linalg.norm(expected))
                        self.assertLessEqual(error, bound)
                    stream.synchronize()
            found = ridge.softmax(x)
            self.assertLess(float(abs(found.sum(1) - 1).max()), 1e-5)
            with self.assertRaisesRegex(ridge.Error, "'a' is an array of CuPy and 'b' of PyTorch"):
                ridge.matmul(x, torch.from_dlpack(w))


if __name__ == "__main__":
    unittest.main()
