"""Whether a chart of step 8 gives each number to its own name and batch, as far as it can be read from the picture.

Charts may be drawn in any way, so these points look for contradictions only: a series under one name that holds the
numbers of another, a batch at another batch's tick, a unit at the other axis, lines of another chart.
"""

import re
from typing import Any

from helpers.feedback.chart_units import UNITS, has_unit
from helpers.missed import Missed
from helpers.probes.figures import Drawn
from helpers.probes.measurements import NAMES
from helpers.probes.series import Series

__all__ = ["check_places"]

_TABLES = {"latency.png": "latency_ms", "throughput.png": "throughput", "speedup.png": "speedup"}
_RELATIVE = 0.005
_SAME, _OTHER = 0.9, 0.5
"""A series shows a table's row where this share of its numbers is the row's, and does not where it is below."""

_FEWEST_POINTS = 3

Table = dict[str, dict[str, float]]


def check_places(chart: str, drawn: Drawn, report: dict[str, Any]) -> None:
    """Raise Missed where a chart shows a number under another name, batch or axis than the report has it."""
    if chart == "accuracy.png":
        _check_points(chart, drawn, report)
        return
    key = _TABLES[chart]
    for series in drawn.series:
        if len(series.x) >= _FEWEST_POINTS:
            _check_series(chart, drawn, series, report, key)


def _check_series(chart: str, drawn: Drawn, series: Series, report: dict[str, Any], key: str) -> None:
    found = _row(series, report[key])
    if found is None:
        for other in set(_TABLES.values()) - {key}:
            if _row(series, report[other]) and any(
                one.plane == series.plane and _row(one, report[key]) for one in drawn.series
            ):
                raise Missed(
                    f"{chart} to show {key} alone",
                    f"a line of {other} among them",
                    "begin each chart with a figure of its own (plt.subplots), and close it once it is saved",
                )
        return
    values, places, ticks, row = found
    if series.name and _share(values, report[key].get(series.name, {})) < _OTHER:
        raise Missed(
            f"{chart} to show {series.name}'s numbers as {series.name}",
            f"those of {row} in the colour that the legend gives {series.name}",
            "give each series its own label when you draw it, and call legend() without names of your own",
        )
    _check_batches(chart, values, places, ticks, report[key][row])
    labels = (drawn.x_labels, drawn.y_labels) if values is series.x else (drawn.y_labels, drawn.x_labels)
    _check_axis(chart, UNITS[chart][0], *labels)


def _row(series: Series, table: Table) -> tuple[tuple[float, ...], tuple[float, ...], tuple[str, ...], str] | None:
    """Return (values, places, ticks at the places, name) of the table's row that a series shows, None without one."""
    for values, places, ticks in ((series.y, series.x, series.x_ticks), (series.x, series.y, series.y_ticks)):
        for name, row in table.items():
            if len(values) >= _SAME * len(row) and _share(values, row) >= _SAME:
                return values, places, ticks, name
    return None


def _share(values: tuple[float, ...], row: dict[str, float]) -> float:
    return sum(any(_equal(value, right) for right in row.values()) for value in values) / len(values)


def _equal(found: float, right: float) -> bool:
    return abs(found - right) <= _RELATIVE * abs(right)


def _check_batches(
    chart: str, values: tuple[float, ...], places: tuple[float, ...], ticks: tuple[str, ...], row: dict[str, float]
) -> None:
    """Raise Missed where a value stands at another batch, as its place or the text of its tick says."""
    batches = {float(batch) for batch in row}
    written = [_whole(tick) for tick in ticks]
    if set(places) == batches:
        # A tick that lies at the place itself must not say another batch.
        said = [
            text if text in batches and text != place else place for place, text in zip(places, written, strict=True)
        ]
        said = places if set(said) != batches else said
    elif {text for text in written if text is not None} == batches:
        said = [text if text is not None else 0.0 for text in written]
    else:
        return
    for value, place in zip(values, said, strict=True):
        own = [float(batch) for batch, right in row.items() if _equal(value, right)]
        if own and place not in own:
            raise Missed(
                f"{chart} to show {value:.4g} at batch {own[0]:g}",
                f"it stands at {place:g}",
                "sort the batches as numbers, and draw values and ticks in the same order",
            )


def _check_points(chart: str, drawn: Drawn, report: dict[str, Any]) -> None:
    largest = {
        name: max(series.items(), key=lambda item: int(item[0]))[1] for name, series in report["speedup"].items()
    }
    right = {name: (largest[name], report["accuracy"][name]["top1"]) for name in NAMES if name in largest}
    for series in drawn.series:
        for point in zip(series.x, series.y, strict=True):
            for swapped in (False, True):
                speedup, top1 = point[::-1] if swapped else point
                owners = [name for name, own in right.items() if _equal(speedup, own[0]) and _equal(top1, own[1])]
                if not owners:
                    continue
                if series.name and series.name not in owners:
                    raise Missed(
                        f"{chart} to show {series.name} at its own speed-up and top-1",
                        f"{owners[0]}'s point, named {series.name}",
                        "take name, speed-up and top-1 from the same pass of the loop",
                    )
                across, upright = (drawn.y_labels, drawn.x_labels) if swapped else (drawn.x_labels, drawn.y_labels)
                _check_axis(chart, "×", across, upright)
                _check_axis(chart, "%", upright, across)


def _check_axis(chart: str, unit: str, own: tuple[str, ...], other: tuple[str, ...]) -> None:
    if not any(has_unit(label, unit) for label in own) and any(has_unit(label, unit) for label in other):
        raise Missed(
            f"the unit {unit} at the axis of {chart} that shows it",
            f"it stands at the other one: {', '.join(map(repr, other))}",
            "swap the two labels, or what you draw",
        )


def _whole(text: str) -> float | None:
    """Return the batch that a tick's text says, None where it is no whole number."""
    match = re.fullmatch(r"\W*(?:batch(?: size)?\W*)?(\d+)(?:\.0)?\W*", text.strip(), re.IGNORECASE)
    return float(match[1]) if match else None
