"""The figures in a notebook's text are the limits that its points judge by."""

import importlib
import pkgutil
import re
from pathlib import Path

import nbformat
import pytest

from helpers.checks import points
from helpers.checks.points.builders import LEAST_SPEEDUP
from helpers.course.steps import GRADED
from solutions.checks.trusted.speed import FULL, NONE

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {step: f"s{step}" for step in GRADED}
NAMES = {module.name for module in pkgutil.iter_modules(points.__path__)}


def _text(step: str) -> str:
    cells = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4).cells
    return re.sub(r"[\s*`]+", " ", " ".join(cell.source for cell in cells))


@pytest.mark.parametrize("step", [step for step, room in ROOMS.items() if room in NAMES])
def test_each_promise_of_a_room_stands_in_its_notebook(step: str) -> None:
    promises = importlib.import_module(f"helpers.checks.points.{ROOMS[step]}").PROMISES
    assert promises, step
    text = _text(step)
    assert [promise for promise in promises if re.sub(r"[\s*`]+", " ", promise) not in text] == []


@pytest.mark.parametrize("step", ["02_fp16", "03_dynamic", "04_int8"])
def test_the_shares_that_speed_earns_stand_in_the_notebook(step: str) -> None:
    text = _text(step)
    assert f"full points from {FULL} of the reference" in text
    assert f"none below {NONE}" in text
    assert f"more than {LEAST_SPEEDUP} times" in text or step == "03_dynamic"  # PyTorch is no measure there
