"""Functions of a notebook under another Python: here it is the same one, which is enough for the way there and back."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.toys.other_torch import Event, in_other_python, why
from trtcpu.errors import InputError

IMAGES = np.arange(8, dtype=np.float32).reshape(2, 4)
CELL = """
def scores_and_events(factor):
    before, after = cuda.Event(), cuda.Event()
    before.record(STREAM)
    scores = network(torch.from_numpy(IMAGES)) * factor
    after.record(STREAM)
    STREAM.synchronize()
    return {"scores": scores.tolist(), "ms": before.time_till(after), "scale": SCALE}


def fails():
    raise ArithmeticError("nothing to measure")


ROUNDS = 1 if ONLY_HERE else 2
"""


@pytest.fixture
def cell(tmp_path: Path) -> dict[str, Callable[..., Any]]:
    """The functions of a cell whose source Python can find, as it finds a notebook's."""
    (path := tmp_path / "cell.py").write_text(CELL)
    names: dict[str, Any] = {"ONLY_HERE": True}
    exec(compile(CELL, str(path), "exec"), names)
    return names


@pytest.mark.slow
def test_a_function_runs_there_without_its_cell_on_what_was_sent(cell: dict[str, Callable[..., Any]]) -> None:
    network = torch.nn.Linear(4, 3)
    given = (network, IMAGES, {"SCALE": 7})
    found = in_other_python(sys.executable, [cell["scores_and_events"]], "scores_and_events(2)", *given)
    expected = network(torch.from_numpy(IMAGES)).detach().numpy() * 2
    assert np.allclose(found["value"]["scores"], expected, atol=1e-5)
    assert found["value"]["ms"] > 0 and found["value"]["scale"] == 7
    assert found["torch"] == torch.__version__ and found["python"] == sys.version.split()[0]


@pytest.mark.slow
def test_an_error_there_is_named_with_its_last_line(cell: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(InputError, match="ArithmeticError: nothing to measure"):
        in_other_python(sys.executable, [cell["fails"]], "fails()", torch.nn.Linear(4, 3), IMAGES, {})


def test_the_reason_is_the_line_that_says_one() -> None:
    assert why(RuntimeError("backend='inductor' raised:\nno compiler: g++\n\nSet more")) == "no compiler: g++"
    assert why(ValueError()) == "ValueError"


def test_a_python_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"no-such-python.*No such file"):
        in_other_python("no-such-python", [], "1", torch.nn.Linear(4, 3), IMAGES, {})


def test_an_event_before_another_is_earlier_by_both_names() -> None:
    before, after = Event().record(), Event().record()
    assert before.time_till(after) == after.time_since(before) >= 0
