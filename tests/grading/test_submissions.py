"""What was handed in: read however an editor saved it, or named in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from solutions.grading.submissions import check_notebook, find_submissions
from solutions.grading.untrusted.limits import BoundedExporter
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with its source, and nothing handed in."""
    made = Course.at(tmp_path, ROOT)
    made.source(STEP).parent.mkdir(parents=True)
    nbformat.write(source_notebook(), made.source(STEP))
    (tmp_path / "submitted").mkdir()
    return made


def _notes(course: Course) -> list[str]:
    return find_submissions(course, [STEP])[0].notes


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
def test_an_unchanged_notebook_is_the_same_however_an_editor_saved_it(course: Course, end: str, mark: bytes) -> None:
    notebook = json.loads(nbformat.writes(source_notebook()))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", end)
    path = hand_in(course, "ada", mark + json.dumps(notebook).encode())
    assert check_notebook(course, "ada", STEP) == []
    sources = [cell.source for cell in source_notebook().cells]
    exported, _ = BoundedExporter().from_filename(str(path))
    assert [cell.source for cell in nbformat.reads(exported, as_version=4).cells] == sources


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_notebook_in_another_encoding_is_refused_in_one_line(course: Course, encoding: str) -> None:
    hand_in(course, "ada", nbformat.writes(source_notebook()).encode(encoding))
    with pytest.raises(InputError, match=rf"{STEP}.ipynb is not (text in UTF-8; save it as UTF-8|.*JSON)") as caught:
        check_notebook(course, "ada", STEP)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *(f"{STEP}/{STEP} (1).ipynb", f"{STEP}/01_Export.ipynb", f"{STEP}/{STEP}.IPYNB", f"01_EXPORT/{STEP}.ipynb"),
        *(f"{STEP}/{STEP}.ipynb ", f"{STEP}/{STEP}.ipynb.txt", f"{STEP}/{STEP}.ipynb\u200b", f"{STEP}.IPYNB.json"),
    ],
)
def test_a_notebook_under_nearly_its_name_is_named(course: Course, name: str) -> None:
    path = course.root / "submitted" / "ada" / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert _notes(course) == [f"{STEP}: missing, but there is {name}; it belongs at {STEP}/{STEP}.ipynb"]


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["folder", "link"])
def test_a_notebook_that_is_no_file_is_not_said_to_belong_where_it_is(
    course: Course, make: Callable[[Path], None]
) -> None:
    course.submitted("ada", STEP).parent.mkdir(parents=True)
    make(course.submitted("ada", STEP))
    assert _notes(course) == [f"{STEP}: missing, since {STEP}/{STEP}.ipynb is a folder, or a link to nothing"]
