"""Does the search for overlapping texts find each kind, and nothing else?"""

import matplotlib

matplotlib.use("Agg")

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pytest

from tests.overlaps import EDGE, overlaps


@pytest.fixture
def axis() -> Iterator[plt.Axes]:
    figure, axis = plt.subplots(figsize=(4, 3), layout="constrained")
    yield axis
    plt.close(figure)


def test_a_usual_chart_has_no_overlap(axis: plt.Axes) -> None:
    axis.plot([0, 1], [0, 1], label="a line")
    axis.set(title="a title", xlabel="time (ms)", ylabel="rate")
    axis.legend()
    assert overlaps(axis.figure) == []


def test_two_notes_on_one_place_overlap_and_beside_each_other_do_not(axis: plt.Axes) -> None:
    axis.annotate("one", (0.5, 0.5))
    axis.text(0.52, 0.5, "two")
    axis.text(0.5, 0.8, "three")
    assert sorted(map(sorted, overlaps(axis.figure))) == [["one", "two"]]


def test_crowded_tick_labels_overlap(axis: plt.Axes) -> None:
    axis.set_xticks([0.5, 0.51], ["16.00", "32.00"])
    assert overlaps(axis.figure) == [("16.00", "32.00")]


def test_a_legend_over_a_note_overlaps(axis: plt.Axes) -> None:
    axis.plot([0, 1], [0, 1], label="engine")
    axis.legend(loc="center")
    axis.text(0.5, 0.5, "note")
    assert sorted(map(sorted, overlaps(axis.figure))) == [["engine", "note"]]


def test_a_text_that_leaves_the_figure_is_found(axis: plt.Axes) -> None:
    axis.figure.text(0.9, 0.5, "a long text at the right")
    assert overlaps(axis.figure) == [("a long text at the right", EDGE)]


def test_titles_of_two_panels_overlap() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(4, 3))
    for axis, title in zip(axes, ("the latency of the first", "the latency of the second"), strict=True):
        axis.set_title(title)
    assert ("the latency of the first", "the latency of the second") in overlaps(figure)
    plt.close(figure)


def test_what_is_not_drawn_overlaps_nothing(axis: plt.Axes) -> None:
    axis.text(0.5, 0.5, "one")
    axis.text(0.5, 0.5, "hidden", visible=False)
    axis.text(0.5, 0.5, " ")
    axis.set_xticks([0.5, 7.0, 7.01], ["in", "out", "too"])
    axis.set_xlim(0, 1)
    assert overlaps(axis.figure) == []
