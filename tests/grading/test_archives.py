"""What a learning platform gave is unpacked with limits: a bad archive or member is named, and the rest is taken."""

import io
import logging
import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path, PurePosixPath

import pytest

from solutions.grading import archives
from solutions.grading.archives import NotebookExtractor, Unpacking
from solutions.grading.collector import names_of, student_of
from solutions.grading.submissions import Student
from tests.fuzz.test_archives import tarred, zipped

MB = 1 << 20
LINK = 0o120777


def _packed(pack: Callable[[list], bytes], files: dict[str, bytes]) -> bytes:
    return pack([(name, 0, content) for name, content in files.items()])


def _unpacked(folder: Path, name: str, data: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that came out by path, and the lines about what was refused."""
    said: list[str] = []
    Unpacking(folder / "out", said.append).take(lambda: io.BytesIO(data), PurePosixPath(name))
    inside = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(path.startswith("out/") for path in inside)
    return {path.removeprefix("out/"): content for path, content in inside.items()}, said


def test_notebooks_come_out_of_archives_within_archives_and_nothing_else_does(tmp_path: Path) -> None:
    inner = _packed(tarred, {"work/01_export.ipynb": b"a", "sitecustomize.py": b"evil"})
    whole = _packed(zipped, {"ada/hand-in.tar.gz": inner, "ben/01_export.ipynb": b"b", "ben/model.onnx": b"x" * 100})
    files = {"all/ada/hand-in/work/01_export.ipynb": b"a", "all/ben/01_export.ipynb": b"b"}
    assert _unpacked(tmp_path, "all.zip", whole) == (files, [])


LEAVES, NO_NAME = "would leave the archive's folder", "is no name for a file"


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *((name, LEAVES) for name in ("../n.ipynb", "/etc/n.ipynb", "a/../../n.ipynb", "C:/n.ipynb", "a\\..\\n.ipynb")),
        *((name, NO_NAME) for name in ("a\x07.ipynb", "n" * 250 + ".ipynb", "n" * 250 + "/n.ipynb", "\udcff.ipynb")),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_the_rest_is_taken(tmp_path: Path, name: str, fault: str) -> None:
    files, (said,) = _unpacked(tmp_path, "ada.tar.gz", _packed(tarred, {name: b"out", "n.ipynb": b"in"}))
    assert files == {"ada/n.ipynb": b"in"}
    assert said.startswith("ada.tar.gz: ") and fault in said and said.isprintable()


def _of_a_large_directory() -> bytes:
    """Return a zip that says that its list of files has 500 MB."""
    data = _packed(zipped, {"n.ipynb": b"n"})
    return data[:-10] + (500 << 20).to_bytes(4, "little") + data[-6:]


REFUSED = {
    "link.tar.gz": (tarred([("n.ipynb", LINK, b"")]), "link.tar.gz: 'n.ipynb' is a link or no plain file"),
    "link.zip": (zipped([("n.ipynb", LINK, b"")]), "link.zip: 'n.ipynb' is a link or no plain file"),
    "inner.zip": (_packed(zipped, {"in.zip": os.urandom(4 * MB)}), "inner/in.zip: it has more than 3 MB unpacked"),
    "many.zip": (
        _packed(zipped, {f"{number}.ipynb": bytes(2 * MB) for number in range(6)}),
        "many.zip: it has more than 8 MB unpacked",
    ),
    "skipped.tgz": (_packed(tarred, {"data.bin": bytes(9 * MB)}), "skipped.tgz: it has more than 8 MB unpacked"),
    "crowd.zip": (
        _packed(zipped, {f"{number}.txt": b"" for number in range(60)}),
        "crowd.zip: it holds more than 50 files; what came before was taken",
    ),
    "deep.zip": (
        reduce(lambda data, _: _packed(zipped, {"in.zip": data}), range(5), _packed(zipped, {"n.ipynb": b"n"})),
        "deep/in/in/in.zip: archives are nested more than 3 deep",
    ),
    "list.zip": (_of_a_large_directory(), "list.zip: its list of files has 500 MB; at most 16 are read"),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test passes soon."""
    for name, most in {"LARGEST_MEMBER": 3 * MB, "LARGEST_TOTAL": 8 * MB, "MOST_MEMBERS": 50}.items():
        monkeypatch.setattr(archives, name, most)


@pytest.mark.parametrize("name", REFUSED)
def test_links_and_bombs_are_refused_by_name(tmp_path: Path, small: None, name: str) -> None:
    data, line = REFUSED[name]
    assert _unpacked(tmp_path, name, data)[1] == [line]


def test_a_bomb_costs_its_neighbours_nothing(tmp_path: Path, small: None) -> None:
    found = _unpacked(tmp_path, "one.zip", _packed(zipped, {"one.ipynb": bytes(4 * MB), "two.ipynb": b"2"}))
    assert found == ({"one/two.ipynb": b"2"}, ["one/one.ipynb: it has more than 3 MB unpacked"])


def test_the_names_of_downloaded_files_are_single_lines_of_nbgraders_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (archive := tmp_path / "archive").mkdir()
    (archive / "n\nz\x1b\u202e\udcff.ipynb").write_text("taken")
    (archive / "link\nz\u202e\udcff").symlink_to(archive)
    with caplog.at_level(logging.WARNING):
        NotebookExtractor(log=logging.getLogger("extract")).extract(str(archive), str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["n\\nz\\x1b\u202e\\udcff.ipynb"]
    assert caplog.messages == [r"Refused: link\nz\u202e\udcff: it is a link or no plain file"]


@pytest.mark.parametrize("name", ["علی\u200cرضا Karimi", "René\xa0Jean Roe", "क्\u200dष Rao"])
def test_a_name_with_a_joiner_or_another_space_is_collected(tmp_path: Path, name: str) -> None:
    member = f"{name}_1_assignsubmission_file_/01_export.ipynb"
    (path,), _ = _unpacked(tmp_path, "all.zip", _packed(zipped, {member: b"taken"}))
    first, last = name.rsplit(" ", 1)
    assert student_of(PurePosixPath(path), "01_export", names_of([Student("ada", first, last)])) == "ada"
