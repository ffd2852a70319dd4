"""Being late: what it costs is settled at each run, whatever became known after the step was graded."""

import datetime
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbgrader.plugins import LateSubmissionPlugin

from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.grades import StudentGrades
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import find_submissions
from tests.grading.conftest import hand_in, make_course
from tests.grading.tiny import STEP, solved

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own


class PointADay(LateSubmissionPlugin):
    """A course's plugin."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Return a point for each day."""
        return total_seconds_late / 86400


class Broken(LateSubmissionPlugin):
    """A course's plugin with a mistake."""

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float:
        """Fail."""
        raise ZeroDivisionError("no days")


def _run(course: Course) -> tuple[StudentGrades, str]:
    """Return ada's grades, and what was said of her step."""
    said: list[str] = []
    graded = grade_class(course, find_submissions(course, [STEP]), [STEP], lambda *line: said.append(line[-1]))
    return graded.students[0], said[0]


def test_deadline_extension_timestamp_and_plugin_count_whenever_they_come(tmp_path: Path, lab: NotebookNode) -> None:
    course = make_course(tmp_path)
    course.config.AssignLatePenalties.plugin_class = PointADay
    when = hand_in(course, "ada", solved(lab)).with_name("timestamp.txt")
    when.write_text("yesterday, nearly")
    row, _ = _run(course)
    assert row.total == 5.0 and "timestamp.txt holds 'yesterday, nearly', expected such as 2026-11-01" in row.notes[0]
    when.write_text("2026-11-03 12:00:00 UTC")
    assert _run(course)[0].late == 0
    with course.gradebook() as gradebook:
        gradebook.find_assignment(STEP).duedate = datetime.datetime(2026, 11, 1, 12)
        gradebook.db.commit()
    row, said = _run(course)
    assert (row.late, row.total, said) == (2.0, 3.0, "unchanged")
    assert "late -2" in " ".join(course.feedback_page("ada", STEP).read_text().replace("</td><td>", " ").split())
    with course.gradebook() as gradebook:
        gradebook.grant_extension(STEP, "ada", days=1)
        gradebook.db.commit()
    assert _run(course)[0].late == 1.0
    hand_in(course, "ada", f"{when.with_name(f'{STEP}.ipynb').read_text()} ")
    assert _run(course)[1] == "graded"
    assert StepRecord.read(course.autograded("ada"), "ada", STEP).penalty == 1.0  # a piece knows of no extension

    course.config.AssignLatePenalties.plugin_class = Broken
    row, _ = _run(course)
    assert row.late == 1.0 and row.notes == [f"{STEP}: what being late costs is not known: ZeroDivisionError: no days"]
    when.unlink()
    assert (_run(course)[0].late, _run(course)[0].notes) == (0.0, [])
