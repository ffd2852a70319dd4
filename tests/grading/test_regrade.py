"""A check is changed: exactly those whose points move are named, nothing is touched before it is published."""

import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from nbformat import NotebookNode

from helpers.course.steps import CELLS
from helpers.tools.files import write_json
from solutions.checks.core.record import read_record
from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.gradebook import Journal
from solutions.grading.layout import records_of
from solutions.grading.locks import course_lock
from solutions.grading.regrade import (
    FOLDER,
    MEASURED,
    OVERRULED,
    PUBLISHED,
    Moved,
    _counted,
    _publish,
    main,
    moves,
    preview,
    publish,
)
from solutions.grading.step_record import StepRecord
from solutions.grading.submissions import find_submissions
from tests.grading.conftest import hand_in, make_course
from tests.grading.tiny import STEP, code_of, solved
from trtcpu.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # nbgrader's and nbformat's own

ADDS = "def cube(x):\n    return x + 6\n"  # right at 2, wrong at 3


@pytest.fixture
def own(tmp_path: Path) -> Course:
    """A course that nothing was handed in to, and that no other test uses."""
    return make_course(tmp_path)


def _totals(course: Course, *, again: bool = False, seed: int | None = None) -> dict[str, float]:
    found = find_submissions(course, [STEP])
    graded = grade_class(course, found, [STEP], lambda *line: None, again=again, seed=seed)
    return {row.student: row.total for row in graded.students}


def _stricter(course: Course) -> Course:
    """Return the course in regraded/, with a judge that asks for a cube at 3."""
    other = preview(course)
    other.config.GradeExecute.judge = "tests.grading.stricter"
    return other


def _state(course: Course) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(course.root.glob("autograded/**/*.json"))}


def test_who_moves_is_named_before_anything_is_published(own: Course, lab: NotebookNode) -> None:
    hand_in(own, "adds", code_of(solved(lab, "square"), "cube", ADDS))
    hand_in(own, "right", solved(lab))
    assert _totals(own, seed=7) == {"adds": 5.0, "right": 5.0}
    before, other = _state(own), _stricter(own)
    assert _totals(other, again=True) == {"adds": 3.0, "right": 5.0}
    places = [records_of(one.autograded("adds")) / "export_model.json" for one in (own, other)]
    assert [read_record(path).results[0].evidence for path in places] == ["7", "7"]  # nobody's points move by chance
    found = list(moves(own, other, ["adds", "right"], [STEP]))
    assert found == [Moved("adds", STEP, "cube.two", 2.0, 0.0, "expected 27, found something else")]
    assert _state(own) == before and preview(own).root == other.root  # made once: a stopped one goes on

    for cell, points, note in (("export_model", 1.0, ""), ("simplify_model", 0.5, OVERRULED)):
        with own.gradebook() as gradebook:  # a person did that meanwhile
            gradebook.find_grade(cell, STEP, STEP, "adds").manual_score = points
            gradebook.find_comment("cube_todo", STEP, STEP, "adds").manual_comment = "see me"
            gradebook.db.commit()
        assert [one.note for one in moves(own, other, ["adds"], [STEP])] == [note]
    assert list(publish(own, other, "adds", [STEP])) == [(STEP, PUBLISHED)]
    page = own.feedback_page("adds", STEP).read_text()
    assert "see me" in page and "a person changed that to 0.5" in page
    assert _totals(own) == {"adds": 1.5, "right": 5.0}
    with own.gradebook() as gradebook:
        assert gradebook.find_comment("cube_todo", STEP, STEP, "adds").manual_comment == "see me"
    assert list(publish(own, other, "right", [STEP])) == []


def test_what_was_handed_in_again_since_is_not_overwritten_with_old_grades(
    own: Course, lab: NotebookNode, capsys: pytest.CaptureFixture[str]
) -> None:
    for student in ("ada", "ben"):
        hand_in(own, student, code_of(solved(lab, "square"), "cube", ADDS))
    assert _totals(own) == {"ada": 5.0, "ben": 5.0}
    other = _stricter(own)
    assert _totals(other, again=True) == {"ada": 3.0, "ben": 3.0}
    hand_in(own, "ada", solved(lab))
    assert _totals(own) == {"ada": 5.0, "ben": 5.0}
    with pytest.raises(SystemExit) as ended:
        main(course=own.root, published=True)
    said = capsys.readouterr()
    assert ended.value.code == 2 and "1 steps were left out" in said.err
    assert f"ada · {STEP} · left out" in said.out and "run --diff again" in said.out
    assert f"ben · {STEP} · published" in said.out
    assert _totals(own) == {"ada": 5.0, "ben": 3.0} and other.root.is_dir()


def test_who_moved_by_time_alone_and_who_was_overruled_are_counted_apart(own: Course) -> None:
    other = preview(own)
    cell, about = next((name, about) for name, about in CELLS.items() if about.timed)
    result = {"claim": "c", "title": "c", "points": 1.0}
    head = {"cell": cell, "step": about.step, "criterion": about.criterion, "engine": "none", "points": 1.0}
    for one, earned, status in ((own, 1.0, "kept"), (other, 0.0, "lost")):
        path = records_of(one.autograded("ada")) / f"{cell}.json"
        write_json(path, {**head, "results": [{**result, "earned": earned, "status": status}]})
    found = list(moves(own, other, ["ada"], [about.step]))
    assert [one.note for one in found] == [MEASURED]
    found += [replace(found[0], student="ben", note=OVERRULED), replace(found[0], student="eve", note="")]
    assert _counted(found) == 1


def test_a_gradebook_that_the_configuration_names_is_only_read(own: Course, tmp_path: Path) -> None:
    named = own.gradebook_file.rename(tmp_path / "the class.db")
    with (tmp_path / "nbgrader_config.py").open("a") as config:
        config.write(f'c.CourseDirectory.db_url = "sqlite:///{named}"\n')
    other = preview(Course.at(tmp_path))
    assert other.gradebook_file == tmp_path / "regraded" / "the class.db"
    with other.gradebook() as copy:
        assert copy.find_assignment(STEP)
    own.config.CourseDirectory.db_url = "postgresql://host/class"
    with pytest.raises(InputError, match="the gradebook is at postgresql://host/class; let .* name a file"):
        preview(own)


def test_a_step_is_not_published_without_those_that_it_was_graded_on(own: Course) -> None:
    later = "02_fp16"
    own.source(later).parent.mkdir()
    own.source(later).write_text("{}")
    other = preview(own)
    folder = other.autograded("ada")
    StepRecord("ada", STEP, made="anew").write(folder)
    StepRecord("ada", later, key=Journal(other, "ada").key(later)).write(folder)
    (folder / later).mkdir()
    (folder / later / f"{later}.ipynb").write_text("{}")
    ((step, said),) = publish(own, other, "ada", [later])
    assert step == later and said.startswith("left out: in regraded/ the steps before it")


def test_regrade_waits_where_it_is_told_to(own: Course, capsys: pytest.CaptureFixture[str]) -> None:
    with course_lock(own.root), pytest.raises(SystemExit):
        main(course=own.root, published=True)
    assert "or use --wait" in capsys.readouterr().err
    with ExitStack() as other, pytest.raises(SystemExit):
        other.enter_context(course_lock(own.root))
        threading.Timer(0.5, other.pop_all().close).start()
        main(course=own.root, published=True, wait=True)
    said = capsys.readouterr()
    assert "waiting for it" in said.out and "there is no regraded/" in said.err


@pytest.mark.parametrize("asked", [{"steps": ["1_export"]}, {"students": ["eve"]}])
def test_nothing_is_laid_out_for_a_step_or_student_that_is_not_there(
    own: Course, lab: NotebookNode, asked: dict[str, list[str]]
) -> None:
    hand_in(own, "ada", solved(lab))
    with pytest.raises(SystemExit, match="2"):
        main(course=own.root, diff=True, **asked)
    assert not (own.root / FOLDER).exists()


def test_what_is_published_in_part_leaves_the_rest_to_be_published(own: Course, lab: NotebookNode) -> None:
    said: list[str] = []
    for student in ("ada", "ben"):
        hand_in(own, student, solved(lab))
    root = preview(own).root
    _publish(own, ["ada"], None, said.append)
    assert root.is_dir() and "keeps what was not chosen" in said[0]
    _publish(own, None, None, said.append)
    assert not root.exists() and "trtlab grade --rebuild" in said[-1]
