"""What every visible check does: say all that is missing, with what to try, and leave nothing else behind."""

from pathlib import Path
from typing import Any

import pytest

from helpers.checks import feedback
from helpers.checks.card import Card, Line
from helpers.checks.feedback.check import NotYet, visible
from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.rooms import CHECKS
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.course.artifacts import use_artifacts


@pytest.fixture(autouse=True)
def _artifacts(tmp_path: Path) -> None:
    use_artifacts(tmp_path)


@probe
def run_made_up(notebook: Notebook) -> Any:
    """Call the student's function."""
    return notebook["made_up"]()


MADE_UP = Task("fp16_engine", "Made up", "check_fp16_engine", ("made_up",))


@MADE_UP.point("made_up.runs", 1, "it runs")
def _runs(case: Case) -> str:
    return str(case.call(run_made_up).require("made_up"))


@MADE_UP.point("made_up.counts", 1, "it counts")
def _counts(case: Case) -> str:
    case.call(run_made_up).require("made_up")
    raise Missed("four", "three", "count again")


@MADE_UP.point("made_up.goes_on", 1, "it goes on after a miss")
def _goes_on(case: Case) -> str:
    return "yes"


@MADE_UP.hidden("made_up.hidden", 1, "what only the grader asks")
def _hidden(case: Case) -> str:
    raise AssertionError("a visible check asks no hidden point")


check_made_up = visible("check_fp16_engine", MADE_UP)


def test_a_miss_is_shown_with_expected_found_and_try_and_raises_one_line(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(NotYet, match="1 point to fix") as caught:
        check_made_up(lambda: 3)
    shown = capsys.readouterr().out
    for text in (
        "✗ Made up",
        "✓ it runs: 3",
        "expected  four",
        "found     three",
        "try       count again",
        "✓ it goes on after a miss: yes",
    ):
        assert text in shown
    assert caught.value._render_traceback_() == ["NotYet: Made up: 1 point to fix, listed above"]


def test_a_todo_that_is_still_there_is_named_once(capsys: pytest.CaptureFixture) -> None:
    def made_up() -> None:
        raise NotImplementedError

    with pytest.raises(NotYet, match="1 point"):
        check_made_up(made_up)
    assert capsys.readouterr().out.count("fill in made_up") == 1


def test_while_nbgrader_grades_visible_checks_are_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert check_made_up(lambda: 1 / 0) is None
    assert capsys.readouterr().out == ""


def test_html_shows_student_text_as_text() -> None:
    card = Card("<title>", [Line(False, "<b>", missed=Missed("<i>", "<script>", "&"))])
    assert "<script>" not in card._repr_html_() and "&lt;script&gt;" in card._repr_html_()


def test_every_check_is_a_function_of_feedback_that_names_what_it_takes() -> None:
    assert set(feedback.__all__) - {"check_speed", "progress", "validate"} == set(CHECKS)
    for name, check in CHECKS.items():
        function = getattr(feedback, name)
        assert function.__name__ == name and all(taken in function.__doc__ for taken in check.takes)
