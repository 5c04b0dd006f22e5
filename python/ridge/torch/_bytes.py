"""Bytes that an operation of PyTorch must move: each element that it reads once, each element that it writes once."""
import math

import torch

from ridge.torch._counts import LINEAR_TAPS, Call, tensors_of

# Operations that change their first argument in place without reading it.
_OVERWRITES = frozenset("""bernoulli cauchy copy exponential fill geometric log_normal normal random uniform zero
    _foreach_copy _foreach_zero""".split())
# Operations that need only the shape of an argument of this name.
_SHAPE_ONLY = {"nll_loss_backward": "self", "nll_loss2d_backward": "self", "max_pool2d_with_indices_backward": "self",
               "max_pool3d_with_indices_backward": "self", "avg_pool2d_backward": "self", "avg_pool3d_backward": "self",
               "_adaptive_avg_pool2d_backward": "self", "_adaptive_avg_pool3d_backward": "self", "new_full": "self",
               "new_ones": "self", "new_zeros": "self", "zeros_like": "self", "ones_like": "self", "full_like": "self",
               "rand_like": "self", "randn_like": "self", "randint_like": "self",
               "native_layer_norm_backward": "bias"}
_GATHERS = {"embedding": "weight", "index_select": "self", "gather": "self", "index": "self", "_unsafe_index": "self",
            "take": "self", "nll_loss_forward": "self", "nll_loss2d_forward": "self"}
_SCATTERS = frozenset("scatter scatter_add scatter_reduce".split())
_INDEXED_WRITES = frozenset("index_copy index_fill index_add index_reduce".split())


def make_call(func, base, args, kwargs, result):
    """Returns the call with the tensors that it reads and writes, as its schema declares them."""
    overwritten, changed = [], []
    for position, declared in enumerate(func._schema.arguments):
        given = args[position] if position < len(args) else kwargs.get(declared.name)
        if given is None:
            continue
        is_gradient = base.startswith("_fused_") and declared.name == "grads"  # Declared as changed, for scaled gradients
        if declared.alias_info is not None and declared.alias_info.is_write and not is_gradient:
            changed += tensors_of(given)
            if declared.is_out or (position == 0 and base in _OVERWRITES):
                overwritten += tensors_of(given)
        elif declared.name == _SHAPE_ONLY.get(base):
            overwritten += tensors_of(given)
    unread = {id(tensor) for tensor in overwritten}
    read = [tensor for tensor in tensors_of((args, kwargs)) if id(tensor) not in unread]
    return Call(func, base, args, kwargs, result, read, tensors_of(result) + changed)


def tensor_bytes(tensor):
    """Returns the bytes of the elements that a tensor can reach; an expanded dimension repeats the same ones."""
    if tensor.layout != torch.strided:
        return tensor.numel() * tensor.element_size()
    if tensor.numel() == 0:
        return 0
    extents = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]
    distinct = math.prod(size for size, stride in extents if stride != 0)
    span = 1 + sum((size - 1) * stride for size, stride in extents)
    return min(distinct, span) * tensor.element_size()


def distinct_bytes(tensors):
    """Returns the bytes of several tensors, where equal and overlapping views of one storage count once."""
    of_storage, seen = {}, set()
    for tensor in tensors:
        if tensor.layout != torch.strided:
            of_storage[id(tensor)] = [tensor_bytes(tensor), math.inf]
            continue
        storage = tensor.untyped_storage()
        view = (id(storage), tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        if view not in seen:
            seen.add(view)
            entry = of_storage.setdefault(id(storage), [0, storage.nbytes()])
            entry[0] += tensor_bytes(tensor)
    return sum(min(found, whole) for found, whole in of_storage.values())


def _without(tensors, left_out):
    return [tensor for tensor in tensors if tensor is not left_out]


def _indexed_elements(x, indices):
    """Returns how many elements x[indices] has; None selects a whole dimension."""
    given = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return None
    chosen = math.prod(torch.broadcast_shapes(*(index.shape for index in given)))
    kept = [size for size, index in zip(x.shape, indices) if index is None]
    return chosen * math.prod(kept) * math.prod(x.shape[len(indices):])


def _move_indexed(call, x, touched, source, indices, accumulates):
    """Bytes of writing `touched` elements of x at computed places. Out of place, all of x is copied as well."""
    touched_bytes = min(touched * x.element_size(), tensor_bytes(x))
    others = distinct_bytes(tensors_of(indices)) + (source if isinstance(source, int) else distinct_bytes(tensors_of(source)))
    if call.func._schema.name.endswith("_") or call.base == "_index_put_impl":
        return others + touched_bytes * (2 if accumulates else 1)
    return others + distinct_bytes([x]) + distinct_bytes(call.written)


def _move_gathered(call):
    x = call.argument(_GATHERS[call.base])
    if call.base.startswith("nll_loss"):
        picked = call.argument("target").numel() * x.element_size()
    else:
        picked = distinct_bytes(call.written)
    return min(picked, tensor_bytes(x)) + distinct_bytes(_without(call.read, x)) + distinct_bytes(call.written)


def _move_index_put(call):
    x, indices, values = call.args[:3]
    touched = _indexed_elements(x, indices)
    accumulates = bool(call.argument("accumulate", False))
    return _move_indexed(call, x, values.numel() if touched is None else touched, values, indices, accumulates)


def _move_scattered(call):
    x, index, source = call.args[0], call.argument("index"), call.argument("src")
    read = min(index.numel() * x.element_size(), tensor_bytes(source)) if isinstance(source, torch.Tensor) else 0
    return _move_indexed(call, x, index.numel(), read, index, call.base != "scatter" or call.argument("reduce") is not None)


def _move_index_rows(call):
    x, dim, index = call.args[:3]
    touched = index.numel() * (x.numel() // max(x.shape[dim], 1)) if x.dim() else 1
    return _move_indexed(call, x, touched, call.argument("source"), index, call.base in ("index_add", "index_reduce"))


def _move_embedding_bag(call):
    weight = call.argument("weight")
    rows = call.argument("indices").numel() * weight.shape[-1] * weight.element_size()
    return min(rows, tensor_bytes(weight)) + distinct_bytes(_without(call.read, weight)) + distinct_bytes(call.written[:1])


def _windowed_bytes(x, window, stride, out):
    """Returns the bytes of an image's elements that lie in a window; a stride above the window's extent skips some."""
    used = [min(size, k * n) if s > k else size for size, k, s, n in zip(x.shape[-len(window):], window, stride, out)]
    return min(tensor_bytes(x), math.prod(x.shape[:-len(window)]) * math.prod(used) * x.element_size())


def _per_dim(given, dims):
    return list(given) * dims if len(given) == 1 else list(given)


def _move_windows(call):
    """Bytes of a convolution or a pool."""
    x, out = call.args[0], call.written[0]
    dims = out.dim() - 2 if call.base == "convolution" else 1 if "1d" in call.base else 3 if "3d" in call.base else 2
    stride = _per_dim(call.argument("stride") or [1], dims)
    if call.base == "convolution":
        weight = call.argument("weight")
        if call.argument("transposed") or any(dilation > 1 for dilation in call.argument("dilation")):
            return distinct_bytes(call.read) + distinct_bytes(call.written)
        window = list(weight.shape[2:])
    else:
        window = _per_dim(call.argument("kernel_size"), dims)
        stride = _per_dim(call.argument("stride") or window, dims)
    read = _windowed_bytes(x, window, stride, out.shape[-dims:])
    return read + distinct_bytes(_without(call.read, x)) + distinct_bytes(call.written)


def _move_triangle(call):
    """Bytes of tril and triu, which read only the elements that they keep."""
    x = call.args[0]
    rows, columns = x.shape[-2:]
    diagonal = call.argument("diagonal", 0)
    below = sum(min(max(row + diagonal + (call.base == "tril"), 0), columns) for row in range(rows))
    kept = below if call.base == "tril" else rows * columns - below
    return min(kept * (x.numel() // max(rows * columns, 1)) * x.element_size(), tensor_bytes(x)) + distinct_bytes(call.written)


def _move_grouped_product(call):
    """Bytes of a grouped product: with fewer rows than groups, only the weights of that many groups are read."""
    a, b = call.args[:2]
    moved = distinct_bytes(_without(call.read, b)) + distinct_bytes(call.written)
    if b.dim() == 3 and a.dim() == 2:
        return moved + tensor_bytes(b) * min(b.shape[0], a.shape[0]) // max(b.shape[0], 1)
    return moved + distinct_bytes([b])


def _move_resampled(call):
    """Bytes of an interpolation or a crop, whose smaller result needs only some elements of its argument."""
    x, out = call.args[0], call.written[0]
    read = min(tensor_bytes(x), LINEAR_TAPS.get(call.base, 1) * out.numel() * x.element_size())
    return read + distinct_bytes(_without(call.read, x)) + distinct_bytes(call.written)


def _move_convolution_backward(call):
    """Bytes of a convolution's gradients: that of the input does not need the input, that of the weight not the weight."""
    gradient, x, weight = call.args[:3]
    of_x, of_weight, _ = call.argument("output_mask")
    read = [gradient] + ([weight] if of_x else []) + ([x] if of_weight else [])
    return distinct_bytes(read) + distinct_bytes(call.written)


def _move_trace(call):
    return min(call.args[0].shape) * call.args[0].element_size() + distinct_bytes(call.written)


_SPECIAL = {
    **dict.fromkeys(LINEAR_TAPS, _move_resampled), "constant_pad_nd": _move_resampled, "trace": _move_trace,
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _move_resampled),
    "convolution_backward": _move_convolution_backward,
    **dict.fromkeys(_GATHERS, _move_gathered), **dict.fromkeys(_SCATTERS, _move_scattered),
    **dict.fromkeys(_INDEXED_WRITES, _move_index_rows),
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), _move_index_put),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _move_embedding_bag),
    **dict.fromkeys(("convolution", "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d"), _move_windows),
    "tril": _move_triangle, "triu": _move_triangle,
    **dict.fromkeys(("_grouped_mm", "grouped_mm_fallback"), _move_grouped_product),
}


def is_partial(base):
    """True for operations that may read only a part of an argument, such as the rows of an embedding."""
    return base in _SPECIAL


def count_bytes(call):
    """Returns the bytes that the call reads and writes, at least."""
    if call.base in _SPECIAL:
        return _SPECIAL[call.base](call)
    return distinct_bytes(call.read) + distinct_bytes(call.written)


def count_attention_bytes(q, k, v, mask, result, is_causal):
    """Returns the bytes of one attention kernel, which stores no scores; causal attention reads no keys after its rows."""
    seen = min(q.shape[-2], k.shape[-2]) if is_causal else k.shape[-2]
    read = [q, k.narrow(-2, 0, seen), v.narrow(-2, 0, seen)] + ([mask] if mask is not None else [])
    return distinct_bytes(read) + distinct_bytes([result])
