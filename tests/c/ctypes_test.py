#!/usr/bin/env python3
"""Uses the C API through ctypes, with only the shared library. ctypes_test.py LIBRIDGE_C.SO"""
import ctypes
import json
import sys


class Dim(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_int64)]


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


def floats(values, *shape):
    data = (ctypes.c_float * len(values))(*values)
    return data, Array(ctypes.cast(data, ctypes.c_void_p), b"f32", len(shape), (ctypes.c_int64 * len(shape))(*shape), None)


def main() -> int:
    ridge = ctypes.CDLL(sys.argv[1])
    ridge.ridge_last_error.restype = ctypes.c_char_p
    ridge.ridge_free.argtypes = [ctypes.c_void_p]
    assert ridge.ridge_c_abi() == 1
    text = ctypes.c_void_p()
    dims = (Dim * 1)(Dim(b"B", 64))
    code = ridge.ridge_explain_json(b"bf16[B, 128] * bf16[128, 8] -> bf16[B, 8]", b"h200", dims, ctypes.c_size_t(1),
                                    ctypes.byref(text))
    assert code == 0, ridge.ridge_last_error().decode()
    report = json.loads(ctypes.string_at(text).decode())
    ridge.ridge_free(text)
    assert report["total"]["flops"] == 2 * 64 * 128 * 8, report["total"]
    code = ridge.ridge_explain_json(b"nothing", None, None, ctypes.c_size_t(0), ctypes.byref(text))
    assert code == 3 and b"nothing" in ridge.ridge_last_error(), (code, ridge.ridge_last_error())
    (_, a), (_, b), (d, result) = floats([1, 2, 3, 4], 2, 2), floats([0, 1, 1, 0], 2, 2), floats([0] * 4, 2, 2)
    assert ridge.ridge_matmul(ctypes.byref(a), ctypes.byref(b), ctypes.byref(result), 1) == 0
    assert list(d) == [2, 1, 4, 3], list(d)
    print("ctypes: ABI, explain, error and product are right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
