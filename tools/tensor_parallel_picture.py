"""The picture of docs/distributed.md: communication fractions of a tensor-parallel layer, by rooflines and as measured."""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 740, 330, 60, 40, 50, 270
GPUS = (1, 2, 4, 8)
STYLE = """
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:13px;fill:#1f2328}
.title{font-size:16px;font-weight:600}.soft{fill:#57606a;font-size:12px}.back{fill:#ffffff}.grid{stroke:#d0d7de;stroke-width:1}
.curve{fill:none;stroke-width:2.5;stroke-linejoin:round}.dot{stroke-width:2;fill:#ffffff}
.s0{stroke:#0072b2}.s1{stroke:#c24f00}.s2{stroke:#00805d}.s3{stroke:#b5588f}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#30363d}.dot{fill:#0d1117}
.s0{stroke:#56b4e9}.s1{stroke:#f0883e}.s2{stroke:#3fb68b}.s3{stroke:#e083b8}}
"""


def draw_picture(results):
    """Returns an SVG with the rooflines of the first result and the rows of all."""
    roofs = results[0]["share_by_roofs"]
    top = max(0.5, *(fraction for curve in roofs.values() for fraction in curve.values()))
    x = lambda gpus: LEFT + GPUS.index(int(gpus)) / (len(GPUS) - 1) * (WIDTH - LEFT - RIGHT)  # noqa: E731
    y = lambda fraction: HEIGHT - BOTTOM - fraction / top * (HEIGHT - TOP - BOTTOM)  # noqa: E731
    text = lambda x, y, words, anchor="middle": f'<text class="soft" x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'  # noqa: E731
    devices = ", ".join(sorted({result["device"] for result in results}))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
           f"<title>Communication fraction of a tensor-parallel layer, by the number of GPUs</title>\n<style>{STYLE}</style>",
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
           f'<text class="title" x="{LEFT}" y="22">Communication fraction of a tensor-parallel layer\'s time</text>']
    for tenth in range(int(top * 10) + 1):
        at = y(tenth / 10)
        out.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>' + text(LEFT - 8, f"{at + 4:.1f}", f"{tenth * 10} %", "end"))
    out += [text(f"{x(gpus):.1f}", HEIGHT - BOTTOM + 18, gpus) for gpus in GPUS]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, f"GPUs; lines: rooflines of an H100; rings: {devices}, measured"))
    for i, (name, curve) in enumerate(roofs.items()):
        points = "L".join(f"{x(gpus):.1f} {y(fraction):.1f}" for gpus, fraction in curve.items())
        out.append(f'<path class="curve s{i}" d="M{points}"/>')
        out += [f'<circle class="dot s{i}" cx="{x(row["gpus"]):.1f}" cy="{y(row["network_s"] / (row["network_s"] + row["computing_s"])):.1f}" r="5"/>'
                for result in results for row in result["rows"] if row["case"] == name and row["gpus"] > 1]
        at = TOP + 22 * i + 12
        out.append(f'<path class="curve s{i}" d="M{WIDTH - RIGHT + 20} {at - 4}h18"/><text x="{WIDTH - RIGHT + 46}" y="{at}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"
