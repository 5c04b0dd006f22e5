"""HTML for notebooks, and data frames; imported on first use."""
import base64
import html


def _engineering(value, unit):
    """Formats a number with an SI prefix: 2.147e9, "FLOP" becomes "2.147 GFLOP"."""
    if value is None:
        return "?"
    if value == 0:
        return f"0 {unit}"
    prefixes = ["p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
    power = 0
    while abs(value) >= 999.95 and power < 6:
        value, power = value / 1000, power + 1
    while abs(value) < 0.99995 and power > -4:
        value, power = value * 1000, power - 1
    return f"{value:.4g} {prefixes[power + 4]}{unit}"


def _number(value):
    return "?" if value is None else f"{value:.4g}"


def _picture(svg, what):
    """Returns an <img> element, so that pictures on one page do not share styles."""
    data = base64.b64encode(svg.encode()).decode()
    return f"<img alt='{what}' style='max-width: 100%' src='data:image/svg+xml;base64,{data}'/>"


def table(head, rows, words=1):
    """Returns a table. Cells do not wrap, and those after the first `words` columns are aligned right, since they are numbers."""
    def line(cells, tag):
        styled = [f"<{tag} style='white-space: nowrap; text-align: {'left' if column < words else 'right'}'>{html.escape(cell)}</{tag}>"
                  for column, cell in enumerate(cells)]
        return f"<tr>{''.join(styled)}</tr>"

    return f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


def _row(name, op):
    return (name, _engineering(op.flops, "FLOP"), _engineering(op.bytes, "B"), _number(op.intensity), _number(op.ridge),
            op.limiter or "?", _engineering(op.time.lower, "s"), _engineering(op.time.upper, "s"))


def report(of):
    """Returns the roofline plot and a table of the operations."""
    head = ("op", "work", "bytes", "FLOP/B", "ridge", "limiter", "lower", "no overlap")
    rows = [_row(op.name, op) for op in of.ops]
    if len(of.ops) > 1:
        rows.append(_row("total", of.total))
    if of.fused is not None:
        rows.append(_row("fused", of.fused))
    dims = ", ".join(f"{name} = {value}" for name, value in of.dims.items())
    return (f"<div class='ridge'><p>{html.escape(of.title)} on {html.escape(of.machine)}; {html.escape(dims)}</p>"
            f"{_picture(of.svg(), 'roofline')}{table(head, rows)}</div>")


def _cell(value):
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def sweep(of, max_rows=64):
    """Returns the curves and a table of the first `max_rows` points."""
    columns = of.columns()
    cells = list(zip(*columns.values()))
    rows = [[_cell(cell) for cell in row] for row in cells[:max_rows]]
    more = f"<p>{len(cells) - max_rows} more rows: see to_pandas()</p>" if len(cells) > max_rows else ""
    picture = _picture(of.svg(), "curves of attainable FLOP/s")
    return f"<div class='ridge'>{picture}{table(columns, rows, words=2)}{more}</div>"


def to_pandas(of):
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas, which is not installed: pip install pandas") from error
    return pandas.DataFrame(of.columns())


def as_bf16(words):
    """Returns 16-bit integers of NumPy as bfloat16 of ml_dtypes."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("a bf16 result for NumPy needs ml_dtypes, which is not installed: pip install ml_dtypes, "
                          "or pass torch tensors") from error
    return words.view(ml_dtypes.bfloat16)
