"""What every visible check does: say all that is missing, with what to try, and leave nothing else behind."""

from pathlib import Path

import pytest

from helpers import feedback
from helpers.feedback.card import Card, Line
from helpers.feedback.checklist import Checklist, NotYet, visible_check
from helpers.missed import Missed


@pytest.fixture(autouse=True)
def _artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))


def _missing() -> str:
    raise Missed("four", "three", "count again")


@visible_check("02_fp16", "Made up")
def check_fp16_engine(check: Checklist, function) -> None:
    """A check with one of everything."""
    check.call("it runs", function)
    check.verify("it counts", _missing)
    check.require("it goes on after a miss that nothing depends on", lambda: "yes")


def test_a_miss_is_shown_with_expected_found_and_try_and_raises_one_line(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(NotYet, match="1 point to mend") as caught:
        check_fp16_engine(lambda: None)
    shown = capsys.readouterr().out
    for text in (
        "✗ Made up",
        "✓ it runs",
        "expected  four",
        "found     three",
        "try       count again",
        "✓ it goes on",
    ):
        assert text in shown
    assert caught.value._render_traceback_() == ["NotYet: Made up: 1 point to mend, named above"]


def test_a_todo_that_is_still_there_is_named(capsys: pytest.CaptureFixture) -> None:
    def build_engine_fp16() -> None:
        raise NotImplementedError

    with pytest.raises(NotYet):
        check_fp16_engine(build_engine_fp16)
    assert "fill in build_engine_fp16 above" in capsys.readouterr().out


def test_an_exception_is_told_with_its_line_and_what_was_printed(capsys: pytest.CaptureFixture) -> None:
    def failing() -> None:
        print("about to fail")
        raise KeyError("input")

    with pytest.raises(NotYet):
        check_fp16_engine(failing)
    shown = capsys.readouterr().out
    assert "KeyError: 'input' (line" in shown and "it printed: about to fail" in shown


def test_while_nbgrader_grades_visible_checks_are_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert check_fp16_engine(lambda: 1 / 0) is None
    assert capsys.readouterr().out == ""


def test_html_shows_student_text_as_text() -> None:
    card = Card("<title>", [Line(False, "<b>", missed=Missed("<i>", "<script>", "&"))])
    assert "<script>" not in card._repr_html_() and "&lt;script&gt;" in card._repr_html_()


def test_progress_counts_passed_checks_and_artifacts(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    @visible_check("02_fp16", "Made up")
    def check_fp16_engine(check: Checklist) -> None:
        check.verify("fine", lambda: None)

    (tmp_path / "resnet50_fp16.engine").write_bytes(b"plan")
    assert dict((row[0], row[1:]) for row in feedback.progress().rows)["02_fp16"] == (0, 1, 1, 1)
    check_fp16_engine()
    capsys.readouterr()
    assert dict((row[0], row[1:]) for row in feedback.progress().rows)["02_fp16"] == (1, 1, 1, 1)
    (tmp_path / ".progress.json").write_text("[garbage")
    assert "02_fp16" in str(feedback.progress()) and "<table>" in feedback.progress()._repr_html_()


def test_every_check_that_progress_counts_exists() -> None:
    from helpers.feedback.progress import CHECKS

    exported = set(feedback.__all__) - {"progress"}
    assert {name for names in CHECKS.values() for name in names} == exported
