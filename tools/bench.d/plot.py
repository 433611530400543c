# SPDX-License-Identifier: MIT
"""An SVG of TTFT and whole-suggestion time by file size: p50, p90 and p99, ours and the peer's. No library."""

import math
from html import escape

from figures import percentile

SIZES = [(1, 75), (76, 125), (126, 200), (201, 400), (401, 800), (801, 1500), (1501, 3000), (3001, 6000)]
PERCENTILES = [(50, 2.5), (90, 1.5), (99, 0.8)]  # and the width of their lines
COLOURS = {"maskstore": "#1f6fb4", "llama-server, llama.vim's request": "#c4572a", "llama-server, short suffix": "#8a8a8a"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 300, 70, 60, 90
MS_LOW, MS_HIGH = 1, 20000


def points_of(runs, key):
    """Per size: (median of the lines, {percentile: ms}). runs: (lines, events)."""
    points = []
    for low, high in SIZES:
        chosen = [(lines, events) for lines, events in runs if low <= lines <= high]
        values = [max(e[key], MS_LOW) for _, events in chosen for e in events]
        if values:
            points.append((percentile([lines for lines, _ in chosen], 50), {p: percentile(values, p) for p, _ in PERCENTILES}))
    return points


def x_of(lines, panel):
    share = (math.log(lines) - math.log(40)) / (math.log(6000) - math.log(40))
    return LEFT + panel * (WIDTH + GAP) + share * WIDTH


def y_of(ms):
    share = (math.log(ms) - math.log(MS_LOW)) / (math.log(MS_HIGH) - math.log(MS_LOW))
    return TOP + HEIGHT * (1 - min(max(share, 0), 1))


def text(x, y, words, anchor="middle", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(str(words))}</text>'


def axes(panel, title):
    left, right = x_of(40, panel), x_of(6000, panel)
    parts = [text((left + right) / 2, TOP - 12, title, size=14), text((left + right) / 2, TOP + HEIGHT + 38, "lines of the file")]
    for ms in (1, 10, 100, 1000, 10000):
        parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y_of(ms):.1f}" y2="{y_of(ms):.1f}" stroke="#ddd"/>')
        parts.append(text(left - 6, y_of(ms) + 4, f"{ms} ms" if ms < 1000 else f"{ms // 1000} s", "end"))
    for lines in (50, 100, 300, 1000, 5000):
        parts.append(text(x_of(lines, panel), TOP + HEIGHT + 18, lines))
    return parts


def curves(panel, runs, key, colour):
    parts = []
    points = points_of(runs, key)
    for p, width in PERCENTILES:
        path = " ".join(f"{x_of(lines, panel):.1f},{y_of(values[p]):.1f}" for lines, values in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"><title>p{p}</title></polyline>')
        parts += [f'<circle cx="{x_of(n, panel):.1f}" cy="{y_of(v[p]):.1f}" r="{width:.1f}" fill="{colour}"/>' for n, v in points]
    return parts


def draw(series, caption):
    """series: name of COLOURS → [(lines of the file, events)]; events have ttft_ms and total_ms."""
    width, height = LEFT + 2 * WIDTH + GAP + 30, TOP + HEIGHT + 110
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for panel, (key, title) in enumerate((("ttft_ms", "to the first token"), ("total_ms", "to the whole suggestion"))):
        parts += axes(panel, title)
        for name, runs in series.items():
            parts += curves(panel, runs, key, COLOURS[name])
    for i, name in enumerate(series):
        y = TOP + HEIGHT + 62
        parts.append(f'<rect x="{LEFT + i * 280}" y="{y - 9}" width="18" height="4" fill="{COLOURS[name]}"/>')
        parts.append(text(LEFT + i * 280 + 24, y, name, "start"))
    parts.append(text(LEFT, TOP + HEIGHT + 84, f"thick p50, middle p90, thin p99; {caption}", "start", 11))
    return "\n".join(parts) + "\n</svg>\n"
