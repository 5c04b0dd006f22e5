"""JAX's operators against jax.numpy in fp64, with every transformation; and functions on the roof."""
import functools
import os
import shutil
import subprocess
import tempfile
import unittest

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # Hundreds of small functions are compiled
try:
    import jax
except ImportError:
    raise unittest.SkipTest("jax is not installed: the tests of ridge.jax are skipped") from None

import jax.numpy as jnp
import numpy as np

import ridge
import ridge.jax

jax.config.update("jax_enable_x64", True)  # References are in fp64
jax.config.update("jax_num_cpu_devices", 2)
DTYPES = [jnp.float32, jnp.bfloat16, jnp.float16]
DIFFERENTIATED = [jnp.float32, jnp.bfloat16]
TOLERANCE = {"float32": 3e-6, "bfloat16": 2e-2, "float16": 3e-3}


def geglu(x, w, b=None, approximate="none"):
    h = x @ w.T if b is None else x @ w.T + b
    u, g = jnp.split(h, 2, axis=-1)
    return u * jax.nn.gelu(g, approximate=approximate == "tanh")


def attention(q, k, v, causal=False, scale=None, lengths=None):
    s = q @ jnp.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    rows, columns = jnp.arange(q.shape[-2])[:, None], jnp.arange(k.shape[-2])[None]
    if lengths is not None:
        n = lengths.reshape(*lengths.shape, *[1] * (q.ndim - lengths.ndim))
        s = jnp.where(columns <= rows + n - q.shape[-2] if causal else columns < n, s, -jnp.inf)
    elif causal:
        s = jnp.where(columns <= rows, s, -jnp.inf)
    return jax.nn.softmax(s, axis=-1) @ v


def rmsnorm(x, weight=None, eps=1e-5):
    y = x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    return y if weight is None else y * weight


def cases():
    """Yields a name, ridge's function, a reference, and the inputs in fp64."""
    r, of = np.random.default_rng(0).standard_normal, functools.partial
    j = ridge.jax
    yield "matmul", j.matmul, jnp.matmul, [r((5, 7)), r((7, 3))]
    yield "matmul of transposed operands", lambda a, b: j.matmul(a.T, b.T), lambda a, b: a.T @ b.T, [r((7, 5)), r((3, 7))]
    yield "matmul in batches", j.matmul, jnp.matmul, [r((2, 5, 7)), r((2, 7, 3))]
    yield "matmul with one matrix", j.matmul, jnp.matmul, [r((2, 3, 5, 7)), r((7, 3))]
    yield "matmul of one matrix by several", j.matmul, jnp.matmul, [r((5, 7)), r((2, 7, 3))]
    yield "matmul with broadcast axes", j.matmul, jnp.matmul, [r((2, 1, 5, 7)), r((3, 7, 4))]
    yield "matmul of a vector", j.matmul, jnp.matmul, [r(7), r((7, 3))]
    yield "matmul by a vector", j.matmul, jnp.matmul, [r((2, 5, 7)), r(7)]
    yield "matmul to f32", of(j.matmul, preferred_element_type=jnp.float32), jnp.matmul, [r((5, 7)), r((7, 3))]
    yield "softmax", j.softmax, jax.nn.softmax, [r((4, 9))]
    yield "softmax along the first axis", of(j.softmax, axis=0), of(jax.nn.softmax, axis=0), [r((4, 3, 9))]
    yield "rmsnorm", j.rmsnorm, rmsnorm, [r((3, 16))]
    yield "rmsnorm with a weight", of(j.rmsnorm, eps=1e-3), of(rmsnorm, eps=1e-3), [r((2, 3, 16)), r(16)]
    yield "geglu", j.geglu, geglu, [r((9, 12)), r((10, 12)) / 4, r(10)]
    yield "geglu without bias", of(j.geglu, approximate="tanh"), of(geglu, approximate="tanh"), [r((2, 5, 12)), r((10, 12)) / 4]
    yield "geglu of a vector", j.geglu, geglu, [r(12), r((10, 12)) / 4, r(10)]
    yield "attention", j.attention, attention, [r((2, 3, 17, 8)), r((2, 3, 9, 8)), r((2, 3, 9, 5))]
    yield "attention of equal widths", j.attention, attention, [r((3, 17, 8)), r((3, 9, 8)), r((3, 9, 8))]
    yield ("causal attention", of(j.attention, causal=True, scale=0.3), of(attention, causal=True, scale=0.3),
           [r((2, 12, 16)), r((2, 12, 16)), r((2, 12, 16))])
    lengths = jnp.array([3, 9], jnp.int32)
    yield ("attention with lengths", lambda q, k, v: j.attention(q, k, v, lengths=lengths),
           lambda q, k, v: attention(q, k, v, lengths=lengths), [r((2, 4, 8)), r((2, 9, 8)), r((2, 9, 8))])


def error(found, expected):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30)


def directions(arrays, seed):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(np.shape(array)) for array in arrays]


class Operators(unittest.TestCase):
    def check(self, name, dtype, found, expected, times=1):
        for place, (one, other) in enumerate(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)):
            self.assertLess(error(one, other), times * TOLERANCE[jnp.dtype(dtype).name], f"{name}, {dtype.__name__}, result {place}")

    def in_dtype(self, arrays, dtype):
        """Returns the arrays in the dtype, and the same numbers in fp64."""
        rounded = [jnp.asarray(array, dtype) for array in arrays]
        return rounded, [array.astype(jnp.float64) for array in rounded]

    def test_results_and_jit(self):
        for name, function, reference, inputs in cases():
            for dtype in DTYPES:
                given, exact = self.in_dtype(inputs, dtype)
                found = function(*given)
                self.assertEqual(found.dtype, jnp.float32 if "to f32" in name else dtype, name)
                self.check(name, dtype, found, reference(*exact))
                np.testing.assert_array_equal(jax.jit(function)(*given), found, name)

    def test_gradients(self):
        for name, function, reference, inputs in cases():
            for dtype in DIFFERENTIATED:
                given, exact = self.in_dtype(inputs, dtype)
                shape = jax.eval_shape(function, *given)
                of_result, of_exact = self.in_dtype(directions([shape], 1), dtype)
                found = jax.jit(lambda g, *each: jax.vjp(function, *each)[1](g))(of_result[0].astype(shape.dtype), *given)
                self.assertEqual([each.dtype for each in found], [dtype] * len(given), name)
                self.check(name, dtype, found, jax.jit(lambda g, *each: jax.vjp(reference, *each)[1](g))(of_exact[0], *exact), 4)

    def test_forward_derivatives(self):
        for name, function, reference, inputs in cases():
            for dtype in DIFFERENTIATED:
                given, exact = self.in_dtype(inputs, dtype)
                tangents, exact_tangents = self.in_dtype(directions(inputs, 2), dtype)
                found = jax.jit(functools.partial(jax.jvp, function))(given, tangents)
                self.check(name, dtype, found, jax.jit(functools.partial(jax.jvp, reference))(exact, exact_tangents), 4)

    def test_jacobians_agree(self):
        for name, function, reference, inputs in cases():
            given, exact = self.in_dtype(inputs, jnp.float32)
            places = tuple(range(len(given)))
            expected = jax.jit(jax.jacrev(reference, places))(*exact)
            self.check(name, jnp.float32, jax.jit(jax.jacfwd(function, places))(*given), expected, 4)
            self.check(name, jnp.float32, jax.jit(jax.jacrev(function, places))(*given), expected, 4)

    def test_second_derivatives(self):
        def slope(function, places):
            """Returns the squared norm of the gradient of a total."""
            gradient = jax.grad(lambda *each: jnp.sum(jnp.sin(function(*each).astype(jnp.float64))), places)
            return lambda *each: sum(jnp.sum(g.astype(jnp.float64) ** 2) for g in gradient(*each))

        for name, function, reference, inputs in cases():
            places, dtype = tuple(range(len(inputs))), jnp.bfloat16 if name == "attention of equal widths" else jnp.float32
            given, exact = self.in_dtype(inputs, dtype)
            found = jax.jit(jax.grad(slope(function, places), places))(*given)
            self.check(name, dtype, found, jax.jit(jax.grad(slope(reference, places), places))(*exact), 16)

    def test_vmap(self):
        for name, function, reference, inputs in cases():
            if "lengths" in name:
                continue
            count = len(inputs)
            for mapped in range(1, 2 ** count) if count < 3 else (1, 6, 7):
                axes = [(place % 2 and -1 or 0) if mapped >> place & 1 else None for place in range(count)]
                batched = [np.stack([x, 2 * x, -x], axis) if axis is not None else x for x, axis in zip(inputs, axes)]
                given, exact = self.in_dtype(batched, jnp.float32)
                found, expected = jax.jit(jax.vmap(function, axes))(*given), jax.jit(jax.vmap(reference, axes))(*exact)
                self.check(f"{name} {axes}", jnp.float32, found, expected, 2)

    def test_vmap_of_gradients_and_gradients_of_vmap(self):
        def total(function):
            return lambda *each: jnp.sum(jnp.sin(function(*each).astype(jnp.float64)))

        for name, function, reference, inputs in cases():
            if "lengths" in name:
                continue
            places, dtype = tuple(range(len(inputs))), jnp.bfloat16 if "attention" in name else jnp.float32
            given, exact = self.in_dtype([np.stack([x, -x]) for x in inputs], dtype)
            expected = jax.jit(jax.vmap(jax.grad(total(reference), places)))(*exact)
            self.check(name, dtype, jax.jit(jax.vmap(jax.grad(total(function), places)))(*given), expected, 4)
            self.check(name, dtype, jax.jit(jax.grad(total(jax.vmap(function)), places))(*given), expected, 4)

    @unittest.skipIf(len(jax.devices()) < 2, "there is one device")
    def test_shard_map(self):
        mesh, split = jax.sharding.Mesh(jax.devices()[:2], ("x",)), jax.sharding.PartitionSpec("x")
        x, w, b = (jnp.asarray(each, jnp.float32) for each in directions([np.zeros((8, 5, 12)), np.zeros((10, 12)), np.zeros(10)], 5))
        whole = jax.sharding.PartitionSpec()
        for function, reference in ((ridge.jax.geglu, geglu), (lambda x, w, b: ridge.jax.matmul(ridge.jax.softmax(x), w.T) + b,
                                                              lambda x, w, b: jax.nn.softmax(x) @ w.T + b)):
            mapped = jax.shard_map(function, mesh=mesh, in_specs=(split, whole, whole), out_specs=split)
            self.assertLess(error(mapped(x, w, b), reference(x, w, b)), 3e-6)
            found = jax.grad(lambda *each: jnp.sum(mapped(*each) ** 2), (0, 1, 2))(x, w, b)
            expected = jax.grad(lambda *each: jnp.sum(reference(*each) ** 2), (0, 1, 2))(x, w, b)
            self.check("shard_map", jnp.float32, found, expected, 4)

    def test_lengths_under_vmap(self):
        r = np.random.default_rng(3).standard_normal
        q, k, v = (jnp.asarray(r((3, 2, 5, 8)), jnp.float32) for _ in range(3))
        lengths = jnp.array([[2, 5], [1, 4], [5, 3]], jnp.int32)
        for axes, n in ((0, lengths), (None, lengths[0])):
            found = jax.vmap(lambda q, k, v, n: ridge.jax.attention(q, k, v, lengths=n), (0, 0, 0, axes))(q, k, v, n)
            expected = attention(q, k, v, lengths=jnp.broadcast_to(n, (3, 2)))
            self.assertLess(error(found, expected), 3e-6)

    def test_vmap_twice_and_loops(self):
        x = jnp.asarray(np.random.default_rng(4).standard_normal((2, 3, 5, 7)), jnp.float32)
        found = jax.vmap(jax.vmap(ridge.jax.softmax))(x)
        self.assertLess(error(found, jax.nn.softmax(x)), 3e-6)
        matrix = x[0, 0] @ x[0, 0].T
        looped = jax.lax.fori_loop(0, 4, lambda _, y: ridge.jax.softmax(ridge.jax.matmul(matrix, y)), matrix)
        expected = matrix
        for _ in range(4):
            expected = jax.nn.softmax(matrix @ expected)
        self.assertLess(error(looped, expected), 1e-5)

    def test_zero_sizes(self):
        f = functools.partial(jnp.ones, dtype=jnp.float32)
        j = ridge.jax
        for found, expected in (
                (j.matmul(f((0, 3)), f((3, 2))), f((0, 2))), (j.matmul(f((4, 0)), f((0, 2))), jnp.zeros((4, 2))),
                (j.softmax(f((3, 0))), f((3, 0))), (j.rmsnorm(f((0, 4)), f(4)), f((0, 4))),
                (j.geglu(f((0, 3)), f((4, 3))), f((0, 2))), (j.geglu(f((2, 0)), f((4, 0)), f(4)), geglu(f((2, 0)), f((4, 0)), f(4))),
                (j.attention(f((0, 3, 4)), f((0, 5, 4)), f((0, 5, 4))), f((0, 3, 4))),
                (j.attention(f((2, 3, 4)), f((2, 0, 4)), f((2, 0, 4))), jnp.zeros((2, 3, 4))),
                (j.attention(f((2, 3, 0)), f((2, 5, 0)), f((2, 5, 4))), f((2, 3, 4)))):
            self.assertEqual(found.shape, expected.shape)
            self.assertLess(error(found, expected), 1e-6)
        self.assertEqual(jax.grad(lambda a: jnp.sum(j.matmul(a, f((0, 2)))))(f((4, 0))).shape, (4, 0))

    def test_errors_are_those_of_arrays(self):
        f = functools.partial(jnp.zeros, dtype=jnp.float32)
        half = f((3, 4)).astype(jnp.bfloat16)
        j = ridge.jax
        for call, message in (
                (lambda: j.matmul(f((3, 5)), f((4, 5))),
                 "expected a[..., m, k] and b[..., k, n], found k = 5 in a and 4 in b: a has shape [3, 5], b has shape [4, 5]"),
                (lambda: j.matmul(f(5), f((4, 5))), "expected a[..., m, k] and b[..., k, n], found k = 5 in a and 4 in b: a has shape [5], b has shape [4, 5]"),
                (lambda: j.matmul(half, f((4, 5))),
                 "expected a and b of one dtype, found bfloat16 and float32"),
                (lambda: j.matmul(half, half.T, preferred_element_type=jnp.float16),
                 "expected preferred_element_type bfloat16 or float32, found float16"),
                (lambda: j.softmax(f(3), axis=1), "expected an axis from -1 to 0, found 1"),
                (lambda: j.rmsnorm(f((3, 4)), f(5)), "expected weight to have shape [4], a number for each column of x, found [5]"),
                (lambda: j.geglu(f((3, 4)), f((3, 4))), "expected w to have an even number of rows and two axes, found shape (3, 4)"),
                (lambda: j.geglu(f((3, 4)), f((2, 4)), approximate="erf"), "expected approximate to be 'none' or 'tanh', found 'erf'"),
                (lambda: j.attention(f((3, 4)), f((3, 5)), f((3, 5))),
                 "expected keys as wide as queries, found width 5 in k and 4 in q"),
                (lambda: j.attention(f((3, 4)), f((3, 4)), half),
                 "expected q and v of one dtype, found float32 and bfloat16")):
            for run in (call, jax.jit(call)):
                with self.assertRaises(ValueError) as raised:
                    run()
                self.assertEqual(str(raised.exception), message)

    def test_dtypes_are_refused_as_in_arrays(self):
        with self.assertRaises(ridge.Error) as of_array:
            ridge.softmax(np.zeros(3))
        with self.assertRaises(ridge.Error) as of_jax:
            ridge.jax.softmax(jnp.zeros(3))
        self.assertEqual(str(of_jax.exception), str(of_array.exception))

    def test_errors_of_handlers(self):
        for target, attributes, message in (
                ("ridge_run", {"program": "y[N] = ", "results": ""}, "expected"),
                ("ridge_run", {"program": "x[N]\ny[N] = x", "results": "z"}, "unknown result 'z'; expected one of y")):
            call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((3,), jnp.float32))
            with self.assertRaises(Exception) as raised:
                jax.block_until_ready(call(jnp.zeros(3, jnp.float32), **attributes))
            self.assertIn(message, str(raised.exception))
        call = jax.ffi.ffi_call("ridge_run", jax.ShapeDtypeStruct((3,), jnp.float64))
        with self.assertRaises(Exception) as raised:
            jax.block_until_ready(call(jnp.zeros(3), program="x[N]\ny[N] = x", results=""))
        self.assertIn("expected arrays of float32, bfloat16, float16, int8 or int32", str(raised.exception))

    @unittest.skipUnless(shutil.which("c++"), "there is no C++ compiler")
    def test_declared_layout_is_that_of_the_installed_header(self):
        with open(jax.ffi.include_dir() + "/xla/ffi/api/c_api.h") as file:  # The name of a function changed in 0.4
            read_error = "XLA_FFI_Error_GetDetails" if "XLA_FFI_Error_GetDetails_Args" in file.read() else "XLA_FFI_Error_GetMessage"
        pairs = {"Buffer": ("XLA_FFI_Buffer", {"dtype": "dtype", "data": "data", "rank": "rank", "dims": "dims"}),
                 "BufferList": ("XLA_FFI_Args", {"size": "size", "types": "types", "buffers": "args"}),
                 "ByteSpan": ("XLA_FFI_ByteSpan", {"data": "ptr", "size": "len"}),
                 "Scalar": ("XLA_FFI_Scalar", {"dtype": "dtype", "value": "value"}),
                 "AttributeList": ("XLA_FFI_Attrs", {"size": "size", "types": "types", "names": "names", "values": "attrs"}),
                 "ErrorArgs": ("XLA_FFI_Error_Create_Args", {"message": "message", "code": "errc"}),
                 "ErrorMessageArgs": (f"{read_error}_Args", {"error": "error", "message": "message"}),
                 "ErrorDestroyArgs": ("XLA_FFI_Error_Destroy_Args", {"error": "error"}),
                 "StreamArgs": ("XLA_FFI_Stream_Get_Args", {"context": "ctx", "stream": "stream"}),
                 "AllocateArgs": ("XLA_FFI_DeviceMemory_Allocate_Args",
                                  {"context": "ctx", "size": "size", "alignment": "alignment", "data": "data"}),
                 "FreeArgs": ("XLA_FFI_DeviceMemory_Free_Args", {"context": "ctx", "size": "size", "data": "data"}),
                 "DeviceArgs": ("XLA_FFI_DeviceOrdinal_Get_Args", {"context": "ctx", "device": "device_ordinal"}),
                 "Metadata": ("XLA_FFI_Metadata", {"api_version": "api_version", "traits": "traits", "state_type": "state_type_id"}),
                 "MetadataExtension": ("XLA_FFI_Metadata_Extension", {"metadata": "metadata"}),
                 "ApiVersion": ("XLA_FFI_Api_Version", {"major_version": "major_version", "minor_version": "minor_version"}),
                 "Api": ("XLA_FFI_Api", {"version": "api_version", "create_error": "XLA_FFI_Error_Create",
                                         "read_error": read_error, "destroy_error": "XLA_FFI_Error_Destroy",
                                         "get_stream": "XLA_FFI_Stream_Get", "allocate": "XLA_FFI_DeviceMemory_Allocate",
                                         "free": "XLA_FFI_DeviceMemory_Free", "get_device": "XLA_FFI_DeviceOrdinal_Get"}),
                 "CallFrame": ("XLA_FFI_CallFrame", {"api": "api", "context": "ctx", "stage": "stage", "args": "args",
                                                     "results": "rets", "attributes": "attrs"})}
        constants = {"ffi_major": "XLA_FFI_API_MAJOR", "execute_stage": "XLA_FFI_ExecutionStage_EXECUTE",
                     "code_invalid": "XLA_FFI_Error_Code_INVALID_ARGUMENT", "code_full": "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED",
                     "element_int8": "XLA_FFI_DataType_S8", "element_int32": "XLA_FFI_DataType_S32",
                     "element_int64": "XLA_FFI_DataType_S64", "element_f16": "XLA_FFI_DataType_F16",
                     "element_f32": "XLA_FFI_DataType_F32", "element_bf16": "XLA_FFI_DataType_BF16",
                     "scalar_attribute": "XLA_FFI_AttrType_SCALAR", "string_attribute": "XLA_FFI_AttrType_STRING",
                     "metadata_extension": "XLA_FFI_Extension_Metadata"}
        lines = ['#include "ridge/python/xla_ffi.h"', '#include "xla/ffi/api/c_api.h"']
        for ours, (theirs, fields) in pairs.items():
            lines += [f"static_assert(offsetof(ridge::python::xla::{ours}, {one}) == offsetof({theirs}, {other}));"
                      for one, other in fields.items()]
            lines += [f"static_assert(sizeof(ridge::python::xla::{ours}) == sizeof({theirs}));"] * (ours not in ("Api", "CallFrame", "ErrorMessageArgs"))
        lines += [f"static_assert(static_cast<int>(ridge::python::xla::{ours}) == static_cast<int>({theirs}));"
                  for ours, theirs in constants.items()]
        source = __file__.rpartition("/python/")[0] + "/src"
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/layout.cc", "w") as file:
                file.write("\n".join(lines))
            done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-I", source, "-isystem", jax.ffi.include_dir(),
                                   f"{folder}/layout.cc"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
