"""Who is in the class and what was handed in: read however an editor saved it, mended, or named in one line.

A submitted notebook gets the course's own test cells back, whatever was done to them.
"""

import json
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from helpers.course.handout import cell_name
from solutions.grading.course import Course
from solutions.grading.layout import scripts_on_path
from solutions.grading.restore import SKIP, restore
from solutions.grading.submissions import (
    ROSTER,
    Student,
    Submission,
    check_files,
    check_notebook,
    enrol,
    find_submissions,
    read_roster,
)
from solutions.grading.untrusted.limits import BoundedExporter
from tests.grading.conftest import hand_in
from tests.grading.tiny import POINTS, STEP, index_of, solved, source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own, about what is mended here


def _roster(folder: Path, text: str | bytes) -> list[Student]:
    (folder / ROSTER).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_roster(folder)


@pytest.fixture
def gradebook() -> Gradebook:
    scripts_on_path()
    with Gradebook("sqlite:///:memory:") as opened:
        yield opened


def test_no_class_list_is_an_empty_one(tmp_path: Path) -> None:
    assert read_roster(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "id,first_name,last_name,email\nada,Ada,Lovelace,ada@example.org\nz,Zoë,,\n",
        "\ufeffemail;last_name;group;id;first_name\r\nada@example.org;Lovelace;7;ada;Ada\r\n;;7;z;Zoë\r\n",
    ],
    ids=["commas", "as a spreadsheet writes it"],
)
def test_the_class_list_is_read_in_its_order(tmp_path: Path, text: str) -> None:
    assert _roster(tmp_path, text) == [Student("ada", "Ada", "Lovelace", "ada@example.org"), Student("z", "Zoë")]


@pytest.mark.parametrize(
    "text, said",
    [
        ("name\nada\n", "no column id: its first line is 'name'"),
        ("", "no column id"),
        ("id\nada\nben\nada\n", "line 4, has the id 'ada' again, after line 2; every student needs their own"),
        ("id\nAda\nben\nada\n", "line 4, has the id 'ada' again, after line 2"),
        ("id,email\nada,A@x.org\nben,a@x.org\n", "line 3, has the email 'a@x.org' again, after line 2"),
        ("id,email\na@x.org,\nben,a@x.org\n", "line 3, has the email 'a@x.org' again, after line 2"),
        ("id,canvas_id\nada,1\n\nben,1\n", "line 4, has the canvas_id '1' again, after line 2"),
        ("id,first_name\n,Ada\n", "line 2, has no id; every student needs an id that can name a folder"),
        *(
            (f"id\nada\n{name}\n", f"line 3, has the id '{name}', which .* names another folder; every student needs")
            for name in ("MA/2026/017", "../kurt", "/tmp/x", "..", ".ada")
        ),
        ('id\n"a<b"\n', "line 2, has the id 'a<b', which holds one of"),
        ("id,first_name\nz,Zoë\n".encode("latin-1"), "is not UTF-8"),
    ],
)
def test_a_class_list_that_cannot_be_used_is_refused_with_its_reason(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        _roster(tmp_path, text)


def test_an_id_may_be_the_students_address_and_anothers_number_in_canvas(tmp_path: Path) -> None:
    students = [Student("a@x.org", email="A@x.org", canvas_id="7"), Student("7", canvas_id="8"), Student("eve")]
    assert _roster(tmp_path, "id,email,canvas_id\na@x.org,A@x.org,7\n7,,8\neve,,\n") == students


def test_formgrader_has_a_name_for_everybody_and_strangers_get_a_note(gradebook: Gradebook) -> None:
    gradebook.add_student("cleo")  # as nbgrader's autograde does it
    gradebook.add_student("eve", first_name="Eve", last_name="Nile")  # as somebody typed it into formgrader
    handed_in = [Submission("ada"), Submission("cleo"), Submission("eve"), Submission("odd", refused=True)]
    assert enrol(gradebook, [Student("ada", "Ada", "Lovelace"), Student("ben")], handed_in) == ["ben"]
    shown = {student.id: f"{student.last_name}, {student.first_name}" for student in gradebook.students}
    assert shown == {"ada": "Lovelace, Ada", "ben": "ben, ", "cleo": "cleo, ", "eve": "Nile, Eve"}
    assert [one.notes for one in handed_in] == [[], ["not in students.csv"], ["not in students.csv"], []]


def test_without_a_class_list_nobody_is_a_stranger(gradebook: Gradebook) -> None:
    submission = Submission("eve")
    enrol(gradebook, [], [submission])
    assert submission.notes == []


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
def test_an_unchanged_notebook_is_the_same_however_an_editor_saved_it(bare: Course, end: str, mark: bytes) -> None:
    notebook = json.loads(nbformat.writes(source_notebook()))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", end)
    path = hand_in(bare, "ada", mark + json.dumps(notebook).encode())
    assert check_notebook(bare, "ada", STEP) == []
    sources = [cell.source for cell in source_notebook().cells]
    exported, _ = BoundedExporter().from_filename(str(path))
    assert [cell.source for cell in nbformat.reads(exported, as_version=4).cells] == sources


def test_notebooks_of_older_formats_and_with_broken_outputs_are_read(bare: Course) -> None:
    notebook = source_notebook() | {"nbformat_minor": 2}
    for cell in notebook["cells"]:
        del cell["id"]
        if cell.cell_type == "code":
            cell.outputs = [{"output_type": "nonsense"}]
    hand_in(bare, "ada", json.dumps(notebook))
    assert check_notebook(bare, "ada", STEP) == []


NOT_UTF8 = rf"{STEP}.ipynb is not (text in UTF-8; save it as UTF-8|.*JSON)"
UTF8 = nbformat.writes(source_notebook())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((UTF8.encode(other), NOT_UTF8) for other in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        (b"{ not JSON", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"[1, 2]", "not a notebook"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b'{"cells": [{"cell_type": "code"}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a"),
        (b'{"cells": [7], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a"),
    ],
)
def test_what_is_no_notebook_is_refused_with_one_line(bare: Course, content: bytes, reason: str) -> None:
    hand_in(bare, "ada", content)
    with pytest.raises(InputError, match=reason) as caught:
        check_notebook(bare, "ada", STEP)
    assert "\n" not in str(caught.value)


NEAR = (
    *(f"{STEP}/{STEP} (1).ipynb", f"{STEP}/01_Export.ipynb", f"{STEP}/{STEP}.IPYNB", f"01_EXPORT/{STEP}.ipynb"),
    *(f"{STEP}/{STEP}.ipynb ", f"{STEP}/{STEP}.ipynb.txt", f"{STEP}/{STEP}.ipynb\u200b", f"{STEP}.IPYNB.json"),
)
MISSING = f"{STEP}: missing, "
NO_FILE = f"{MISSING}since {STEP}/{STEP}.ipynb is a folder, or a link to nothing"
CALLED = "refused: the student folder's name {}; rename the folder"
LINKED = "refused: the student's folder is a link, and links are not followed; put the files there"


@pytest.mark.parametrize(
    ("name", "make", "note"),
    [
        *(
            (f"ada/{near}", Path.touch, f"{MISSING}but there is {near}; it belongs at {STEP}/{STEP}.ipynb")
            for near in NEAR
        ),
        (f"ada/{STEP}/{STEP}.ipynb", Path.mkdir, NO_FILE),
        (f"ada/{STEP}/{STEP}.ipynb", lambda path: path.symlink_to("nowhere"), NO_FILE),
        ("ada ", Path.mkdir, CALLED.format("begins or ends with a space")),
        ("ada*", Path.mkdir, CALLED.format("holds one of [ ] * ?, which nbgrader takes for a pattern")),
        ("<ada", Path.mkdir, CALLED.format('holds one of < > " \\, which pages would take for something else')),
        ("a\udcff", Path.mkdir, CALLED.format("is not UTF-8")),
        ("a\ab", Path.mkdir, CALLED.format("holds a character that cannot be printed")),
        ("ada", lambda path: path.symlink_to(path.parent), LINKED),
    ],
)
def test_a_notebook_under_nearly_its_name_and_a_folder_that_cannot_be_a_students_are_named(
    bare: Course, name: str, make: Callable[[Path], None], note: str
) -> None:
    path = bare.root / "submitted" / name
    path.parent.mkdir(parents=True)
    make(path)
    (found,) = find_submissions(bare, [STEP])
    assert (found.notes, found.refused, found.steps) == ([note], note.startswith("refused"), [])
    assert found.student.isprintable()


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        (f"{STEP}.ipynb", lambda path: path.symlink_to("/etc/passwd"), f"{STEP}.ipynb is a link"),
        ("data.txt", lambda path: path.symlink_to("/etc/passwd"), "data.txt is a link"),
        ("pipe", os.mkfifo, "pipe is no plain file"),
        ("1", lambda path: [path.with_name(f"{n}").touch() for n in range(1001)], "has 1,001 files; at most 1,000"),
    ],
)
def test_submissions_that_are_links_no_files_or_too_many_are_refused_by_name(
    bare: Course, name: str, make: Callable[[Path], object], said: str
) -> None:
    path = hand_in(bare, "ada", "{}").with_name(name)
    check_files(bare, "ada", STEP)
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(InputError, match=said):
        check_files(bare, "ada", STEP)


Cells = list[NotebookNode]


def _mended(notebook: NotebookNode) -> tuple[Cells, list[str]]:
    notes = restore(notebook, source_notebook())
    return notebook.cells, notes


def _export_model(cells: Cells) -> NotebookNode:
    return next(cell for cell in cells if cell_name(cell) == "export_model")


def _relabelled(cells: Cells) -> Cells:
    cell = _export_model(cells)
    cell.metadata.nbgrader.update(points=50, locked=False)
    cell.source = "50"
    return cells


def _with_metadata(cells: Cells) -> Cells:
    for cell in cells:
        tags = [SKIP, "raises-exception", "for-the-grader", "remove-input"]
        cell.metadata |= {"tags": tags, "transient": {"remove_source": True}, "deletable": True, "timeout": 0}
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader |= {"points": 1000.0, "locked": False, "grade": True, "solution": True, "task": True}
    return cells


def _strange(label: object) -> Callable[[Cells], Cells]:
    return lambda cells: [cells[0], NotebookNode(cells[1] | {"metadata": {"nbgrader": label}}), *cells[2:]]


EDITED = "the label of cell {} was edited ({}): the course's counts"
STRANGE = ("rubbish", 7, {"grade_id": 3}, {"grade_id": "other", "grade": True, "points": 99}, [])
EDITS: dict[str, tuple[Callable[[Cells], Cells], list[str]]] = {
    "nothing": (list, []),
    "test cells deleted": (
        lambda cells: [cell for cell in cells if cell_name(cell) not in POINTS],
        [f"cell {name} was missing: put back" for name in POINTS],
    ),
    "a test cell doubled": (
        lambda cells: [deepcopy(_export_model(cells)), *cells],
        ["cell export_model was there more than once: the last one counts"],
    ),
    "points, labels and code edited": (
        _relabelled,
        [
            EDITED.format("export_model", "locked, points"),
            "test cell export_model was edited: the course's own ran instead",
        ],
    ),
    **{
        f"a label that makes no sense: {label}": (
            _strange(label),
            ["1 labels that this step does not have were ignored"],
        )
        for label in STRANGE
    },
    "metadata edited": (
        _with_metadata,
        [
            EDITED.format(name, "solution, locked, points, task" if name in POINTS else "grade, points, task")
            for name in ("square_todo", "export_model", "cube_todo", "simplify_model")
        ],
    ),
}


def _shown(cells: Cells) -> list[tuple]:
    return [(one.cell_type, one.source, one.metadata) for one in sorted(cells, key=lambda cell: not cell_name(cell))]


@pytest.mark.parametrize(("edit", "notes"), EDITS.values(), ids=EDITS)
def test_whatever_is_done_to_a_notebook_its_cells_are_the_courses_and_the_answers_its_own(
    lab: NotebookNode, edit: Callable[[Cells], Cells], notes: list[str]
) -> None:
    notebook = solved(lab)
    notebook.cells = edit(notebook.cells)
    mended, said = _mended(notebook)
    plain, _ = _mended(solved(lab))
    assert said == notes
    assert [cell.source for cell in plain] == [cell.source for cell in solved(lab).cells]
    assert _shown(mended) == _shown(plain)


def test_a_deleted_answer_is_not_put_back_as_a_todo(lab: NotebookNode) -> None:
    notebook = solved(lab)
    del notebook.cells[index_of(notebook, "square_todo")]
    assert not any("NotImplementedError" in cell.source for cell in _mended(notebook)[0])


def test_only_demonstrations_that_were_not_changed_are_skipped(lab: NotebookNode) -> None:
    notebook = solved(lab)
    notebook.cells[1].metadata["tags"] = [SKIP, "explore"]
    mended, _ = _mended(notebook)
    assert mended[1].metadata == {} and SKIP in mended[-1].metadata.tags
    notebook.cells[-1].source += "\nmine = 1"
    assert _mended(notebook)[0][-1].metadata == {}
