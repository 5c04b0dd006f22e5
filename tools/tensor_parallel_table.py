#!/usr/bin/env python3
"""The table of docs/distributed.md of Megatron's decoder layer, from results/*_tensor_parallel*.json
(tools/times/tensor_parallel_times.py measures it), and its picture. Prints the table; `--update` writes both; `--check` fails if the
page or the picture differs."""
import json
import pathlib
import sys

import page_table

RESULTS = sorted(page_table.ROOT.glob("results/*_tensor_parallel*.json"))
PICTURE = page_table.ROOT / "docs/images/tensor_parallel.svg"
HEAD = ["layer", "GPUs", "pass, us", "predicted", "error", "communication, us", "predicted", "fraction", "predicted fraction"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 740, 330, 60, 40, 50, 270
STYLE = """
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:13px;fill:#1f2328}
.title{font-size:16px;font-weight:600}.soft{fill:#57606a;font-size:12px}.back{fill:#ffffff}.grid{stroke:#d0d7de;stroke-width:1}
.curve{fill:none;stroke-width:2.5;stroke-linejoin:round}.dot{stroke-width:2;fill:#ffffff}
.s0{stroke:#0072b2}.s1{stroke:#c24f00}.s2{stroke:#00805d}.s3{stroke:#b5588f}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#30363d}.dot{fill:#0d1117}
.s0{stroke:#56b4e9}.s1{stroke:#f0883e}.s2{stroke:#3fb68b}.s3{stroke:#e083b8}}
"""


def predicted_seconds(row) -> float:
    return row["computing_predicted_s"] + row["network_predicted_s"]


def communication_fractions(row) -> tuple:
    return row["network_s"] / (row["network_s"] + row["computing_s"]), row["network_predicted_s"] / predicted_seconds(row)


def table(results) -> str:
    lines = []
    for row in results["rows"]:
        measured, expected = communication_fractions(row)
        lines.append([row["case"], row["gpus"], f"{row['pass_s'] * 1e6:.0f}", f"{predicted_seconds(row) * 1e6:.0f}",
                      f"{abs(predicted_seconds(row) / row['pass_s'] - 1):.1%}",
                      f"{row['network_s'] * 1e6:.0f}", f"{row['network_predicted_s'] * 1e6:.0f}", f"{measured:.0%}", f"{expected:.0%}"])
    head = f"{results['device']}, {results['date']}, commit {results['commit']}, {results['carrier']}:\n\n"
    return head + page_table.tables(HEAD, lines, 2, [range(2, 5), range(5, 9)])


def draw_picture(runs) -> str:
    results = runs[0]
    top = max(0.5, max(max(each.values()) for each in results["share_by_roofs"].values()))
    at = lambda chips, share: (LEFT + {1: 0, 2: 1, 4: 2, 8: 3}[int(chips)] / 3 * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share / top * (HEIGHT - TOP - BOTTOM))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
           "<title>Communication fraction of a tensor-parallel layer, by the number of GPUs</title>", f"<style>{STYLE}</style>",
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>', f'<text class="title" x="{LEFT}" y="22">Communication fraction of a tensor-parallel layer\'s time</text>']
    for tenths in range(0, int(top * 10) + 1):
        y = at(1, tenths / 10)[1]
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/><text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenths * 10} %</text>')
    for chips in (1, 2, 4, 8):
        out.append(f'<text class="soft" x="{at(chips, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{chips}</text>')
    out.append(f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">GPUs; lines: rooflines of an H100; rings: {", ".join(sorted({run["device"] for run in runs}))}, measured</text>')
    for i, (name, each) in enumerate(results["share_by_roofs"].items()):
        points = [at(chips, share) for chips, share in each.items()]
        out.append(f'<path class="curve s{i}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>')
        for row in (row for run in runs for row in run["rows"]):
            if row["case"] == name and row["gpus"] > 1:
                x, y = at(row["gpus"], communication_fractions(row)[0])
                out.append(f'<circle class="dot s{i}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        y = TOP + 22 * i + 12
        out.append(f'<path class="curve s{i}" d="M{WIDTH - RIGHT + 20} {y - 4}h18"/><text x="{WIDTH - RIGHT + 46}" y="{y}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


if __name__ == "__main__":
    found = [json.loads(path.read_text()) for path in RESULTS]
    if "--update" in sys.argv:
        PICTURE.write_text(draw_picture(found))
    elif "--check" in sys.argv and PICTURE.read_text() != draw_picture(found):
        sys.exit(f"{PICTURE.relative_to(page_table.ROOT)} is out of date; run tools/tensor_parallel_table.py --update")
    sys.exit(page_table.serve("tensor_parallel_table", "docs/distributed.md", "\n".join(map(table, found))))
