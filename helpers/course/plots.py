"""One look for every chart of the lab: the colours of its rows, and logarithmic axes with plain numbers.

The colours are Okabe and Ito's (2008), told apart with any colour vision; no chart says anything by colour alone.
"""

import math
from collections.abc import Iterable

from helpers.course.settings import BASELINE

INK, SOFT, QUIET = "#30343b", "#5f6368", "#b8bdc6"
"""Text and lines; notes; what is there only to be compared with."""

GOOD, BAD = "#00734f", "#b23c00"
"""Right and wrong, each beside a word or a sign that says so."""

_COLOURS = {
    BASELINE: "#5f6368",
    "pytorch-fp16": "#9aa0a8",
    "torch-compile-fp32": "#b9bec6",
    "onnxruntime-fp32": "#a6761d",
    "fp32": "#0072b2",
    "tf32": "#56b4e9",
    "bf16": "#cc79a7",
    "fp16": "#009e73",
    "dynamic-fp16": "#7a9a01",
    "int8": "#d55e00",
    "int8+fp16": "#e69f00",
}
_OTHER_COLOURS = ("#882255", "#44aa99", "#332288", "#117733", "#aa4499")


def colour(name: str) -> str:
    """Return the colour of a precision or of a row of the report's tables, the same in every chart."""
    return _COLOURS.get(name) or _OTHER_COLOURS[sum(name.encode()) % len(_OTHER_COLOURS)]


def log_ticks(least: float, most: float) -> list[float]:
    """Return ticks for a logarithmic axis from `least` to `most`, both above 0: 1, 2 and 5 times powers of ten.

    Fewer than three: all digits times powers of ten; still fewer: round numbers in even steps; at last both ends.
    """
    from matplotlib.ticker import MaxNLocator

    powers = [10.0**power for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)]
    for steps in ((1, 2, 5), range(1, 10)):
        ticks = [step * power for power in powers for step in steps if least <= step * power <= most]
        if len(ticks) >= 3:
            return ticks
    even = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(least, most)
    ticks = [float(tick) for tick in even if least <= tick <= most]
    return ticks if len(ticks) > 1 else sorted({float(f"{least:.3g}"), float(f"{most:.3g}")})


def plain_log_axis(axis, ticks: Iterable[float]) -> None:
    """Make `axis` (a chart's `xaxis` or `yaxis`) logarithmic, with these ticks and no others, as plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    name = axis.axis_name
    getattr(axis.axes, f"set_{name}scale")("log")
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e4 else f"{value:,.0f}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
