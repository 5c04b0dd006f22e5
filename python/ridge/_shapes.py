"""Checks of the arrays of layers, and the shapes of their results. Functions on arrays and the fake tensors of PyTorch use the
same checks, so that a traced model fails with the same error as a call."""
from ._arrays import check_one_dtype, dtype_name, dtype_of, float_dtype_of, shape_of
from ._error import input_error, usage_error

MAX_AXES = 14


def rank_of(name, array, least=1):
    """Returns the number of axes. Raises Error unless it is from `least` to 14."""
    rank = len(shape_of(name, array))
    if not least <= rank <= MAX_AXES:
        raise input_error(f"expected {name} to have {least} to {MAX_AXES} axes, found {rank}")
    return rank


def axis_of(rank, axis, dim=None):
    """Returns an axis as a number from 0; `dim` is PyTorch's name for it."""
    if dim is not None:
        if axis != -1:
            raise usage_error(f"expected axis or dim, found both: axis={axis!r}, dim={dim!r}")
        axis = dim
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise usage_error(f"axis: expected a whole number from {-rank} to {rank - 1}, found {axis!r}")
    if not -rank <= axis < rank:
        raise usage_error(f"expected an axis from {-rank} to {rank - 1}, found {axis}")
    return int(axis) % rank


def matmul_shape(a, b):
    """Returns the shape of a @ b; leading axes are broadcast, and a vector has one axis. Raises Error."""
    of_a, of_b = shape_of("a", a), shape_of("b", b)
    if not of_a or not of_b:
        raise input_error(f"expected operands of at least one axis, found a of shape {list(of_a)} and b of shape {list(of_b)}")
    inner = of_b[-2] if len(of_b) > 1 else of_b[0]
    if of_a[-1] != inner:
        raise input_error(f"expected a[..., m, k] and b[..., k, n], found k = {of_a[-1]} in a and {inner} in b: a has shape "
                          f"{list(of_a)}, b has shape {list(of_b)}")
    lead = _broadcast_axes(of_a[:-2], of_b[:-2])
    if lead is None:
        raise input_error(f"expected leading axes that are equal or can be broadcast, found {list(of_a[:-2])} in a and "
                          f"{list(of_b[:-2])} in b")
    return [*lead, *of_a[-2:-1], *(of_b[-1:] if len(of_b) > 1 else ())]


def check_matmul(a, b):
    """Raises Error if a @ b is not defined or has no kernels."""
    shape = matmul_shape(a, b)
    if dtype_of(a) == dtype_of(b) == "int8":
        return shape
    check_one_dtype({"a": a, "b": b})
    return shape


def _broadcast_axes(first, second):
    """Returns the leading axes of both operands together, or None if they do not match."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    out = list(longer)
    for i, extent in enumerate(shorter, len(longer) - len(shorter)):
        if out[i] == 1:
            out[i] = extent
        elif extent != 1 and extent != out[i]:
            return None
    return out


def check_softmax(x):
    """Returns the number of axes of x. Raises Error if it has no softmax."""
    rank = rank_of("x", x)
    float_dtype_of("x", x)
    return rank


def check_rmsnorm(x, weight, eps):
    """Raises Error if x[..., D], weight[D] or eps are not those of a norm."""
    rank_of("x", x)
    float_dtype_of("x", x)
    if not isinstance(eps, (int, float)) and not hasattr(eps, "__float__"):
        raise usage_error(f"eps: expected a number of at least 0, found {eps!r}")
    if not 0 <= eps < float("inf"):
        raise usage_error(f"eps: expected a number of at least 0, found {eps}")
    if weight is None:
        return
    width = shape_of("x", x)[-1]
    if shape_of("weight", weight) != (width,):
        raise input_error(f"expected weight to have shape {[width]}, a number for each column of x, found "
                          f"{list(shape_of('weight', weight))}")
    if float_dtype_of("weight", weight) not in (dtype_of(x), "f32"):
        raise input_error(f"expected weight to be {dtype_name(x)}, as x is, or float32, found {dtype_name(weight)}")


def geglu_shape(x, w, b):
    """Returns the shape of the result for x[..., D], w[2*F, D] and b[2*F] or None. Raises Error."""
    rank_of("x", x)
    of_w = shape_of("w", w)
    if len(of_w) != 2 or of_w[0] % 2 != 0:
        raise input_error(f"expected w to have an even number of rows and two axes, found shape {of_w}")
    of_x = shape_of("x", x)
    if of_x[-1] != of_w[1]:
        raise input_error(f"expected rows of x as long as those of w, {of_w[1]}, found {of_x[-1]}: w has the layout of "
                          "torch.nn.Linear, [2*F, D]")
    if b is not None and shape_of("b", b) != (of_w[0],):
        raise input_error(f"expected b to have shape {(of_w[0],)}, a number for each row of w, found {shape_of('b', b)}")
    check_one_dtype({"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b})
    return [*of_x[:-1], of_w[0] // 2]


def attention_shape(q, k, v, mask=None, lengths=None, enable_gqa=False):
    """Returns the shape of the result for q[..., S, E], k[..., T, E] and v[..., T, V]. Raises Error."""
    for name, array in (("q", q), ("k", k), ("v", v)):
        rank_of(name, array, 2)
    of_q, of_k, of_v = shape_of("q", q), shape_of("k", k), shape_of("v", v)
    if not len(of_q) == len(of_k) == len(of_v):
        raise input_error(f"expected q, k and v to have as many axes, found {len(of_q)}, {len(of_k)} and {len(of_v)}")
    if of_q[-1] != of_k[-1]:
        raise input_error(f"expected keys as wide as queries, found width {of_k[-1]} in k and {of_q[-1]} in q")
    if of_k[-2] != of_v[-2]:
        raise input_error(f"expected a value for each key, found {of_k[-2]} keys and {of_v[-2]} values")
    _check_heads(of_q[:-2], of_k[:-2], of_v[:-2], enable_gqa)
    check_one_dtype({"q": q, "k": k, "v": v})
    if lengths is not None:
        check_lengths_shape(of_q[:-2], lengths)
    if mask is not None:
        _check_mask_shape([*of_q[:-1], of_k[-2]], mask)
    return [*of_q[:-1], of_v[-1]]


def _check_heads(of_q, of_k, of_v, enable_gqa):
    """Raises Error if the leading axes of attention do not match."""
    if of_k != of_v:
        raise input_error(f"expected the same leading axes in k and v, found {list(of_k)} and {list(of_v)}")
    if of_q == of_k:
        return
    shares = bool(of_q) and of_q[:-1] == of_k[:-1] and of_k[-1] > 0 and of_q[-1] % of_k[-1] == 0
    if shares and enable_gqa:
        return
    cure = f": enable_gqa=True shares each head of k and v among {of_q[-1] // of_k[-1]} heads of q" if shares else ""
    raise input_error(f"expected the same leading axes in q and k, found {list(of_q)} and {list(of_k)}{cure}")


def check_lengths_shape(lead, lengths):
    """Raises Error unless there is a length for each of the first leading axes."""
    found = shape_of("lengths", lengths)
    if not 1 <= len(found) <= len(lead):
        raise input_error(f"expected a length for each of some leading axes of q, which has {len(lead)}, found lengths of "
                          f"{len(found)} axes")
    if found != lead[:len(found)]:
        raise input_error(f"expected lengths to have shape {list(lead[:len(found)])}, the first axes of q, found {list(found)}")
    if dtype_name(lengths) not in ("int32", "int64", "i", "l", "q"):
        raise input_error(f"expected lengths to be int32 or int64, found {dtype_name(lengths)}")


def _check_mask_shape(scores, mask):
    """Raises Error unless a mask can be broadcast to the shape of the scores."""
    found = shape_of("attn_mask", mask)
    aligned = scores[len(scores) - len(found):]
    if len(found) > len(scores) or any(each not in (1, wanted) for each, wanted in zip(found, aligned)):
        raise input_error(f"expected attn_mask to be broadcast to the scores, {scores}, found shape {list(found)}")
    if dtype_name(mask) not in ("bool", "?"):
        float_dtype_of("attn_mask", mask)
