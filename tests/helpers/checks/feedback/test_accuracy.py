"""Does the visible check of step 7 pass the solution, and name what a wrong loop does?"""

import numpy as np
import pytest
import torch

from helpers.checks.feedback import check_accuracy, check_accuracy_results
from helpers.checks.feedback.check import NotYet
from solutions.checks.trusted.solution_cells import solution_cell


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def _solution():
    namespace = {"np": np, "torch": torch}
    exec(solution_cell("07_accuracy", "evaluate_accuracy_todo"), namespace)
    return namespace["evaluate_accuracy"]


def test_the_solution_passes(capsys) -> None:
    check_accuracy(_solution())
    assert "✗" not in capsys.readouterr().out


def test_fractions_cost_one_line(capsys) -> None:
    with pytest.raises(NotYet, match="1 point to mend"):
        check_accuracy(lambda *args: tuple(rate / 100 for rate in _solution()(*args)))
    assert "(100, 100)" in capsys.readouterr().out


def test_a_missing_table_is_said_once(capsys) -> None:
    with pytest.raises(NotYet, match="1 point to mend"):
        check_accuracy_results()
    assert "run the cell that evaluates the engines" in capsys.readouterr().out
