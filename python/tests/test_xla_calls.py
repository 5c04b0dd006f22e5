"""The handlers that ridge.jax gives to XLA, called as XLA calls them but without JAX: on a CPU, and on CUDA with PyTorch's memory."""
import ctypes as c
import unittest

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("numpy is not installed: the tests of XLA's calls are skipped") from None

from ridge import _ridge

try:
    import torch
    HAS_CUDA = torch.cuda.is_available()
except ImportError:
    HAS_CUDA = False

# Fields of the interface after the size and the extensions of a structure; src/ridge/python/xla_ffi.h names them.
HEAD = [("struct_size", c.c_size_t), ("extensions", c.c_void_p)]
ELEMENTS = {"float32": 11, "bfloat16": 16, "float16": 10, "int64": 5}


def structure(name, *fields):
    return type(name, (c.Structure,), {"_fields_": HEAD + list(fields)})


Version = structure("Version", ("major", c.c_int), ("minor", c.c_int))
Buffer = structure("Buffer", ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64)))
List = structure("List", ("size", c.c_int64), ("types", c.POINTER(c.c_int)), ("items", c.POINTER(c.c_void_p)))
Attributes = structure("Attributes", ("size", c.c_int64), ("types", c.POINTER(c.c_int)), ("names", c.POINTER(c.c_void_p)),
                       ("values", c.POINTER(c.c_void_p)))
ErrorArgs = structure("ErrorArgs", ("message", c.c_char_p), ("code", c.c_int))
StreamArgs = structure("StreamArgs", ("context", c.c_void_p), ("stream", c.c_void_p))
AllocateArgs = structure("AllocateArgs", ("context", c.c_void_p), ("size", c.c_size_t), ("alignment", c.c_size_t), ("data", c.c_void_p))
FreeArgs = structure("FreeArgs", ("context", c.c_void_p), ("size", c.c_size_t), ("data", c.c_void_p))
DeviceArgs = structure("DeviceArgs", ("context", c.c_void_p), ("device", c.c_int32))
FUNCTIONS = ["create_error", "read_error", "destroy_error", "register", "get_stream", "register_type", "get_context", "set_state",
             "get_state", "allocate", "free", "schedule", "count_threads", "create_future", "set_available", "set_error", "get_run",
             "get_device"]
Api = structure("Api", ("version", Version), ("internal", c.c_void_p), *((name, c.c_void_p) for name in FUNCTIONS))
Frame = structure("Frame", ("api", c.POINTER(Api)), ("context", c.c_void_p), ("stage", c.c_int), ("args", List), ("results", List),
                  ("attributes", Attributes))


class Span(c.Structure):
    _fields_ = [("data", c.c_char_p), ("size", c.c_size_t)]


class Scalar(c.Structure):
    _fields_ = [("dtype", c.c_int), ("value", c.c_void_p)]


class Extension(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("type", c.c_int), ("next", c.c_void_p)]


class Metadata(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("version", Version), ("traits", c.c_uint32), ("state_type", c.c_int64)]


class MetadataQuery(c.Structure):
    _fields_ = [("base", Extension), ("metadata", c.POINTER(Metadata))]


def handler(target, platform):
    [capsule] = [each for name, on, each in _ridge.xla_handlers() if (name, on) == (target, platform)]
    pointer = c.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    return c.CFUNCTYPE(c.c_void_p, c.POINTER(Frame))(pointer(capsule, None))


class Runtime:
    """Stands in for XLA: makes frames of arrays of NumPy or PyTorch, and provides a stream and memory."""

    def __init__(self, minor=3):
        self.kept, self.errors, self.scratch, self.freed = [], [], {}, []
        self.api = Api(c.sizeof(Api), None, Version(c.sizeof(Version), None, 0, minor))
        for name in ("create_error", "get_stream", "allocate", "free", "get_device"):
            function = c.CFUNCTYPE(c.c_void_p, c.c_void_p)(getattr(self, name))
            self.kept.append(function)
            setattr(self.api, name, c.cast(function, c.c_void_p))

    def create_error(self, args):
        self.errors.append(c.cast(args, c.POINTER(ErrorArgs)).contents.message.decode())
        return 1

    def get_stream(self, args):
        c.cast(args, c.POINTER(StreamArgs)).contents.stream = torch.cuda.current_stream().cuda_stream

    def get_device(self, args):
        c.cast(args, c.POINTER(DeviceArgs)).contents.device = torch.cuda.current_device()

    def allocate(self, args):
        args = c.cast(args, c.POINTER(AllocateArgs)).contents
        assert args.alignment <= 16  # XLA refuses more
        memory = torch.empty(args.size, dtype=torch.uint8, device="cuda")
        args.data = memory.data_ptr()
        self.scratch[args.data] = memory

    def free(self, args):
        args = c.cast(args, c.POINTER(FreeArgs)).contents
        self.freed.append((args.data, args.size))

    def keep(self, value):
        self.kept.append(value)
        return c.cast(c.pointer(value), c.c_void_p).value

    def buffers(self, arrays):
        found = []
        for array in arrays:
            on_device = hasattr(array, "data_ptr")
            address = array.data_ptr() if on_device else array.ctypes.data
            dims = (c.c_int64 * len(array.shape))(*array.shape)
            found.append(self.keep(Buffer(c.sizeof(Buffer), None, ELEMENTS[str(array.dtype).rpartition(".")[2]], address,
                                          len(array.shape), dims)))
        return List(c.sizeof(List), None, len(found), (c.c_int * len(found))(*[1] * len(found)), (c.c_void_p * len(found))(*found))

    def attributes(self, given):
        types, names, values = [], [], []
        for name, value in sorted(given.items()):
            names.append(self.keep(Span(name.encode(), len(name))))
            types.append(4 if isinstance(value, str) else 3)
            values.append(self.keep(Span(value.encode(), len(value)) if isinstance(value, str) else
                                    Scalar(5, self.keep(c.c_int64(value)))))
        count = len(types)
        return Attributes(c.sizeof(Attributes), None, count, (c.c_int * count)(*types), (c.c_void_p * count)(*names),
                          (c.c_void_p * count)(*values))

    def call(self, target, platform, given, written, **attributes):
        """Returns the error's message, or None."""
        frame = Frame(c.sizeof(Frame), None, c.pointer(self.api), None, 3, self.buffers(given), self.buffers(written),
                      self.attributes(attributes))
        failed = handler(target, platform)(c.byref(frame))
        return self.errors[-1] if failed else None


SOFTMAX = "x[N, D]\ny[N, D] = softmax(x over D)"


def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class OnCpu(unittest.TestCase):
    def setUp(self):
        self.runtime, self.random = Runtime(), np.random.default_rng(0)

    def normal(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def test_versions(self):
        for target, platform, _ in _ridge.xla_handlers():
            for minor in (1, 3, 4):
                metadata = Metadata(c.sizeof(Metadata))
                query = MetadataQuery(Extension(c.sizeof(Extension), 1, None), c.pointer(metadata))
                runtime = Runtime(minor)
                frame = Frame(c.sizeof(Frame), c.cast(c.pointer(query), c.c_void_p), c.pointer(runtime.api))
                self.assertIsNone(handler(target, platform)(c.byref(frame)))
                self.assertEqual((metadata.version.major, metadata.version.minor, metadata.traits), (0, min(minor, 3), 0))

    def test_products(self):
        for transpose_a in (0, 1):
            for transpose_b in (0, 1):
                a, b, out = self.normal(2, 5, 7), self.normal(7, 3), np.zeros((2, 5, 3), np.float32)
                args = [np.ascontiguousarray(np.swapaxes(x, -1, -2)) if turned else x
                        for x, turned in ((a, transpose_a), (b, transpose_b))]
                self.assertIsNone(self.runtime.call("ridge_matmul", "cpu", args, [out], transpose_a=transpose_a, transpose_b=transpose_b))
                np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)

    def test_programs(self):
        x, y = self.normal(3, 9), np.zeros((3, 9), np.float32)
        self.assertIsNone(self.runtime.call("ridge_run", "cpu", [x], [y], program=SOFTMAX, results=""))
        np.testing.assert_allclose(y, softmax(x), rtol=1e-6)
        text = "x[N, D]\na[N] = sum(x over D)\nb[N] = max(x over D)"
        total, largest = np.zeros(3, np.float32), np.zeros(3, np.float32)
        self.assertIsNone(self.runtime.call("ridge_run", "cpu", [x], [largest, total], program=text, results="b,a"))
        np.testing.assert_allclose(total, x.sum(-1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(largest, x.max(-1))

    def test_errors(self):
        x, y = self.normal(3, 9), np.zeros((3, 9), np.float32)
        for args, results, attributes, message in (
                ([x], [y], {"program": SOFTMAX, "results": "z"}, "unknown result 'z'; expected one of y"),
                ([x, x], [y], {"program": SOFTMAX, "results": ""}, "expected 1 arrays at most, for x; found more"),
                ([x], [y[:2]], {"program": SOFTMAX, "results": ""},
                 "'y' is f32[2, 9]; expected f32[3, 9], for which the program was planned"),
                ([x.astype(np.int64)], [y], {"program": SOFTMAX, "results": ""},
                 "expected arrays of float32, bfloat16, float16, int8 or int32")):
            self.assertEqual(self.runtime.call("ridge_run", "cpu", args, results, **attributes), message)
        self.assertEqual(self.runtime.call("ridge_matmul", "cpu", [x], [y]), "expected two operands and one result, found 1 and 1")


@unittest.skipUnless(HAS_CUDA, "there is no CUDA device, or torch is not installed")
class OnCuda(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()
        torch.manual_seed(0)

    def call(self, target, given, written, **attributes):
        self.assertIsNone(self.runtime.call(target, "CUDA", given, written, **attributes))
        self.assertEqual(sorted(data for data, _ in self.runtime.freed), sorted(self.runtime.scratch))  # All workspace is returned
        torch.cuda.synchronize()

    def test_products(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for m, n, k in ((5, 8, 16), (256, 384, 512), (64, 64, 16384)):
                for transpose_a in (0, 1):
                    for transpose_b in (0, 1):
                        a, b = (torch.randn(shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
                        out = torch.zeros(m, n, dtype=dtype, device="cuda")
                        args = [x.t().contiguous() if turned else x for x, turned in ((a, transpose_a), (b, transpose_b))]
                        self.call("ridge_matmul", args, [out], transpose_a=transpose_a, transpose_b=transpose_b)
                        expected = a.double() @ b.double()
                        self.assertLess((out.double() - expected).norm() / expected.norm(), 1e-2 if dtype != torch.float32 else 1e-5)

    def test_programs(self):
        for dtype in (torch.bfloat16, torch.float32):
            x = torch.randn(64, 1000, device="cuda").to(dtype)
            y = torch.zeros_like(x)
            self.call("ridge_run", [x], [y], program=SOFTMAX, results="")
            self.assertLess((y.double() - x.double().softmax(-1)).norm(), 1e-2)

    def test_another_stream(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = torch.randn(64, 1000, device="cuda")
            y = torch.zeros_like(x)
            self.call("ridge_run", [x], [y], program=SOFTMAX, results="")
        self.assertLess((y - x.softmax(-1)).norm(), 1e-5)

    def test_errors(self):
        x = torch.zeros(4, 4, device="cuda")
        self.assertIn("expected", self.runtime.call("ridge_matmul", "CUDA", [x, torch.zeros(5, 4, device="cuda")], [x]))


if __name__ == "__main__":
    unittest.main()
