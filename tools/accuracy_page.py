"""The page of tools/accuracy_table.py: for each set of timings predicted against measured, residuals and the ten largest errors."""
import html
import math

MAX_POINTS = 300  # in a picture; every n-th point is drawn
WORST = 10
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 340, 250, 52, 34, 10, 24
MAX_RATIO = 2.0  # largest ratio in a picture of residuals

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --grid: #d8dce4; --dot: #1f6feb; --line: #b3261e; --band: #1f6feb22; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --paper: #14171d; --grid: #343a46; --dot: #7ab0ff; --line: #ff8a80; --band: #7ab0ff26; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 760px; padding: 16px; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2em 0 .3em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 2px 8px; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9em; }
.pair { display: flex; flex-wrap: wrap; gap: 8px; } svg { flex: 1 1 300px; max-width: 366px; height: auto; }
svg text { fill: var(--ink); font-size: 11px; } .grid { stroke: var(--grid); fill: none; } .line { stroke: var(--line); fill: none; }
.dots { stroke: var(--dot); stroke-width: 3; stroke-linecap: round; stroke-opacity: .55; fill: none; } .band { fill: var(--band); }
"""


def decade_exponents(low, high):
    return range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)


def format_time(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class Axes:
    """Logarithmic in x; `to_y` maps a value to 0 … 1."""

    def __init__(self, exponents, to_y):
        self.exponents, self.to_y = exponents, to_y

    def x(self, value):
        first, last = self.exponents[0], self.exponents[-1]
        return LEFT + (math.log10(value) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - self.to_y(value) * (HEIGHT - BOTTOM - TOP)

    def frame(self, marks, label):
        out = []
        for e in self.exponents:
            at = self.x(10.0 ** e)
            out.append(f'<path class="grid" d="M{at:.0f} {TOP}V{HEIGHT - BOTTOM}"/>')
            out.append(f'<text x="{at:.0f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{format_time(10.0 ** e)}</text>')
        for value, text in marks:
            out.append(f'<path class="grid" d="M{LEFT} {self.y(value):.0f}H{WIDTH - RIGHT}"/>')
            out.append(f'<text x="{LEFT - 4}" y="{self.y(value) + 4:.0f}" text-anchor="end">{text}</text>')
        out.append(f'<text x="{(LEFT + WIDTH) // 2}" y="{HEIGHT - 4}" text-anchor="middle">{label}</text>')
        return "".join(out)

    def dots(self, points):
        return '<path class="dots" d="' + "".join(f"M{self.x(a):.0f} {self.y(b):.0f}h.1" for a, b in points) + '"/>'


def svg(title, inside):
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">{inside}</svg>'


def plot_prediction(name, points, exponents):
    first, last = exponents[0], exponents[-1]
    axes = Axes(exponents, lambda s: (min(max(math.log10(s), first), last) - first) / (last - first))
    line = f'<path class="line" d="M{axes.x(10.0 ** first):.0f} {axes.y(10.0 ** first):.0f}L{axes.x(10.0 ** last):.0f} {axes.y(10.0 ** last):.0f}"/>'
    marks = [(10.0 ** e, format_time(10.0 ** e)) for e in exponents]
    return svg(f"{name}: predicted against measured", axes.frame(marks, "x: measured; y: predicted") + line +
               axes.dots([(p["measured_s"], p["predicted_s"]) for p in points]))


def plot_residuals(name, points, exponents):
    most = math.log(MAX_RATIO)
    axes = Axes(exponents, lambda r: (min(max(math.log(r), -most), most) + most) / (2 * most))
    low, high = (points[0][k] / points[0]["predicted_s"] for k in ("low_s", "high_s"))
    band = (f'<rect class="band" x="{LEFT}" y="{axes.y(high):.0f}" width="{WIDTH - LEFT - RIGHT}" '
            f'height="{axes.y(low) - axes.y(high):.0f}"/>')
    line = f'<path class="line" d="M{LEFT} {axes.y(1):.0f}H{WIDTH - RIGHT}"/>'
    marks = [(r, f"{r:g}") for r in (0.5, 0.8, 1, 1.25, 2)]
    return svg(f"{name}: measured over predicted", band + axes.frame(marks, "x: measured; y: measured / predicted") + line +
               axes.dots([(p["measured_s"], p["measured_s"] / p["predicted_s"]) for p in points]))


def worst_table(points):
    names = [k for k in points[0] if not k.endswith("_s") and k not in ("sizes", "kind")]
    worst = sorted(points, key=lambda p: -abs(math.log(p["predicted_s"] / p["measured_s"])))[:WORST]
    rows = "".join("<tr>" + "".join(f"<td>{p[n]:g}</td>" for n in names) + f"<td>{format_time(p['measured_s'])}</td>"
                   f"<td>{format_time(p['predicted_s'])}</td><td>{p['measured_s'] / p['predicted_s']:.2f}</td></tr>" for p in worst)
    head = "".join(f"<th>{n}</th>" for n in [*names, "measured", "predicted", "ratio"])
    return f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div>'


def section(line, points):
    name = line[0]
    times = [p[k] for p in points for k in ("measured_s", "predicted_s")]
    exponents = list(decade_exponents(min(times), max(times)))
    drawn = points[::max(1, math.ceil(len(points) / MAX_POINTS))]
    return (f"<h2>{html.escape(name)}</h2><p>{len(points)} held-out kernels, {len(drawn)} of them drawn: mean error {line[5]}, "
            f"90th percentile {line[6]}; the 80 % interval holds for {line[7]}.</p>"
            f'<div class="pair">{plot_prediction(name, drawn, exponents)}{plot_residuals(name, drawn, exponents)}</div>'
            f"<details><summary>The ten largest errors</summary>{worst_table(points)}</details>")


def render_page(head, shown):
    cells = lambda tag, row: "".join(f"<{tag}>{html.escape(x)}</{tag}>" for x in row)
    table = f"<tr>{cells('th', head)}</tr>" + "".join(f"<tr>{cells('td', line)}</tr>" for line, _ in shown)
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Predicted against measured</title><style>{STYLE}</style></head><body><h1>Predicted against measured</h1>"
            "<p>Library kernels with unknown plans, predicted by formulas of at most ten numbers. <code>ridge calibrate</code> fitted the "
            "numbers to one half of the sites; this page shows the other half. Made by <code>tools/accuracy_table.py</code>.</p>"
            f'<div class="scroll"><table>{table}</table></div>' + "".join(section(*x) for x in shown) + "</body></html>\n")
