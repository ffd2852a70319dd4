"""Texts and shapes of an SVG, which is a stranger's file."""

import io

import matplotlib.pyplot as plt
import pytest

from helpers.checks.points.s08_report.pictures import shapes, shown, unseen


def test_a_chart_of_matplotlib_shows_its_labels_and_shapes() -> None:
    figure, axes = plt.subplots()
    axes.bar(["FP32", "INT8"], [1, 2])
    axes.set_ylabel("latency (ms) < 5 & more")
    written = io.BytesIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        figure.savefig(written, format="svg")
    plt.close(figure)
    svg = written.getvalue()
    assert unseen(["latency (ms) < 5 & more", "FP32"], svg) == [] and unseen(["BF16"], svg) == ["BF16"]
    assert shapes(svg) >= 2


@pytest.mark.parametrize("piece", [b"<g ", b"<text>", b"<text ", b"<", b"<path clip-", b"<text>a</text"])
def test_a_picture_that_never_closes_what_it_opens_is_read_once(piece: bytes) -> None:
    """Patterns that look ahead anew from each place would take hours here."""
    assert shown(piece * 300_000) == "" and shapes(piece * 300_000) == 0
