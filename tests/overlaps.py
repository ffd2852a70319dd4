"""Which texts of a matplotlib figure overlap, or leave it: titles, axis and tick labels, annotations, legends.

assert overlaps(figure) == []
"""

from unittest.mock import patch

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

EDGE = "the figure's edge"
_TOLERANCE = 1.0
"""Pixels that two boxes may share: a text's box has empty space around its letters."""


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Draw the figure; return pairs of texts whose boxes overlap, and (text, EDGE) for one that leaves the figure."""
    texts = _drawn(figure)
    boxes = [(text.get_text(), _box(figure, text)) for text in texts]
    inside = figure.bbox.padded(_TOLERANCE)
    found = [(text, EDGE) for text, box in boxes if not _contains(inside, box)]
    for place, (text, box) in enumerate(boxes):
        found += [(text, other) for other, its in boxes[place + 1 :] if _overlap(box, its)]
    return found


def _drawn(figure: Figure) -> list[Text]:
    """Return the texts that drawing the figure draws: not ticks outside of an axis, nothing hidden or empty."""
    found: dict[int, Text] = {}
    draw = Text.draw

    def note(text: Text, renderer: object, *arguments: object, **options: object) -> None:
        if text.get_visible() and text.get_text().strip():
            found[id(text)] = text
        draw(text, renderer, *arguments, **options)

    figure.canvas.draw()  # the layout settles before anything is noted
    with patch.object(Text, "draw", note):
        figure.canvas.draw()
    return list(found.values())


def _box(figure: Figure, text: Text) -> Bbox:
    return Text.get_window_extent(text, figure.canvas.get_renderer())


def _overlap(one: Bbox, other: Bbox) -> bool:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return min(width, height) > _TOLERANCE


def _contains(outer: Bbox, inner: Bbox) -> bool:
    return outer.x0 <= inner.x0 and outer.y0 <= inner.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1
