"""Weights of 4 bits from the files of GPTQ and AWQ, as the dtypes int4_32 to int4_128 and u4_32 to u4_128.

A block of 32, 64 or 128 elements along k shares an f16 scale and, in u4, a zero point: an element is
(code - zero point) * scale. Programs store a block as its scale, the zero point in a byte, a byte that is 0, and then two
codes in each byte, the first in the lower half (src/ridge/base/block_scale.h); int4 has no zero points, and its codes are
two's complement.
"""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from . import _ridge
from ._arrays import copy_to_device_of, device_of
from ._error import input_error, usage_error

if TYPE_CHECKING:  # NumPy is imported by the functions, since ridge works without it
    import numpy as np
    import numpy.typing as npt

_BLOCKS = (128, 64, 32)
_PER_WORD = 8  # Codes of 4 bits in an int32
_MIDDLE = 8  # Zero point of symmetric weights
# Column of each of the eight codes of a word, from the low bits on, in the files of AWQ.
_AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclasses.dataclass(frozen=True, eq=False)
class Weights:
    """A matrix of 4-bit weights [n, k] in blocks along k, as programs store the dtype.

    dtype  "int4_32", "int4_64" or "int4_128" if all zero points of the file were 8, else "u4_32", "u4_64" or "u4_128"
    shape  (n, k): rows of outputs, each of k contiguous elements
    data   bytes as one axis of uint8: [n, k / block, bytes of a block] of NumPy in host memory, and on a device, as an
           array of PyTorch or CuPy, all elements and then all scales in the order of the device's kernels
    device "cpu" for host memory, or the CUDA device of `data`, such as "cuda:0"; `to_device` copies weights there
    """

    dtype: str
    shape: tuple[int, int]
    data: Any
    device: str = "cpu"

    @property
    def block(self) -> int:
        """Number of elements that share a scale."""
        return int(self.dtype.partition("_")[2])

    def to_device(self, like: Any) -> Weights:
        """Returns the weights on the device of an array of PyTorch or CuPy. Raises ridge.Error for those of another one."""
        import numpy as np

        device = device_of(like)
        if device == self.device:
            return self
        if self.device != "cpu":
            raise input_error(f"expected weights in host memory to copy, found weights on {self.device}: call to_device() of "
                              "the weights that were read from the file")
        if not device.startswith("cuda"):
            raise input_error(f"expected an array on a CUDA device or in host memory, found one on {device}")
        planes = np.empty_like(self.data)
        _ridge.split_weights(self.data, (self.dtype, *self.shape), planes)
        return Weights(self.dtype, self.shape, copy_to_device_of(like, planes), device)

    def dequantize(self) -> npt.NDArray[np.float32]:
        """Returns the matrix [n, k] as float32, in which every element is exact. Raises ridge.Error on a device."""
        import numpy as np

        if self.device != "cpu":
            raise input_error(f"expected weights in host memory, found weights on {self.device}: call dequantize() of the "
                              "weights that to_device() copied")
        n, k = self.shape
        has_zeros = self.dtype.startswith("u4")
        blocks = self.data.reshape(n, k // self.block, -1)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2").astype(np.float32)
        packed = blocks[:, :, 4 if has_zeros else 2:]
        codes = np.stack([packed & 0xF, packed >> 4], axis=-1).reshape(n, k // self.block, self.block).astype(np.int16)
        values = codes - (blocks[:, :, 2:3] & 0x7F) if has_zeros else (codes ^ _MIDDLE) - _MIDDLE
        return (values.astype(np.float32) * scales).reshape(n, k)


def check_device(array: Any, weights: Weights) -> None:
    """Raises Error unless weights are on the device of an array, the operand 'a' of a product."""
    device = device_of(array)
    if device == weights.device:
        return
    cure = "pass weights.to_device(a)"
    if weights.device != "cpu":
        cure = f"pass a on {weights.device}, or weights.to_device(a) of the weights that were read from the file"
    raise input_error(f"expected 'a' and the weights on one device, found 'a' {_place(device)} and the weights "
                      f"{_place(weights.device)}: {cure}")


def _place(device: str) -> str:
    return "in host memory" if device == "cpu" else f"on {device}"


def weights_from_gptq(qweight: Any, qzeros: Any, scales: Any, *, group: int, g_idx: Any = None,
                      checkpoint_format: str = "gptq") -> Weights:
    """Returns the weights of a layer of a GPTQ checkpoint of 4 bits, without rounding anything.

    qweight            int32 [k / 8, n]: eight codes along k in each word, the first in the low bits
    qzeros             int32 [k / group, n / 8]: eight zero points along n in each word
    scales             float16 [k / group, n]
    group              elements along k that share a scale, a multiple of 32 (`group_size` in the file's configuration); -1
                       for all of k
    g_idx              int32 [k]: the group of each element, or None; element i must be in group i // group
    checkpoint_format  "gptq", whose files hold each zero point minus 1, or "gptq_v2", whose files hold the zero point

    Arrays may be NumPy's or of any library that converts to them, such as PyTorch's in host memory. Groups that are a
    larger multiple of 32 are stored as several blocks. Source of the layout: AutoGPTQ, qlinear_cuda.py; Frantar and
    others, GPTQ, 2023. Raises ridge.Error for arrays of another shape or dtype, and for a checkpoint made with desc_act
    whose groups are not contiguous.
    """
    import numpy as np

    if checkpoint_format not in ("gptq", "gptq_v2"):
        raise usage_error(f"checkpoint_format: expected 'gptq' or 'gptq_v2', found {checkpoint_format!r}")
    words = _words("qweight", qweight)
    k, n = words.shape[0] * _PER_WORD, words.shape[1]
    group = _check_group(group, k)
    zeros = _unpack(_check_zeros(qzeros, k // group, n), range(_PER_WORD)) + np.uint8(checkpoint_format == "gptq")
    if g_idx is not None:
        _check_order(g_idx, k, group)
    # The bytes of a transposed word are four pairs of codes along k.
    pairs = np.ascontiguousarray(words.T).view(np.uint8).reshape(n, k // 2)
    return _make_weights(pairs, zeros, _check_scales(scales, k // group, n), group)


def weights_from_awq(qweight: Any, qzeros: Any, scales: Any, *, group: int) -> Weights:
    """Returns the weights of a layer of an AWQ checkpoint (the version "gemm") of 4 bits, without rounding anything.

    qweight  int32 [k, n / 8]: eight codes along n in each word, those of columns 0, 2, 4, 6, 1, 3, 5, 7 from the low bits
    qzeros   int32 [k / group, n / 8]: zero points in the same order
    scales   float16 [k / group, n]
    group    elements along k that share a scale, a multiple of 32 (`group_size` in the file's configuration); -1 for all
             of k

    Arrays may be NumPy's or of any library that converts to them, such as PyTorch's in host memory. Groups that are a
    larger multiple of 32 are stored as several blocks. Source of the layout: AutoAWQ, awq/modules/linear/gemm.py; Lin and
    others, AWQ, 2024. Raises ridge.Error for arrays of another shape or dtype.
    """
    import numpy as np

    words = _words("qweight", qweight)
    k, n = words.shape[0], words.shape[1] * _PER_WORD
    group = _check_group(group, k)
    zeros = _unpack(_check_zeros(qzeros, k // group, n), _AWQ_COLUMNS)
    codes = _unpack(words, _AWQ_COLUMNS)
    pairs = (codes[0::2] | codes[1::2] << np.uint8(4)).T
    return _make_weights(pairs, zeros, _check_scales(scales, k // group, n), group)


def _make_weights(pairs: npt.NDArray[np.uint8], zeros: npt.NDArray[np.uint8], scales: npt.NDArray[np.float16],
                  group: int) -> Weights:
    """Returns weights of pairs of codes [n, k / 2], zero points [k / group, n] and scales [k / group, n]."""
    import numpy as np

    n, k = pairs.shape[0], pairs.shape[1] * 2
    block = next(block for block in _BLOCKS if group % block == 0)
    is_symmetric = bool((zeros == _MIDDLE).all())
    scale_bytes = 2 if is_symmetric else 4
    data = np.zeros((n, k // block, scale_bytes + block // 2), np.uint8)
    repeated = np.repeat(scales.T, group // block, axis=1).astype("<f2")
    data[:, :, :2] = repeated[:, :, np.newaxis].view(np.uint8)
    if not is_symmetric:
        data[:, :, 2] = np.repeat(zeros.T, group // block, axis=1)
    inverted = np.uint8(_MIDDLE << 4 | _MIDDLE if is_symmetric else 0)  # The code of int4 is the file's minus 8
    data[:, :, scale_bytes:] = (pairs ^ inverted).reshape(n, k // block, block // 2)
    return Weights(f"{'int4' if is_symmetric else 'u4'}_{block}", (n, k), data.reshape(-1))


def _unpack(words: npt.NDArray[np.uint32], columns: Any) -> npt.NDArray[np.uint8]:
    """Returns the codes [rows, 8 * words] of words [rows, words]; `columns` has the column of each code of a word."""
    import numpy as np

    out = np.empty((*words.shape, _PER_WORD), np.uint8)
    for i, column in enumerate(columns):
        out[:, :, column] = words >> np.uint32(4 * i) & np.uint32(0xF)
    return out.reshape(words.shape[0], -1)


def _as_array(name: str, given: Any) -> npt.NDArray[Any]:
    import numpy as np

    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise input_error(f"expected an array for '{name}' that NumPy can read, found {type(given)}: {error}") from None


def _words(name: str, given: Any) -> npt.NDArray[np.uint32]:
    """Returns a matrix of words of 32 bits. Raises Error for other arrays."""
    import numpy as np

    array = _as_array(name, given)
    if array.ndim != 2 or array.dtype not in (np.int32, np.uint32):
        raise input_error(f"expected '{name}' to be a matrix of int32, found {_describe(array)}")
    return array.astype("<u4", copy=False)


def _check_group(group: int, k: int) -> int:
    """Returns the elements of a group; -1 is all of k."""
    if not hasattr(group, "__index__"):
        raise usage_error(f"expected a number of elements for group, found {group!r}")
    elements = k if group == -1 else group.__index__()
    if elements <= 0 or elements % _BLOCKS[-1] != 0 or k % elements != 0:
        raise input_error(f"expected a group of a multiple of 32 elements that divides k = {k}, or -1 for all of k, found "
                          f"{group}")
    return elements


def _check_zeros(given: Any, groups: int, n: int) -> npt.NDArray[np.uint32]:
    zeros = _words("qzeros", given)
    if n % _PER_WORD != 0 or zeros.shape != (groups, n // _PER_WORD):
        raise input_error(f"expected qzeros [{groups}, {n} / 8] for {groups} groups and n = {n}, found "
                          f"{_describe(zeros)}")
    return zeros


def _check_scales(given: Any, groups: int, n: int) -> npt.NDArray[np.float16]:
    import numpy as np

    scales = _as_array("scales", given)
    if scales.shape != (groups, n) or scales.dtype != np.float16:
        raise input_error(f"expected scales of float16 [{groups}, {n}] for {groups} groups and n = {n}, found "
                          f"{_describe(scales)}")
    return scales


def _check_order(given: Any, k: int, group: int) -> None:
    """Raises Error unless element i is in group i // group."""
    import numpy as np

    order = _as_array("g_idx", given)
    if order.shape != (k,):
        raise input_error(f"expected g_idx [{k}], the group of each element of k, found {_describe(order)}")
    wrong = np.flatnonzero(order != np.arange(k) // group)
    if wrong.size > 0:
        raise input_error(f"g_idx: expected element {wrong[0]} in group {wrong[0] // group}, found {order[wrong[0]]}: the "
                          "checkpoint was made with desc_act, whose groups are not contiguous; use one made with "
                          "desc_act=False")


def _describe(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} [{', '.join(str(extent) for extent in array.shape)}]"
