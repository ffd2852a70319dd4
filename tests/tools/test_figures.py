"""The figures that move: the kept files are what the script makes, and show what they say."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.tools.figures import FIGURES, schedule

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", FIGURES)
def test_a_kept_figure_is_what_the_script_makes_and_needs_nothing_else(name: str) -> None:
    text = (ROOT / "solutions" / name).read_text()
    assert FIGURES[name]() == text, "python -m tests.tools.figures writes it"
    root = ElementTree.fromstring(text)
    moving = set(re.findall(r"@keyframes (\w+)", text))
    parts = {part for node in root.iter() for part in node.attrib.get("class", "").split()}
    assert moving and moving <= parts
    assert not re.search(r"<script|href|url\((?!#)|@import", text)
    assert "@media print, (prefers-reduced-motion: reduce) { * { animation: none !important } }" in text


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_a_schedule_keeps_the_order_of_streams_and_gives_each_unit_one_batch_at_a_time(streams: int) -> None:
    done = schedule(streams)
    for unit, time in enumerate((2, 3, 1)):
        assert all(batch[unit][1] - batch[unit][0] == time for batch in done)
        places = sorted(batch[unit] for batch in done)
        assert all(end <= start for (_, end), (start, _) in zip(places, places[1:], strict=False))
    for first in range(streams):
        jobs = [job for batch in done[first::streams] for job in batch]
        assert all(end <= start for (_, end), (start, _) in zip(jobs, jobs[1:], strict=False))
    assert done[-1][-1][1] == {1: 4 * 6, 2: 15, 4: 2 + 4 * 3 + 1}[streams]


def test_the_threshold_s_figure_finds_what_step_4_prints() -> None:
    notebook = (ROOT / "solutions/04_int8/04_int8.ipynb").read_text()
    (printed,) = re.findall(r"least error at threshold (\d\.\d);", notebook)
    assert f"least at {printed}<" in (ROOT / "solutions/04_int8/threshold.svg").read_text()
