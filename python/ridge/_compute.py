"""Programs on arrays."""
from . import _ridge
from ._error import Error, text_of

_LETTERS = "ABCDEFGHIJKLMNOP"


def _is_size(value):
    return hasattr(value, "__index__") and not hasattr(value, "shape")


def run(program, *arrays, dims=None, dtype=None, wanted=(), out=None, fuse=True, threads=0, **named):
    """Runs a program on arrays: on this CPU, or on the CUDA device that all of them lie on.

        ridge.run("bd,df->bf", x, w)
        ridge.run("x: f32[N, D]  y[N, D] = softmax(x over D)", x=array)

    arrays     the inputs in the program's order, or by name; `B=64` gives a size that no array has, as `dims` does
    dtype      of tensors that name none: the arrays' own by default
    wanted     the results that are asked for, by name; every output by default
    out        where results go: an array, or a mapping from names; row-major, apart from the inputs
    threads    0: every core that the process may use; of no concern on a device

    Returns an array of the first input's library, or a dict of them by name where there are several. An input is read
    where it lies; one whose memory has gaps is copied first. On a device the arrays are PyTorch's or CuPy's; the work
    joins that library's current stream, takes memory from its allocator and is not waited for. Raises ridge.Error: of
    the program, with its place; an array of another dtype or shape; arrays in several places.
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
    places = out if isinstance(out, dict) else {"": out}
    results = _ridge.run(program, inputs, sizes, dtype, wanted, places, fuse, threads)
    return results[0][1] if len(results) == 1 else dict(results)


def _axes(count, last=""):
    """"A, B, C" for three axes, the last one called `last` where that is said."""
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
    """The size of its last axis."""
    return _shape(array)[-1]


def softmax(x, axis=-1, *, out=None, threads=0):
    """exp(x) over its sum along an axis, computed in f32. x: f32, bf16 or f16 of any shape; so is the result."""
    rank = _rank("x", x)
    if not -rank <= axis < rank:
        raise ValueError(f"expected an axis from {-rank} to {rank - 1}, found {axis}")
    axes, over = _axes(rank), _LETTERS[axis % rank]
    return run(f"x[{axes}]\ny[{axes}] = softmax(x over {over})", x=x, out=out, threads=threads)


def rmsnorm(x, weight=None, *, eps=1e-5, out=None, threads=0):
    """x / sqrt(mean(x * x) + eps) along the last axis, times weight[D] where it is given. x[..., D]: f32, bf16 or f16."""
    axes = _axes(_rank("x", x), "W")
    scaled = f"x * rsqrt(mean(x * x over W) + {float(eps)!r})" if eps != 1e-5 else "rmsnorm(x over W)"
    if weight is None:
        return run(f"x[{axes}]\ny[{axes}] = {scaled}", x=x, out=out, threads=threads)
    return run(f"x[{axes}]\nw[W]\ny[{axes}] = {scaled} * w", x=x, w=weight, out=out, threads=threads)


def _input_error(message):
    return Error(3, message, "", "", 0, 0, message)


def _check_layer(x, w, b):
    """Raises Error where a layer's arrays do not belong together."""
    if _rank("w", w) != 2 or _shape(w)[0] % 2 != 0:
        raise _input_error(f"expected w to have an even number of rows and two axes, found shape {_shape(w)}")
    if _last(x) != _shape(w)[1]:
        raise _input_error(f"expected rows of x as long as those of w, {_shape(w)[1]}, found {_last(x)}: w lies as "
                         "torch.nn.Linear has it, [2*F, D]")
    if b is not None and _shape(b) != (_shape(w)[0],):
        raise _input_error(f"expected b to have shape {(_shape(w)[0],)}, a number for each row of w, found {_shape(b)}")
    for name, array in (("w", w), ("b", b)):
        if array is not None and _dtype_name(array) != _dtype_name(x):
            raise _input_error(f"expected x and {name} of one dtype, found {_dtype_name(x)} and {_dtype_name(array)}")


def geglu(x, w, b=None, *, approximate="none", out=None, threads=0):
    """A linear layer and its gate: u * gelu(g), where u and g are the halves of x @ w.T + b.

    x: [..., D], w: [2*F, D], b: [2*F], as torch.nn.Linear(D, 2*F) has them; the result is [..., F]. bf16, f16 or f32,
    sums in f32. approximate = "tanh" takes gelu's approximation. The halves are never stored.
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


def is_one_kernel(q, v, has_lengths=False):
    """Whether one kernel, whose exponentials are within 2^-22, does attention of these: of 16 bits, or where it is to leave out
    what lies behind a sequence's end, with values as wide as keys."""
    width = _last(q)
    lies_whole = width % 8 == 0 or str(getattr(q, "device", "cpu")) == "cpu"  # a device reads 16 bytes at once
    return (_dtype(q) != "f32" or has_lengths) and width == _last(v) <= 256 and lies_whole


def score_mask(causal, has_lengths, key="index(T)"):
    """Which keys a query sees, as a program says it; n: the lengths of sequences."""
    if has_lengths:
        return f"{key} <= index(S) + n - size(S)" if causal else f"{key} < n"
    return f"{key} <= index(S)" if causal else ""


def declared_lengths(lead, lengths):
    """The declaration of n, lengths for the first of the leading axes."""
    rank, leading = _rank("lengths", lengths), lead.split(", ")[:-1]
    if not 1 <= rank <= len(leading):
        raise _input_error(f"expected a length for each of some leading axes of q, which has {len(leading)}, found "
                           f"lengths of {rank} axes")
    return f"n: int32[{', '.join(leading[:rank])}]"


def attention(q, k, v, *, causal=False, scale=None, lengths=None, pages=None, out=None, threads=0):
    """softmax(scale * q @ k.T) @ v, in each head.

    q: [..., S, E], k: [..., T, E], v: [..., T, V], as torch's scaled_dot_product_attention has them; the result is
    [..., S, V]. bf16, f16 or f32; scores are f32. scale: 1 / sqrt(E) by default. causal: query i sees keys up to i.
    lengths: int32[B], or of more of the leading axes: sequence b has lengths[b] keys of the T that there is room for; what
    lies behind them is not read by the one kernel below, and multiplied by 0 by several. Causal, its S rows are then the
    last of these: query i sees keys up to lengths[b] - S + i.
    pages: int32[B, M], or of more of the leading axes before M: k and v lie in pages, [P, ..., R, E] without these axes,
    and key t of sequence b is row t % R of page pages[b, t // R].
    Leading axes are the same in all three. Of bf16 or f16 with V = E <= 256 (on a device, of whole eights) one kernel
    does it and no scores are stored; on a CPU so it does of f32 with lengths; else they are held in memory, [..., S, T].
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
    of_scores, of_weights, width = ("", "", "X") if is_one_kernel(q, v, lengths is not None) else (": f32", f": {dtype}", "Y")
    if pages is not None:
        given["pages"] = pages
        keys, key, taken = "M, R", "index(M) * size(R) + index(R)", ("a", "b")
        leading = lead.split(", ")[:-1]
        listed = _rank("pages", pages) - 1
        of_k = ", ".join(["P", *leading[listed:], "R"])
        declared.append(f"pages: int32[{', '.join([*leading[:listed], 'M'])}]")
        declared += [f"a[{lead}M, R, X] = gather(k, pages over P)", f"b[{lead}M, R, {width}] = gather(v, pages over P)"]
    score = f"s * {factor}"
    sees = score_mask(causal, lengths is not None, key)
    if sees:
        score = f"where({sees}, {score}, -inf)"
    program = "\n".join([f"q[{lead}S, X]", f"k[{of_k}, X]", f"v[{of_k}, {width}]", *declared,
                         f"s{of_scores}[{lead}S, {keys}] = q * {taken[0]}",
                         f"p{of_weights}[{lead}S, {keys}] = softmax({score} over {keys})",
                         f"o: {dtype}[{lead}S, {width}] = p * {taken[1]}"])
    return run(program, wanted="o", out=out, threads=threads, **given)


def _dtype_name(array):
    """"float32" of NumPy's and PyTorch's, "f" of a buffer."""
    name = str(getattr(array, "dtype", memoryview(array).format if not hasattr(array, "dtype") else ""))
    return name.rpartition(".")[2]


def _dtype(array):
    """The notation's spelling of an array's dtype."""
    spelling = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "f": "f32", "e": "f16"}
    return spelling.get(_dtype_name(array), "bf16")
