"""Attention on arrays."""
import math
from typing import Any

from ._arrays import (FLOATS, additive_mask, broadcast_to, column_of_indices, dtype_name, dtype_of, fill_zeros, is_on_host,
                      is_torch, new_zeros, shape_of)
from ._compute import LETTERS, Array, axes_text, run_layer
from ._error import input_error, usage_error
from ._shapes import attention_shape, check_lengths_shape, rank_of


def is_one_kernel(q, v):
    """True if a single kernel, with exponentials exact to 2^-22, computes this attention: values as wide as keys and, on a
    device, 16-bit inputs."""
    width = shape_of("q", q)[-1]
    on_host = is_on_host(q)
    is_aligned = width % 8 == 0 or on_host  # device kernels read 16-byte vectors
    return (dtype_of(q) != "f32" or on_host) and width == shape_of("v", v)[-1] <= 256 and is_aligned


def score_mask(causal, has_lengths, key="index(T)"):
    """Returns the condition for the keys that a query attends to, as program text; n: the sequence lengths."""
    if has_lengths:
        return f"{key} <= index(S) + n - size(S)" if causal else f"{key} < n"
    return f"{key} <= index(S)" if causal else ""


def declared_lengths(lead, lengths):
    """Returns the declaration of n, the sequence lengths for the first of the leading axes."""
    rank = len(shape_of("lengths", lengths))
    return f"n: int32[{', '.join(lead.split(', ')[:rank])}]"


def prepare_lengths(lengths, keys):
    """Returns the lengths as int32, and the least of them, or None on a device. Raises Error for one outside of 0 to `keys`;
    those on a device are not checked, because a check would wait for the device."""
    if not hasattr(lengths, "dtype"):  # A buffer, such as array.array
        import numpy
        lengths = numpy.asarray(lengths)
    if dtype_name(lengths) not in ("int32", "i"):
        lengths = lengths.int() if is_torch(lengths) else lengths.astype("int32")
    if not is_on_host(lengths) or 0 in shape_of("lengths", lengths):
        return lengths, None
    values = memoryview(lengths).tolist() if not hasattr(lengths, "tolist") else lengths.tolist()
    return lengths, _check_values(values, keys, "")


def _check_values(values, keys, place):
    """Returns the least of nested lists of lengths. Raises Error, with its place, for one outside of 0 to `keys`."""
    if isinstance(values, list):
        return min(_check_values(each, keys, f"{place}, {i}" if place else f"{i}") for i, each in enumerate(values))
    if not 0 <= values <= keys:
        raise input_error(f"lengths[{place}] is {values}; expected 0 to {keys}, the number of keys")
    return values


def hidden_rows(shape, lengths, causal):
    """Returns a mask of the queries that attend to no key; it can be broadcast to a result of this shape."""
    rows = shape[-2]
    n = lengths.reshape([*shape_of("lengths", lengths), *[1] * (len(shape) - len(shape_of("lengths", lengths)))])
    return column_of_indices(n, rows) < rows - n if causal else n == 0


def _add_mask(mask, shape, keys, lines, given):
    """Declares a mask in a program, without its axes of one element, and adds it to the arrays."""
    extents = dict(zip([*LETTERS[:len(shape) - 2], "S", "T"], [*shape[:-1], keys]))
    aligned = list(extents)[len(extents) - len(shape_of("attn_mask", mask)):]
    kept = [name for name, found in zip(aligned, shape_of("attn_mask", mask)) if found == extents[name]]
    if not kept:
        kept, mask = ["T"], broadcast_to(mask.reshape([1]), [keys])
    mask = mask if dtype_of(mask) in FLOATS else additive_mask(mask)
    given["m"] = mask.reshape([extents[name] for name in kept])
    lines.append(f"m: {dtype_of(mask)}[{', '.join(kept)}]")


def masked_rows(mask):
    """Returns a mask of the queries that attend to no key."""
    seen = mask if dtype_name(mask) in ("bool", "?") else mask > -math.inf
    return ~(seen.any(-1)[..., None])


def _share_heads(q, k, v, out):
    """Returns q, k, v and out with an axis for the heads of q that share a head of k and v."""
    of_q, heads = shape_of("q", q), shape_of("k", k)[-3]
    group = of_q[-3] // max(heads, 1)

    def share(x):
        shape = shape_of("k", x)
        return broadcast_to(x.reshape([*shape[:-2], 1, *shape[-2:]]), [*shape[:-2], group, *shape[-2:]])

    def split(x):
        shape = shape_of("q", x)
        return x.reshape([*shape[:-3], heads, group, *shape[-2:]])

    return split(q), share(k), share(v), None if out is None else split(out)


def attention(q: Array, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
              scale: float | None = None, enable_gqa: bool = False, *, causal: bool = False, lengths: Any = None,
              pages: Any = None, out: Any = None, threads: int = 0) -> Array:
    """Returns softmax(scale * q @ k.T) @ v in each head.

    Shapes: q [..., S, E], k [..., T, E], v [..., T, V], as in torch's scaled_dot_product_attention, whose argument names
    are known, too; the result is [..., S, V]. Leading axes are the same in all three. Arrays are bf16, f16 or f32; scores
    are f32. A query that attends to no key has a result of 0, as in PyTorch.
    attn_mask   booleans, true where a query attends to a key, or numbers that are added to the scores; broadcast to
                [..., S, T]
    scale       default 1 / sqrt(E)
    causal      query i attends to keys 0 to i; is_causal is the same
    enable_gqa  q has a multiple of the heads of k and v, [..., H, T, E]; consecutive heads of q share one of theirs
    lengths     int32 or int64 [B], or with more leading axes: sequence b has lengths[b] valid keys, from 0 to T. The single
                kernel below does not read the other keys; separate kernels multiply them by 0. With causal, the S queries
                are the last of the sequence: query i attends to keys up to lengths[b] - S + i. On a device, lengths are
                not checked.
    pages       int32[B, M], or with more leading axes before M: k and v are stored in pages, [P, ..., R, E] without these
                axes; key t of sequence b is row t % R of page pages[b, t // R].
    With V = E <= 256 (on a device, 16-bit arrays and a multiple of 8), a single kernel computes the result and stores no
    scores. Otherwise, and with attn_mask, the scores are stored in memory, [..., S, T]. Raises ridge.Error.
    """
    causal = bool(causal or is_causal)
    _check_options(attn_mask, dropout_p, scale, enable_gqa, causal, lengths, pages)
    if pages is not None:
        return _paged_attention(q, k, v, causal, scale, lengths, pages, out, threads)
    shape = attention_shape(q, k, v, attn_mask, lengths, enable_gqa)
    keys = shape_of("k", k)[-2]
    least = None
    if lengths is not None:
        lengths, least = prepare_lengths(lengths, keys)
    if 0 in shape or keys == 0:
        return new_zeros(q, shape, out)
    if shape_of("q", q)[-1] == 0:  # Every score is 0, as with a column of zeros
        q, k = new_zeros(q, [*shape[:-1], 1]), new_zeros(k, [*shape_of("k", k)[:-1], 1])
        scale = 1.0
    if enable_gqa and shape_of("k", k)[:-2] != tuple(shape[:-2]):
        if attn_mask is not None and len(shape_of("attn_mask", attn_mask)) > 2:
            attn_mask = _split_mask_heads(attn_mask, shape_of("k", k)[-3])
        shared = _share_heads(q, k, v, out)
        if lengths is not None and len(shape_of("lengths", lengths)) > len(shape) - 3:
            raise input_error("expected lengths without an axis of heads together with enable_gqa=True")
        found = attention(*shared[:3], attn_mask, scale=scale, causal=causal, lengths=lengths, out=shared[3], threads=threads)
        return found.reshape(shape) if out is None else out
    found = run_layer(*_attention_program(q, k, v, shape, attn_mask, scale, causal, lengths), out, threads, "o")
    if lengths is not None and (least is None or least < (shape[-2] if causal else 1)):
        fill_zeros(found, hidden_rows(shape, lengths, causal))
    if attn_mask is not None:
        fill_zeros(found, masked_rows(attn_mask))
    return found


def _check_options(attn_mask, dropout_p, scale, enable_gqa, causal, lengths, pages):
    """Raises Error for options that cannot be combined, and for a scale that is not finite."""
    if dropout_p != 0:
        raise usage_error(f"dropout_p: expected 0, because attention has no dropout, found {dropout_p!r}")
    if scale is not None and not (hasattr(scale, "__float__") and math.isfinite(scale)):
        raise usage_error(f"scale: expected a finite number, found {scale!r}")
    if attn_mask is not None and (causal or lengths is not None or pages is not None):
        raise usage_error("expected attn_mask alone, found it together with causal, lengths or pages: write all conditions "
                          "into the mask")
    if enable_gqa and pages is not None:
        raise usage_error("expected enable_gqa without pages: repeat the heads of k and v in the pages")


def _split_mask_heads(mask, heads):
    """Returns a mask of [..., heads of q, S, T] as [..., heads, group, S, T]."""
    shape = shape_of("attn_mask", mask)
    split = [1, 1] if shape[-3] == 1 else [heads, shape[-3] // heads]
    return mask.reshape([*shape[:-3], *split, *shape[-2:]])


def _attention_program(q, k, v, shape, mask, scale, causal, lengths):
    """Returns a program that computes attention, and its arrays by name."""
    lead = axes_text(len(shape) - 2)
    lead = f"{lead}, " if lead else ""
    dtype, factor = dtype_of(q), "rsqrt(size(X))" if scale is None else repr(float(scale))
    given, declared = {"q": q, "k": k, "v": v}, []
    one_kernel = is_one_kernel(q, v) and mask is None
    width = "X" if one_kernel else "Y"
    if lengths is not None:
        given["n"] = lengths
        declared.append(declared_lengths(lead, lengths))
    score, condition = f"s * {factor}", score_mask(causal, lengths is not None)
    if mask is not None:
        _add_mask(mask, shape, shape_of("k", k)[-2], declared, given)
        score = f"{score} + m"
    elif condition:
        score = f"where({condition}, {score}, -inf)"
    of_scores, of_weights = ("", "") if one_kernel else (": f32", f": {dtype}")
    program = [f"q: {dtype}[{lead}S, X]", f"k: {dtype}[{lead}T, X]", f"v: {dtype}[{lead}T, {width}]", *declared,
               f"s{of_scores}[{lead}S, T] = q * k", f"p{of_weights}[{lead}S, T] = softmax({score} over T)",
               f"o: {dtype}[{lead}S, {width}] = p * v"]
    return "\n".join(program), given


def _paged_attention(q, k, v, causal, scale, lengths, pages, out, threads):
    """Returns attention with keys and values in pages."""
    lead = axes_text(rank_of("q", q, 2) - 2)
    lead = f"{lead}, " if lead else ""
    leading, dtype = lead.split(", ")[:-1], dtype_of(q)
    listed = rank_of("pages", pages) - 1
    if listed > len(leading):
        raise input_error(f"expected pages to have at most {len(leading) + 1} axes, as many as q has before its last two and "
                          f"one more, found {listed + 1}")
    page_rows = shape_of("k", k)[-2:-1] if rank_of("k", k, 3) else ()
    given = {"q": q, "k": k, "v": v}
    factor = "rsqrt(size(X))" if scale is None else repr(float(scale))
    of_scores, of_weights, width = ("", "", "X") if is_one_kernel(q, v) else (": f32", f": {dtype}", "Y")
    declared, least = [], None
    if lengths is not None:
        check_lengths_shape(shape_of("q", q)[:-2], lengths)
        given["n"], least = prepare_lengths(lengths, shape_of("pages", pages)[-1] * page_rows[0])
        declared.append(declared_lengths(lead, lengths))
    given["pages"] = pages
    key, keys = "index(M) * size(R) + index(R)", "M, R"
    of_k = ", ".join(["P", *leading[listed:], "R"])
    declared.append(f"pages: int32[{', '.join([*leading[:listed], 'M'])}]")
    declared += [f"a[{lead}M, R, X] = gather(k, pages over P)", f"b[{lead}M, R, {width}] = gather(v, pages over P)"]
    score, condition = f"s * {factor}", score_mask(causal, lengths is not None, key)
    if condition:
        score = f"where({condition}, {score}, -inf)"
    program = "\n".join([f"q[{lead}S, X]", f"k[{of_k}, X]", f"v[{of_k}, {width}]", *declared,
                         f"s{of_scores}[{lead}S, {keys}] = q * a",
                         f"p{of_weights}[{lead}S, {keys}] = softmax({score} over {keys})",
                         f"o: {dtype}[{lead}S, {width}] = p * b"])
    found = run_layer(program, given, out, threads, "o")
    if lengths is not None and (least is None or least < (shape_of("q", q)[-2] if causal else 1)):
        fill_zeros(found, hidden_rows(shape_of("out", found), given["n"], causal))
    return found
