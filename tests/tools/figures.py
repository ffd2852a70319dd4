"""Draws the four figures that move, next to the notebooks of their steps: `python -m tests.tools.figures`.

Each is one SVG with CSS animations and no script. They lead to the state that the body describes, five times. A reader
who wants less motion sees that state alone. A browser that prints in between prints all labels too: what is still to
come is pale, not hidden.
"""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "results" / "h200" / "offline.json"
_WIDTH = 720
_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-labelledby="title desc"
     font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif" font-size="13">
  <title id="title">{title}</title>
  <desc id="desc">{desc}</desc>
  <style>
    text {{ fill: #30343b }} .soft {{ fill: #5f6368 }} .bold {{ font-weight: bold }}
    .card {{ fill: #fbfbf9; stroke: #d9dce1 }} .box {{ fill: #ffffff; stroke: #b8bdc6 }}
    .cover {{ fill: #fbfbf9; opacity: 0.8 }} .curve {{ fill: none; stroke-width: 2.2 }}
    .line {{ stroke: #5f6368; fill: none; stroke-width: 1.5 }} .tip {{ fill: #5f6368 }}
    .blue {{ fill: #0072b2 }} .blue-box {{ fill: #e4f0f8; stroke: #0072b2 }} .blue-line {{ stroke: #0072b2 }}
    .green {{ fill: #00734f }} .green-box {{ fill: #e0f3ec; stroke: #00734f }} .green-line {{ stroke: #00734f }}
    .red {{ fill: #b23c00 }} .red-box {{ fill: #fbe9df; stroke: #b23c00 }} .red-line {{ stroke: #b23c00 }}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e4e6ea }} .soft {{ fill: #aab0ba }}
      .card {{ fill: #1f2329; stroke: #3d434c }} .cover {{ fill: #1f2329 }} .box {{ fill: #2a2f37; stroke: #565d68 }}
      .line {{ stroke: #aab0ba }} .tip {{ fill: #aab0ba }}
      .blue {{ fill: #6cb8ee }} .blue-box {{ fill: #17384d; stroke: #6cb8ee }} .blue-line {{ stroke: #6cb8ee }}
      .green {{ fill: #4fd0a5 }} .green-box {{ fill: #12382d; stroke: #4fd0a5 }} .green-line {{ stroke: #4fd0a5 }}
      .red {{ fill: #ff9a66 }} .red-box {{ fill: #4a2414; stroke: #ff9a66 }} .red-line {{ stroke: #ff9a66 }}
    }}
{motion}
    @media print, (prefers-reduced-motion: reduce) {{ * {{ animation: none !important }} }}
  </style>
  <rect class="card" x="0.5" y="0.5" width="{inner}" height="{below}" rx="10"/>
{body}
</svg>
"""

Stops = list[tuple[float, str]]
"""When (a share of the loop) an animated part has which style."""


def figure(height: int, title: str, desc: str, motion: dict[str, Stops], body: Iterable[str], seconds: int) -> str:
    """Return the SVG; a part of its body moves if its class is a key of `motion`."""
    rules = [
        f"    @keyframes {name} {{ {' '.join(f'{at:.1%} {{ {style} }}' for at, style in stops)} }}\n"
        f"    .{name} {{ animation: {name} {seconds}s linear 5 }}"
        for name, stops in motion.items()
    ]
    size = {"width": _WIDTH, "height": height, "inner": _WIDTH - 1, "below": height - 1}
    parts = {"title": title, "desc": desc, "motion": "\n".join(rules), "body": "\n".join(f"  {part}" for part in body)}
    return _FRAME.format(**size, **parts)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" class="{kind}"/>'


def arrow(x: float, start: float, end: float) -> str:
    """A vertical arrow."""
    tip = end - 7 if end > start else end + 7
    return f'<path class="line" d="M{x} {start} V{tip}"/><path class="tip" d="M{x - 4.5} {tip} h9 L{x} {end} z"/>'


def curve(points: Iterable[tuple[float, float]], kind: str) -> str:
    return f'<polyline class="curve {kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def moved(x: float, y: float = 0) -> str:
    return f"transform: translate({x:.1f}px, {y:.1f}px)"


def fusion() -> str:
    """Step 2: what conv, bn and relu move through memory as three kernels and as one."""
    megabytes = 64 * 112 * 112 * 4 / 1e6
    places = {"conv": 36, "bn": 176, "relu": 316}
    body = [text(24, 30, "three kernels", "bold"), text(476, 30, "fused: one kernel", "bold")]
    for name, x in places.items():
        body += [box(x, 44, 104, 48, "blue-box"), text(x + 52, 66, name, anchor="middle")]
    body += [box(476, 44, 220, 48, "green-box"), text(586, 66, "conv, bn, relu", anchor="middle")]
    for x, width in ((24, 412), (476, 220)):
        body += [box(x, 154, width, 30, "box"), text(x + 12, 174, "memory", "soft")]
    for x, job in ((124, "write"), (192, "read"), (264, "write"), (332, "read"), (404, "write"), (664, "write")):
        down = job == "write"
        body.append(arrow(x, 92 if down else 154, 154 if down else 92))
        body.append(text(x - 8, 128, job, "soft", "end"))
    body.append(text(24, 216, "memory traffic of one image", "soft"))
    for y, kind, jobs in ((226, "blue", ("write", "read") * 2 + ("write",)), (260, "green", ("write",))):
        for place, job in enumerate(jobs):
            body += [
                box(24 + 96 * place, y, 92, 26, "box"),
                box(24 + 96 * place, y, 92, 26, f"{kind}-box {kind}{place}"),
            ]
            body.append(text(70 + 96 * place, y + 18, job, anchor="middle"))
        body.append(text(32 + 96 * len(jobs), y + 18, f"{len(jobs) * megabytes:.1f} MB", f"bold {kind}"))
    body.append(
        text(
            24, 312, "ResNet-50’s first layer: 64 maps of 112×112 numbers in FP32, biases and weights left out", "soft"
        )
    )
    way = [
        (124, 80),
        (124, 169),
        (192, 169),
        (192, 80),
        (264, 80),
        (264, 169),
        (332, 169),
        (332, 80),
        (404, 80),
        (404, 169),
    ]
    short = [(500, 80), (664, 80), (664, 169)]
    motion = {
        "token": [(0.05 * at, moved(x - 404, y - 169)) for at, (x, y) in enumerate(way)] + [(1, moved(0))],
        "quick": [(0.05 * at, moved(x - 664, y - 169)) for at, (x, y) in enumerate(short)] + [(1, moved(0))],
    }
    pale, full = "opacity: 0.2", "opacity: 1"
    arrivals = {"blue0": 1, "blue1": 3, "blue2": 5, "blue3": 7, "blue4": 9, "green0": 2}
    for name, at in arrivals.items():
        motion[name] = [(0, pale), (0.05 * at - 0.01, pale), (0.05 * at, full), (1, full)]
    body += [
        '<circle class="blue token" cx="404" cy="169" r="7"/>',
        '<circle class="green quick" cx="664" cy="169" r="7"/>',
    ]
    desc = (
        "As three kernels, conv writes its output to memory, bn reads it and writes its own, relu reads that and "
        f"writes: five transfers, {5 * megabytes:.1f} MB. As one kernel, only the last output is written: "
        f"{megabytes:.1f} MB."
    )
    return figure(328, "What fusion saves", desc, motion, body, seconds=14)


def threshold() -> str:
    """Step 4: rounding error against clipping error as the threshold moves, of Laplace-distributed values."""
    values = np.abs(np.random.RandomState(0).laplace(size=100_000))
    tried = np.arange(2, 11.01, 0.2)
    clipping = np.array([np.mean(np.maximum(values - each, 0) ** 2) for each in tried])
    kept = [np.minimum(values, each) for each in tried]
    rounding = np.array([np.mean((np.round(v / t * 7) * t / 7 - v) ** 2) for v, t in zip(kept, tried, strict=True)])
    both, most = clipping + rounding, 0.24
    best = int(np.argmin(both))

    def across(value: float) -> float:
        return 48 + 54 * value

    def up(error: float) -> float:
        return 308 - 110 * min(error, most) / most

    body = [text(24, 30, "how often a magnitude occurs (logarithmic)", "soft")]
    counts, edges = np.histogram(values, bins=48, range=(0, 12))
    for count, edge in zip(counts, edges, strict=False):
        height = 21 * np.log10(count + 1)
        body.append(box(across(edge) + 0.5, 146 - height, 12.5, height, "blue-box"))
    body += ['<clipPath id="plot"><rect x="48" y="40" width="648" height="126"/></clipPath><g clip-path="url(#plot)">']
    x = across(tried[best])
    body.append(f'<g class="cut"><rect class="red" opacity="0.3" x="{x:.1f}" y="40" width="650" height="106"/></g></g>')
    body.append('<path class="line" d="M48 146 H696 M48 308 H696"/>')
    body.append(f'<path class="curve red-line cut" d="M{x:.1f} 40 V308"/>')
    body.append(text(696, 30, "clipped to the threshold", "red bold", "end"))
    body.append(text(24, 184, "the integers 0 to 7", "soft"))
    for step in range(8):
        x = across(tried[best] * step / 7)
        body.append(f'<path class="curve green-line step{step}" d="M{x:.1f} 150 V166"/>')
    for error, kind in ((clipping, "red-line"), (rounding, "green-line"), (both, "blue-line")):
        body.append(curve([(across(t), up(e)) for t, e in zip(tried, error, strict=True) if e <= most], kind))
    body += [
        text(across(tried[0]) - 4, 240, "clipping", "red bold", "end"),
        text(690, 262, "rounding", "green bold", "end"),
    ]
    body += [text(690, 186, "mean squared error", "soft", "end"), text(690, 216, "both", "blue bold", "end")]
    body.append(text(across(tried[best]) + 10, up(both[best]) - 14, f"least at {tried[best]:.1f}", "blue bold"))
    body += [text(across(value), 326, str(value), "soft", "middle") for value in range(0, 13, 2)]
    body.append(text(696, 350, "magnitude, threshold", "soft", "end"))
    body.append(text(24, 350, "100,000 Laplace-distributed values (seed 0), quantised to 15 integers (4 bits)", "soft"))
    body.append(f'<circle class="blue dot" cx="{across(tried[best]):.1f}" cy="{up(both[best]):.1f}" r="6"/>')
    order = [*range(best, -1, -1), *range(1, len(tried)), *range(len(tried) - 2, best - 1, -1)]
    times = np.linspace(0.15, 0.85, len(order))
    away = [across(tried[at]) - across(tried[best]) for at in order]
    turns = [0, best, best + len(tried) - 1, -1]  # in between they move evenly
    ends = [(times[turn], away[turn]) for turn in turns]
    motion = {f"step{step}": [(time, moved(x * step / 7)) for time, x in ends] for step in range(1, 8)}
    motion["cut"] = [(time, moved(x)) for time, x in ends]
    heights = [up(both[at]) - up(both[best]) for at in order]
    motion["dot"] = [(time, moved(x, y)) for time, x, y in zip(times, away, heights, strict=True)]
    for stops in motion.values():
        stops[:] = [(0, moved(0)), *stops, (1, moved(0))]
    desc = (
        "A low threshold clips many values, a high one spreads the integers far apart and rounds coarsely. The sum of "
        f"both errors is least at a threshold of {tried[best]:.1f}; the largest value is {values.max():.1f}."
    )
    return figure(364, "Where to put the threshold", desc, motion, body, seconds=16)


def schedule(streams: int, batches: int = 4, lasts: tuple[int, ...] = (2, 3, 1)) -> list[list[tuple[int, int]]]:
    """Return start and end of each batch's copy in, run and copy out; batches take turns in the streams."""
    units, free = [0] * len(lasts), [0] * streams
    done = []
    for batch in range(batches):
        done.append([])
        for unit, time in enumerate(lasts):
            start = max(units[unit], free[batch % streams])
            units[unit] = free[batch % streams] = start + time
            done[-1].append((start, start + time))
    return done


def overlap() -> str:
    """Step 10: the copies and runs of four batches in one stream, and in two."""
    body, labels, ends = [], [], []
    for streams, top in ((1, 24), (2, 150)):
        done = schedule(streams)
        ends.append(done[-1][-1][1])
        labels.append(text(24, top + 8, "two streams" if streams == 2 else "one stream", "bold"))
        for unit, name in enumerate(("copy in", "run", "copy out")):
            y = top + 20 + 28 * unit
            labels.append(text(24, y + 16, name, "soft"))
            body.append(box(112, y, 24 * 24, 22, "box"))
            for batch, places in enumerate(done):
                start, end = places[unit]
                kind = "green-box" if streams == 2 and batch % 2 else "blue-box"
                body.append(box(112 + 24 * start, y, 24 * (end - start), 22, kind))
                labels.append(text(112 + 12 * (start + end), y + 16, str(batch + 1), anchor="middle"))
    body.append(
        '<clipPath id="time"><rect x="111" y="40" width="578" height="214"/></clipPath><g clip-path="url(#time)">'
    )
    body += [f'<rect class="cover now" x="689" y="{y}" width="590" height="82"/>' for y in (42, 168)]
    body += ['</g><path class="curve red-line now" d="M688 42 V124 M688 168 V250"/>', *labels]
    result = f"Four batches are done after {ends[1]} units of time instead of {ends[0]}: copies and runs overlap."
    body.append(text(24, 278, result, "bold"))
    body.append(
        text(24, 300, "An example, not a measurement: copy in takes 2 units of time, run 3, copy out 1.", "soft")
    )
    motion = {"now": [(0, moved(-576)), (0.65, moved(0)), (1, moved(0))]}
    desc = (
        "In one stream, copy in, run and copy out of each batch follow each other and two of three hardware units "
        "wait. In two streams, the copies of one batch overlap with the run of another: "
        f"{ends[1]} units of time instead of {ends[0]}."
    )
    return figure(316, "What two streams overlap", desc, motion, body, seconds=14)


def saturation() -> str:
    """Step 3: throughput and time of a batch against its size, from the kept record of an H200."""
    record = json.loads(RECORD.read_text())
    rows = [r for r in record["rows"] if r["how"] == "1 stream" and r["precision"] == "fp16"]
    rates = {row["batch"]: row["images_per_s"] for row in rows}
    times = {batch: 1e3 * batch / rate for batch, rate in rates.items()}
    knee = next(batch for batch, after in pairwise(rates) if rates[after] < 1.1 * rates[batch])
    body, motion = [], {}
    for name, left, found, most in (("rate", 80, rates, 45_000), ("wait", 416, times, 7)):
        at = {batch: (left + 34 * np.log2(batch), 230 - 170 * value / most) for batch, value in found.items()}
        ticks = range(0, most, 10_000 if name == "rate" else 2)
        for tick in ticks:
            y = 230 - 170 * tick / most
            body.append(f'<path class="line" opacity="0.25" d="M{left - 8} {y:.1f} h288"/>')
            body.append(text(left - 12, y + 4.5, f"{tick:,}", "soft", "end"))
        body += [text(at[batch][0], 250, str(batch), "soft", "middle") for batch in found]
        body.append(curve(at.values(), "green-line" if name == "rate" else "red-line"))
        x, y = at[knee]
        label = f"{found[knee]:,.0f}" if name == "rate" else f"{found[knee]:.1f} ms"
        body.append(text(x - 12, y - 10, label, "bold", "end"))
        body.append(f'<path class="line {name}line" stroke-dasharray="4 4" d="M{x:.1f} 60 V230"/>')
        body.append(
            f'<circle class="{"green" if name == "rate" else "red"} {name}" cx="{x:.1f}" cy="{y:.1f}" r="6.5"/>'
        )
        order = [*found, *reversed([batch for batch in found if batch >= knee][:-1])]
        moments = [0.05, *np.linspace(0.08, 0.6, len(order))]
        stops = [at[batch] for batch in (order[0], *order)]
        motion[name] = [(t, moved(px - x, py - y)) for t, (px, py) in zip(moments, stops, strict=True)]
        motion[f"{name}line"] = [(t, moved(px - x)) for t, (px, _) in zip(moments, stops, strict=True)]
    for stops in motion.values():
        stops[:] = [(0, stops[0][1]), *stops, (1, moved(0))]
    last = max(rates)
    gain, wait = rates[last] / rates[knee], times[last] / times[knee]
    body += [text(24, 32, "images per second", "bold green"), text(384, 32, "time of one batch, in ms", "bold red")]
    body += [text(356, 268, "batch", "soft", "end"), text(692, 268, "batch", "soft", "end")]
    said = f"From {knee} to {last} images, throughput grows {gain:.2f} times and the time of a batch {wait:.1f} times."
    body.append(text(24, 294, said, "bold"))
    about = f"ResNet-50, FP16, one stream, images on the device. {record['engine']['device']}, {record['measured']}"
    body.append(text(24, 316, about, "soft"))
    desc = f"Throughput rises with the batch and saturates at {knee}; the time of one batch keeps rising. {said}"
    return figure(332, "Batch size and saturation", desc, motion, body, seconds=14)


FIGURES = {
    "02_fp16/fusion.svg": fusion,
    "03_dynamic/saturation.svg": saturation,
    "04_int8/threshold.svg": threshold,
    "10_profiles_and_streams/overlap.svg": overlap,
}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (ROOT / "solutions" / name).write_text(draw())
        print(f"solutions/{name}")
