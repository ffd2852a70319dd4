"""What was handed in: read however an editor saved it, or named in one line."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from solutions.grading.course import Course
from solutions.grading.submissions import check_files, check_notebook, find_submissions
from solutions.grading.untrusted.limits import BoundedExporter
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_notebook_in_another_encoding_is_refused_in_one_line(bare: Course, encoding: str) -> None:
    hand_in(bare, "ada", nbformat.writes(source_notebook()).encode(encoding))
    with pytest.raises(InputError, match=rf"{STEP}.ipynb is not (text in UTF-8; save it as UTF-8|.*JSON)") as caught:
        check_notebook(bare, "ada", STEP)
    assert "\n" not in str(caught.value)


NEAR = (
    *(f"{STEP}/{STEP} (1).ipynb", f"{STEP}/01_Export.ipynb", f"{STEP}/{STEP}.IPYNB", f"01_EXPORT/{STEP}.ipynb"),
    *(f"{STEP}/{STEP}.ipynb ", f"{STEP}/{STEP}.ipynb.txt", f"{STEP}/{STEP}.ipynb\u200b", f"{STEP}.IPYNB.json"),
)
NO_FILE = f"since {STEP}/{STEP}.ipynb is a folder, or a link to nothing"


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        *((name, Path.touch, f"but there is {name}; it belongs at {STEP}/{STEP}.ipynb") for name in NEAR),
        *((f"{STEP}/{STEP}.ipynb", make, NO_FILE) for make in (Path.mkdir, lambda path: path.symlink_to("nowhere"))),
    ],
)
def test_a_notebook_under_nearly_its_name_or_that_is_no_file_is_named(
    bare: Course, name: str, make: Callable[[Path], None], said: str
) -> None:
    path = bare.root / "submitted" / "ada" / name
    path.parent.mkdir(parents=True)
    make(path)
    assert find_submissions(bare, [STEP])[0].notes == [f"{STEP}: missing, {said}"]


CALLED = "the student folder's name {}; rename the folder"


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("ada ", Path.mkdir, CALLED.format("begins or ends with a space")),
        ("ada*", Path.mkdir, CALLED.format("holds one of [ ] * ?, which nbgrader takes for a pattern")),
        ("<ada", Path.mkdir, CALLED.format('holds one of < > " \\, which pages would take for something else')),
        ("a\udcff", Path.mkdir, CALLED.format("is not UTF-8")),
        ("a\ab", Path.mkdir, CALLED.format("holds a character that cannot be printed")),
        (
            "ada",
            lambda path: path.symlink_to(path.parent),
            "the student's folder is a link, and links are not followed; put the files there",
        ),
    ],
)
def test_a_folder_that_cannot_be_a_students_is_refused(
    bare: Course, name: str, make: Callable[[Path], None], said: str
) -> None:
    (bare.root / "submitted").mkdir()
    make(bare.root / "submitted" / name)
    (found,) = find_submissions(bare, [STEP])
    assert (found.notes, found.refused, found.steps) == ([f"refused: {said}"], True, [])
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
