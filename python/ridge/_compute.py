"""Runs programs on arrays."""
from . import _ridge
from ._error import Error, text_of

_LETTERS = "ABCDEFGHIJKLMNOP"


def _is_size(value):
    return hasattr(value, "__index__") and not hasattr(value, "shape")


def run(program, *arrays, dims=None, dtype=None, wanted=(), out=None, fuse=True, threads=0, **named):
    """Runs a program on arrays, on this CPU or on the CUDA device of the arrays.

        ridge.run("bd,df->bf", x, w)
        ridge.run("x: f32[N, D]  y[N, D] = softmax(x over D)", x=array)

    arrays     inputs in the program's order, or by name; `B=64` sets a size that no array has, as `dims` does
    dtype      dtype of tensors that declare none (default: the arrays' dtype)
    wanted     names of the results to return (default: every output)
    out        array for the result, or mapping from names to arrays; row-major, not overlapping the inputs
    threads    number of threads; 0 for every core that the process may use; ignored on a device

    Returns an array of the first input's library, or a dict from names to arrays if there are several results. Inputs
    are not copied unless their memory has gaps. On a device, arrays must be PyTorch's or CuPy's; the call queues the work
    on the library's current stream, uses its allocator and returns without waiting. Raises ridge.Error for an error in
    the program (with its position), an array of another dtype or shape, and arrays on several devices.
    """
    program = text_of("a program", program, "bd,df->bf")
    sizes = dict(dims or {})
    inputs = [("", array) for array in arrays]
    for name, value in named.items():
        if _is_size(value):
            sizes[name] = int(value)
        else:
            inputs.append((name, value))
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    outputs = out if isinstance(out, dict) else {"": out}
    results = _ridge.run(program, inputs, sizes, dtype, wanted, outputs, fuse, threads)
    return results[0][1] if len(results) == 1 else dict(results)


def _axes(count, last=""):
    """Returns axis names: "A, B, C" for three axes; `last` replaces the last name."""
    names = list(_LETTERS[:count])
    if last:
        names[-1] = last
    return ", ".join(names)


def _shape(array):
    shape = getattr(array, "shape", None)
    return tuple(memoryview(array).shape if shape is None else shape)


def _rank(name, array):
    rank = len(_shape(array))
    if not 1 <= rank <= 14:
        raise ValueError(f"expected {name} to have 1 to 14 axes, found {rank}")
    return rank


def _last(array):
    """Returns the size of the last axis."""
    return _shape(array)[-1]


def softmax(x, axis=-1, *, out=None, threads=0):
    """Returns exp(x) divided by its sum along an axis, computed in f32. x: f32, bf16 or f16 of any shape, as the result."""
    rank = _rank("x", x)
    if not -rank <= axis < rank:
        raise ValueError(f"expected an axis from {-rank} to {rank - 1}, found {axis}")
    axes, over = _axes(rank), _LETTERS[axis % rank]
    return run(f"x[{axes}]\ny[{axes}] = softmax(x over {over})", x=x, out=out, threads=threads)


def rmsnorm(x, weight=None, *, eps=1e-5, out=None, threads=0):
    """Returns x / sqrt(mean(x * x) + eps) along the last axis, times the optional weight[D]. x[..., D]: f32, bf16 or f16."""
    axes = _axes(_rank("x", x), "W")
    scaled = f"x * rsqrt(mean(x * x over W) + {float(eps)!r})" if eps != 1e-5 else "rmsnorm(x over W)"
    if weight is None:
        return run(f"x[{axes}]\ny[{axes}] = {scaled}", x=x, out=out, threads=threads)
    return run(f"x[{axes}]\nw[W]\ny[{axes}] = {scaled} * w", x=x, w=weight, out=out, threads=threads)


def _input_error(message):
    return Error(3, message, "", "", 0, 0, message)


def _check_layer(x, w, b):
    """Raises Error if the shapes or dtypes of a layer's arrays do not match."""
    if _rank("w", w) != 2 or _shape(w)[0] % 2 != 0:
        raise _input_error(f"expected w to have an even number of rows and two axes, found shape {_shape(w)}")
    if _last(x) != _shape(w)[1]:
        raise _input_error(f"expected rows of x as long as those of w, {_shape(w)[1]}, found {_last(x)}: w has "
                           "the layout of torch.nn.Linear, [2*F, D]")
    if b is not None and _shape(b) != (_shape(w)[0],):
        raise _input_error(f"expected b to have shape {(_shape(w)[0],)}, a number for each row of w, found {_shape(b)}")
    for name, array in (("w", w), ("b", b)):
        if array is not None and _dtype_name(array) != _dtype_name(x):
            raise _input_error(f"expected x and {name} of one dtype, found {_dtype_name(x)} and {_dtype_name(array)}")


def geglu(x, w, b=None, *, approximate="none", out=None, threads=0):
    """Returns a gated linear layer: u * gelu(g), where u and g are the halves of x @ w.T + b.

    Shapes: x [..., D], w [2*F, D], b [2*F], as in torch.nn.Linear(D, 2*F); the result is [..., F]. Arrays are bf16, f16
    or f32, with f32 sums. approximate="tanh" uses the tanh approximation of gelu. The halves are not stored.
    """
    gelu = {"none": "gelu", "tanh": "gelu_tanh"}.get(approximate)
    if gelu is None:
        raise ValueError(f"expected approximate to be 'none' or 'tanh', found {approximate!r}")
    rank = _rank("x", x)
    _check_layer(x, w, b)
    rows = _axes(rank, "W")
    result = ", ".join([*_LETTERS[:rank - 1], "V"])
    lines = [f"x[{rows}]", "w[2*V, W]", "up[V, W] = w[0:V]", "gate[V, W] = w[V:2*V]"]
    up, gate = "u", "g"
    if b is not None:
        lines += ["b[2*V]", "bu[V] = b[0:V]", "bg[V] = b[V:2*V]"]
        up, gate = "(u + bu)", "g + bg"
    lines += [f"u[{result}] = x * up", f"g[{result}] = x * gate", f"y[{result}] = {up} * {gelu}({gate})"]
    given = {"x": x, "w": w} if b is None else {"x": x, "w": w, "b": b}
    return run("\n".join(lines), out=out, threads=threads, **given)


def is_one_kernel(q, v):
    """True if a single kernel, with exponentials exact to 2^-22, computes this attention: values as wide as keys and, on a
    device, 16-bit inputs."""
    width = _last(q)
    is_on_cpu = str(getattr(q, "device", "cpu")) == "cpu"
    is_aligned = width % 8 == 0 or is_on_cpu  # device kernels read 16-byte vectors
    return (_dtype(q) != "f32" or is_on_cpu) and width == _last(v) <= 256 and is_aligned


def score_mask(causal, has_lengths, key="index(T)"):
    """Returns the condition for the keys that a query attends to, as program text; n: the sequence lengths."""
    if has_lengths:
        return f"{key} <= index(S) + n - size(S)" if causal else f"{key} < n"
    return f"{key} <= index(S)" if causal else ""


def declared_lengths(lead, lengths):
    """Returns the declaration of n, the sequence lengths for the first of the leading axes."""
    rank, leading = _rank("lengths", lengths), lead.split(", ")[:-1]
    if not 1 <= rank <= len(leading):
        raise _input_error(f"expected a length for each of some leading axes of q, which has {len(leading)}, found "
                           f"lengths of {rank} axes")
    return f"n: int32[{', '.join(leading[:rank])}]"


def attention(q, k, v, *, causal=False, scale=None, lengths=None, pages=None, out=None, threads=0):
    """Returns softmax(scale * q @ k.T) @ v in each head.

    Shapes: q [..., S, E], k [..., T, E], v [..., T, V], as in torch's scaled_dot_product_attention; the result is
    [..., S, V]. Leading axes are the same in all three. Arrays are bf16, f16 or f32; scores are f32.
    scale    default 1 / sqrt(E)
    causal   query i attends to keys 0 to i
    lengths  int32[B], or with more leading axes: sequence b has lengths[b] valid keys of T. The single kernel below does
             not read the other keys; separate kernels multiply them by 0. With causal, the S queries are the last of the
             sequence: query i attends to keys up to lengths[b] - S + i.
    pages    int32[B, M], or with more leading axes before M: k and v are stored in pages, [P, ..., R, E] without these
             axes; key t of sequence b is row t % R of page pages[b, t // R].
    With V = E <= 256 (on a device, 16-bit arrays and a multiple of 8), a single kernel computes the result and stores no
    scores. Otherwise the scores are stored in memory, [..., S, T].
    """
    lead = _axes(_rank("q", q) - 2)
    lead = f"{lead}, " if lead else ""
    dtype = _dtype(q)
    factor = "rsqrt(size(X))" if scale is None else repr(float(scale))
    given, declared = {"q": q, "k": k, "v": v}, []
    if lengths is not None:
        given["n"] = lengths
        declared.append(declared_lengths(lead, lengths))
    keys, key, of_k, taken = "T", "index(T)", f"{lead}T", ("k", "v")
    of_scores, of_weights, width = ("", "", "X") if is_one_kernel(q, v) else (": f32", f": {dtype}", "Y")
    if pages is not None:
        given["pages"] = pages
        keys, key, taken = "M, R", "index(M) * size(R) + index(R)", ("a", "b")
        leading = lead.split(", ")[:-1]
        listed = _rank("pages", pages) - 1
        of_k = ", ".join(["P", *leading[listed:], "R"])
        declared.append(f"pages: int32[{', '.join([*leading[:listed], 'M'])}]")
        declared += [f"a[{lead}M, R, X] = gather(k, pages over P)", f"b[{lead}M, R, {width}] = gather(v, pages over P)"]
    score = f"s * {factor}"
    condition = score_mask(causal, lengths is not None, key)
    if condition:
        score = f"where({condition}, {score}, -inf)"
    program = "\n".join([f"q[{lead}S, X]", f"k[{of_k}, X]", f"v[{of_k}, {width}]", *declared,
                         f"s{of_scores}[{lead}S, {keys}] = q * {taken[0]}",
                         f"p{of_weights}[{lead}S, {keys}] = softmax({score} over {keys})",
                         f"o: {dtype}[{lead}S, {width}] = p * {taken[1]}"])
    return run(program, wanted="o", out=out, threads=threads, **given)


def _dtype_name(array):
    """Returns "float32" for NumPy and PyTorch, "f" for a buffer."""
    name = str(getattr(array, "dtype", memoryview(array).format if not hasattr(array, "dtype") else ""))
    return name.rpartition(".")[2]


def _dtype(array):
    """Returns the name of an array's dtype in programs."""
    spelling = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "f": "f32", "e": "f16"}
    return spelling.get(_dtype_name(array), "bf16")
