"""draw_charts(report) -> {name: Figure}: a reader finds each number under its name, at its batch, with its unit.

A name is read in the legend, beside a mark, at a tick or in a panel's title; a batch at a tick, or where a name may
stand. Colours, sizes and contrast are for a person to judge.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported
from helpers.checks.points.s08_report.figures import (
    FUNCTION,
    MOST_MARKS,
    Axis,
    Charts,
    Drawn,
    MarkFacts,
    Plot,
    charts_drawn,
)
from helpers.checks.points.s08_report.naming import batch_in, has_unit, name_in
from helpers.checks.points.s08_report.pictures import shapes, unseen
from helpers.checks.points.s08_report.runs import Part, Run
from helpers.checks.points.s08_report.text import NUMBER, half_a_unit, number
from helpers.checks.probes.student import one_each
from helpers.course.settings import BASELINE

CHARTS = ("latency", "throughput", "speedup", "accuracy")
UNITS = {"latency": "ms", "throughput": "images/s", "speedup": "×"}
ACCURACY_UNITS = ("×", "%")

_KEYS = {"latency": "latency_ms", "throughput": "throughput", "speedup": "speedup"}
_EXAMPLES = 2
_BARS = {"bar": "y", "barh": "x"}  # the axis along which a bar is long
_RELATIVE = 0.005
"""How far a drawn number may lie from the report's: a tenth of what an eye can tell."""

_FAR = 1e9
"""Pixels from a mark to a text that points at no number."""

_DRAWN = Reported(
    "where each mark of a figure stands: it is read in the student's process, since no pickle is ever loaded"
)


@dataclass(frozen=True)
class Mark:
    """A mark as a reader takes it: the name and batch ("" where nothing says them), the value it stands for, and how
    many pixels it is away from the tick of its batch."""

    name: str
    batch: str
    value: float
    away: float


def _picture(reply: Charts, chart: str) -> bytes:
    """Return the picture of that figure."""
    _figure(reply, chart)
    return reply["charts"][chart]["svg"]


def _figure(reply: Charts, chart: str) -> Drawn:
    """Return what the figure of that name holds; raise Missed where there is none, or nothing in it."""
    found = reply["charts"].get(chart)
    if found is None:
        expected = f"{FUNCTION} to return a dictionary with a Figure named {chart!r}"
        there = ", ".join(reply["charts"]) or f"a {reply['returned_type']}"
        raise Missed(expected, there, f"return {{name: figure}} for {', '.join(CHARTS)}")
    if found["figure"] is None:
        raise Missed(
            f"{chart!r} to be a matplotlib Figure", f"a value of the type {found['type']}", "axes.get_figure() gives it"
        )
    if found["same_as"] != chart:
        advice = "begin each chart with a figure of its own: plt.subplots()"
        raise Missed(f"a Figure of its own for {chart!r}", f"that of {found['same_as']!r}", advice)
    if not all(map(_in_pairs, found["figure"]["axes"])):
        expected = f"two numbers for each place in {chart!r}, and a number and a text for each tick"
        raise Missed(expected, "others, or too many", "restart the kernel, run all cells")
    if not any(axes["marks"] for axes in found["figure"]["axes"]):
        advice = "draw into the figure that you return; a line of one point is seen by its marker"
        raise Missed(f"lines, bars or points in {chart!r}", "nothing that can be seen", advice)
    return found["figure"]


def _in_pairs(axes: Plot) -> bool:
    """Return whether what comes in pairs does, and no more of it than `charts_drawn` looks at."""
    parts = [*axes["notes"], *axes["marks"]]
    places = [axes["x"]["limits"], axes["y"]["limits"], *(part["at"] for part in parts)]
    ticks = [*axes["x"]["ticks"], *axes["y"]["ticks"]]
    ticks += [mark[f"{side}_tick"][::-1] for mark in axes["marks"] for side in "xy"]
    whole = all([*map(type, place)] == [float, float] for place in places)
    whole &= all([*map(type, tick)] == [float, str] for tick in ticks)
    return whole and max(len(axes["notes"]), len(axes["marks"])) <= MOST_MARKS


def _labels(figure: Drawn, side: str) -> list[str]:
    return [label for label in (figure[f"{side}_label"], *(axes[side]["label"] for axes in figure["axes"])) if label]


def _check_exists(figure: Drawn, run: Run, chart: str) -> str:
    return f"{chart}: {sum(len(axes['marks']) for axes in figure['axes'])} marks"


def _check_labels(figure: Drawn, run: Run, chart: str) -> str:
    labels = {side: _labels(figure, side) for side in "xy"}
    for side, found in labels.items():
        if not found:
            raise Missed(
                f"a label on both axes of {chart!r}", f"no {side} label", f"set_{side}label says what it shows"
            )
    if any(axes["marks"] and _over_another(axes, figure) for axes in figure["axes"]):
        raise Missed(f"a label on every axis of {chart!r}", "a second scale without one", "label it, or use one scale")
    said = [", ".join(found) for found in labels.values()]
    if chart == "accuracy":
        right = any(all(map(has_unit, said, units)) for units in (ACCURACY_UNITS, ACCURACY_UNITS[::-1]))
        unit = "% in the label of one axis and × in that of the other"
    else:
        unit = f"{UNITS[chart]} in the label of the axis that shows it"
        sides = {_value_side(mark, axes, chart) for axes in figure["axes"] for mark in axes["marks"]}
        right = any(has_unit(label, UNITS[chart]) for side in sides for label in labels[side])
    if not right:
        raise Missed(f"{unit}, in {chart!r}", " and ".join(map(repr, said)), "write the unit into the label: … (unit)")
    return f"{chart}: {' and '.join(said)}"


def _over_another(axes: Plot, figure: Drawn) -> bool:
    """Return whether a plot without labels lies over another one of other limits, as twinx() lays it."""
    scales = [
        [other["x"]["limits"], other["y"]["limits"]] for other in figure["axes"] if other["place"] == axes["place"]
    ]
    return any(scale != scales[0] for scale in scales) and not axes["x"]["label"] and not axes["y"]["label"]


def _check_device(figure: Drawn, run: Run, chart: str) -> str:
    if _naming(figure, run):
        return f"{chart} names it"
    found = " · ".join(text for text in figure["texts"] if len(text) > 8)[:160] or "no such text"
    raise Missed(f"{run.report['engine']!r} in {chart!r}", found, "put the report's `engine` into the title")


def _naming(figure: Drawn, run: Run) -> list[str]:
    """Return the texts in which the words of the report's engine follow one another."""
    engine = re.findall(r"\w+", run.report["engine"].lower())

    def names(text: str) -> bool:
        words = re.findall(r"\w+", text.lower())
        return any(words[place : place + len(engine)] == engine for place in range(len(words)))

    return [text for text in figure["texts"] if names(text)]


def _check_limits(figure: Drawn, run: Run, chart: str) -> str:
    for axes in figure["axes"]:
        for mark in axes["marks"]:
            for side in "xy":
                _check_inside(mark[side], axes[side]["limits"], chart)
            if mark["kind"] in _BARS:
                _check_bar(mark, axes[_BARS[mark["kind"]]], chart)
        _check_apart([mark for mark in axes["marks"] if mark["kind"] in _BARS], chart)
    return f"{chart}: nothing cut off"


def _check_apart(bars: list[MarkFacts], chart: str) -> None:
    ends = sorted((bar["y" if bar["kind"] == "barh" else "x"], abs(bar["thick"])) for bar in bars)
    for (place, thick), (following, other) in pairwise(ends):
        if following - place < 0.99 * (thick + other) / 2:
            found = f"bars of a width of {thick:.3g} at {place:.4g} and {following:.4g}"
            raise Missed(f"bars of {chart!r} that stand side by side", found, "move each name's bars by their width")


def _check_inside(value: float, limits: list[float], chart: str) -> None:
    low, high = limits
    margin = 1e-6 * (high - low)
    if not low - margin <= value <= high + margin:
        found = f"{value:.4g} outside {low:.4g} to {high:.4g}"
        raise Missed(f"all that {chart!r} shows within its axes", found, "let the limits follow the numbers")


def _check_bar(mark: MarkFacts, axis: Axis, chart: str) -> None:
    low, high = axis["limits"]
    if axis["scale"] != "linear" or mark["base"] != 0 or not low <= 0 <= high:
        found = f"a {axis['scale']} axis from {low:.4g}, bars from {mark['base']:.4g}"
        raise Missed(f"bars of {chart!r} that start at 0", found, "a bar's length is read as its value")


def _value_side(mark: MarkFacts, axes: Plot, chart: str) -> str:
    """Return the axis that a mark's value is read at: a bar's length, else the axis whose label has the unit."""
    if mark["kind"] in _BARS:
        return _BARS[mark["kind"]]
    unit = UNITS.get(chart, "%")
    return "x" if has_unit(axes["x"]["label"], unit) and not has_unit(axes["y"]["label"], unit) else "y"


def _beside(axes: Plot, run: Run) -> dict[int, str]:
    """Return the text beside a mark, by the mark's index. One that is alone beside a line is that of the whole line.

    Each text with a name goes to one mark, so that the sum of all distances is least: those are the right pairs
    wherever all texts are moved by the same distance (by the triangle inequality).
    """
    notes = [note for note in axes["notes"] if name_in(note["text"], run.names)]
    marks = axes["marks"]
    places = {tuple(np.round(mark["at"], 2)): index for index, mark in enumerate(marks)}
    if not notes or not places:
        return {}
    apart = np.array([note["at"] for note in notes])[:, None] - np.array(list(places))[None]
    pairs = zip(*linear_sum_assignment(np.fmin(np.hypot(apart[..., 0], apart[..., 1]), _FAR)), strict=True)
    beside = {list(places.values())[place]: notes[note]["text"] for note, place in pairs}
    by_series: dict[int, set[str]] = {}
    for index, text in beside.items():
        by_series.setdefault(marks[index]["series"], set()).add(text)
    whole = {series: min(texts) for series, texts in by_series.items() if len(texts) == 1}
    return {index: whole[mark["series"]] for index, mark in enumerate(marks) if mark["series"] in whole} | beside


def _read(axes: Plot, run: Run, chart: str) -> Iterator[Mark]:
    """Yield the marks of a plot as a reader takes them; of a line's marks at one tick, that which is nearest to it."""
    beside, nearest = _beside(axes, run), {}
    for index, facts in enumerate(axes["marks"]):
        side = _value_side(facts, axes, chart)
        tick, away = facts["y_tick" if side == "x" else "x_tick"]
        texts = (facts["legend"], beside.get(index, ""), tick, axes["title"])
        name = next(filter(None, (name_in(text, run.names) for text in texts)), "")
        batch = next(filter(None, (batch_in(text, run) for text in texts)), "")
        key = (facts["series"], name, batch)
        if key not in nearest or away < nearest[key].away:
            nearest[key] = Mark(name, batch, facts[side], away)
    yield from nearest.values()


def _plots(figure: Drawn, chart: str) -> Iterator[Plot]:
    """Yield the plots of a figure but those whose labels say another quantity, as that of a second axis may."""
    for axes in figure["axes"]:
        labels = [axes[side]["label"] for side in "xy"]
        said = {unit for unit in UNITS.values() for label in labels if has_unit(label, unit)}
        if UNITS[chart] in said or not said:
            yield axes


def _check_scale(axes: Plot, side: str, figure: Drawn, chart: str) -> None:
    """Raise Missed where no number can be taken at an axis: its ticks say none, or not where they stand.

    Numbers written beside the marks do as well. Ticks in mathematical notation, with an offset, or in thousands are
    taken to be right.
    """
    axis, notes = axes[side], [note["text"] for note in axes["notes"]]
    numbers = [(place, text) for place, text in axis["ticks"] if re.search(r"\d", text)]
    if not numbers and not any(re.search(rf"(?<![\w.])(?:{NUMBER})", note) for note in notes):
        raise Missed(f"numbers at the {side} axis of {chart!r}", "no tick with a number", "keep the ticks of the axis")
    free = axis["offset"] or re.search(
        r"thousand|1.?000|10\S{0,3}[3³]|\bk", " ".join(_labels(figure, side)), re.IGNORECASE
    )
    for place, text in () if free else numbers:
        plain = re.fullmatch(rf"({NUMBER})\s*(?:×|x|%|ms)?", text)
        if plain and abs(number(plain[1]) - place) > 2.02 * half_a_unit(plain[1]) + _RELATIVE * abs(place):
            expected = f"the {side} ticks of {chart!r} to say where they stand"
            raise Missed(expected, f"{text!r} at {place:.4g}", "a tick's text is the value of its place")


def _check_numbers(figure: Drawn, run: Run, chart: str) -> str:
    if chart == "accuracy":
        return _check_accuracy(figure, run)
    shown: dict[tuple[str, str], list[float]] = {}
    if not (plots := list(_plots(figure, chart))):
        said = ", ".join(map(repr, _labels(figure, "y") + _labels(figure, "x")))
        raise Missed(f"{chart!r} to show {UNITS[chart]}", f"axes of {said}", "return each figure under its own name")
    for axes in plots:
        for side in {_value_side(mark, axes, chart) for mark in axes["marks"]}:
            _check_scale(axes, side, figure, chart)
        for mark in _read(axes, run, chart):
            shown.setdefault((mark.name, mark.batch), []).append(mark.value)
    wanted = {(name, batch): v for name, row in run.report[_KEYS[chart]].items() for batch, v in row.items()}
    for (name, batch), value in wanted.items():
        found = shown.get((name, batch), [])
        if not found and chart == "speedup" and name == BASELINE:
            continue
        if not found or not all(_equal(one, value) for one in found):
            _misread(chart, name, batch, value, found, shown)
    return f"{chart}: {len(wanted)} numbers, each under its name and at its batch"


def _misread(
    chart: str, name: str, batch: str, value: float, found: list[float], shown: dict[tuple[str, str], list[float]]
) -> None:
    expected = f"{chart!r} to show {value:.4g} for {name} at batch {batch}"
    wrong = [f"{one:.4g}" for one in found if not _equal(one, value)]
    if wrong:
        raise Missed(expected, f"{wrong[0]} is read there", "give each series its own label, each value its own place")
    names, batches = ({key[side] for key in shown} - {""} for side in (0, 1))
    if name not in names:
        there = f"no name {name} in legend, ticks or beside a mark"
        raise Missed(expected, there, "give each series a label and draw a legend, or write the name beside it")
    if batch not in batches:
        raise Missed(expected, f"no tick that says {batch}", "set a tick at every batch, and its number as the text")
    raise Missed(expected, "nothing is read there", "draw every name at every batch, at the tick of that batch")


def _check_accuracy(figure: Drawn, run: Run) -> str:
    batch = run.batches[-1]
    across, upright = (" ".join(_labels(figure, side)) for side in "xy")
    swapped = has_unit(across, "%") and not has_unit(upright, "%")
    _check_batch_said(figure, batch)
    points: dict[str, list[tuple[float, float]]] = {}
    for axes in (axes for axes in figure["axes"] if axes["marks"]):
        for side in "xy":
            _check_scale(axes, side, figure, "accuracy")
        beside = _beside(axes, run)
        for index, mark in enumerate(axes["marks"]):
            name = name_in(beside.get(index, ""), run.names) or name_in(mark["legend"], run.names)
            points.setdefault(name, []).append((mark["y"], mark["x"]) if swapped else (mark["x"], mark["y"]))
    for name in run.names:
        right = (run.report["speedup"][name][batch], run.report["accuracy"][name]["top1"])
        found = points.get(name, [])
        if found and all(all(map(_equal, point, right)) for point in found) or (not found and name == BASELINE):
            continue
        expected = f"'accuracy' to show {name} at {right[0]:.4g}× and {right[1]:.4g} %"
        there = f"{name} at {found[0][0]:.4g}× and {found[0][1]:.4g} %" if found else f"no point named {name}"
        raise Missed(expected, there, f"take name, speed-up at batch {batch} and top-1 in the same pass of the loop")
    return f"accuracy: {len(run.names)} names at the speed-up of batch {batch} and their top-1"


def _check_batch_said(figure: Drawn, batch: str) -> None:
    said = {match for text in figure["texts"] for match in re.findall(r"(?i)\bbatch\D{0,12}(\d+)", text)}
    if wrong := said - {batch}:
        expected = f"'accuracy' to say the batch of its speed-up, {batch}"
        raise Missed(expected, f"batch {min(wrong)}", "take the largest batch from the report")


def _equal(found: float, right: float) -> bool:
    return abs(found - right) <= _RELATIVE * abs(right)


def _see_shapes(svg: bytes, figure: Drawn, run: Run, chart: str) -> None:
    if not shapes(svg):
        raise Missed(f"lines, bars or points in the picture of {chart!r}", "nothing that can be seen", "draw them")


def _see_labels(svg: bytes, figure: Drawn, run: Run, chart: str) -> None:
    if lacking := unseen([*_labels(figure, "x"), *_labels(figure, "y")], svg):
        raise Missed(f"the labels of {chart!r} in its picture", f"no {lacking[0]!r}", "label the axes that are drawn")


def _see_device(svg: bytes, figure: Drawn, run: Run, chart: str) -> None:
    named = _naming(figure, run)
    if len(unseen(named, svg)) == len(named):
        raise Missed(f"{named[0]!r} in the picture of {chart!r}", "no such text", "write into the figure itself")


def _part(
    title: str,
    check: Callable[[Drawn, Run, str], str],
    reported: Reported | None = None,
    see: Callable[[bytes, Drawn, Run, str], None] = lambda svg, figure, run, chart: None,
) -> Part:
    def judge(case: Case, runs: Sequence[Run], chart: str) -> str:
        replies = case.call(charts_drawn, reports=[run.report for run in runs]).require(FUNCTION)
        one_each(replies, runs, "reports")
        said = []
        for reply, run in zip(replies, runs, strict=True):
            said.append(check(_figure(reply, chart), run, chart))
            see(_picture(reply, chart), _figure(reply, chart), run, chart)
        return said[0]

    return Part(title, CHARTS, judge, _EXAMPLES, reported)


PARTS = {
    "charts.figures": _part("Four figures that show something", _check_exists, see=_see_shapes),
    "charts.labels": _part("The axes have labels with units", _check_labels, _DRAWN, _see_labels),
    "charts.device": _part("Each chart names the engine of its report", _check_device, see=_see_device),
    "charts.numbers": _part("Each number stands under its name, at its batch", _check_numbers, _DRAWN),
    "charts.limits": _part("Nothing is cut off, and bars start at 0", _check_limits, _DRAWN),
}
