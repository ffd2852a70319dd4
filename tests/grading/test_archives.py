"""A platform's download is read with limits: what is not taken is named, and the rest comes out."""

import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pytest

from solutions.grading import archives
from solutions.grading.archives import Download
from tests.fuzz.test_archives import zipped

MB = 1 << 20
LINK = 0o120777


def _packed(files: dict[str, bytes]) -> bytes:
    return zipped([(name, 0, content) for name, content in files.items()])


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[..., tuple[dict[str, bytes], list[str]]]:
    """Return what comes out of a download: the notebooks by name, and the lines."""
    (archive := tmp_path / "archive").mkdir()
    (target := tmp_path / "target").mkdir()

    def read(files: dict[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
        for name, data in files.items():
            (archive / name).write_bytes(data)
        download = Download(archive, target)
        assert {path for path in tmp_path.rglob("*.*") if archive not in path.parents} == {*download.notebooks.values()}
        lines = download.lines + [f"{kind} {count}" for kind, count in download.others.items()]
        return {str(name): place.read_bytes() for name, place in download.notebooks.items()}, lines

    return read


def test_notebooks_come_out_of_zips_within_zips_and_other_files_are_counted(unpacked: Callable) -> None:
    inner = _packed({"work/01_export.IPYNB": b"a", "sitecustomize.py": b"evil", "__MACOSX/._01_export.ipynb": b"m"})
    whole = _packed({"ada/hand-in.ZIP": inner, "ben\\01_export.ipynb": b"b", "ben/model.onnx": b"x", "ben/n.png": b"x"})
    files = {"all/ada/hand-in/work/01_export.ipynb": b"a", "all/ben/01_export.ipynb": b"b"}
    lines = [
        "refused: all/ada/hand-in/sitecustomize.py: it is no notebook: ask for the .ipynb file",
        "copies of Jupyter's and macOS' 1",
        ".onnx 1",
        ".png 1",
    ]
    assert unpacked({"all.zip": whole}) == (files, lines)


@pytest.mark.parametrize(
    "name", ["../n.ipynb", "/etc/n.ipynb", "a/../../n.ipynb", "C:/n.ipynb", "a\x07\n.ipynb", "n" * 900 + "/n.ipynb"]
)
def test_no_name_in_an_archive_decides_where_a_file_is_written(unpacked: Callable, name: str) -> None:
    files, lines = unpacked({"ada.zip": _packed({name: b"in", "link.ipynb": b""})})
    assert sorted(files.values()) == [b"", b"in"] and lines == []
    assert all(found.isprintable() and found.startswith("ada/") for found in files)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((f"ada.{kind}", "it is an archive of a kind that is not unpacked: ask for a zip") for kind in ("rar", "7z")),
        ("ada.tar.gz", "it is an archive of a kind that is not unpacked: ask for a zip"),
        ("ada_01_export.ipynb.txt", "it is a notebook under another ending: rename it to end in .ipynb"),
        ("ada_01_export.HTML", "it is no notebook: ask for the .ipynb file"),
        ("ada.zip", "it cannot be unpacked: File is not a zip file"),
    ],
)
def test_work_that_cannot_be_taken_is_named_with_its_reason(unpacked: Callable, name: str, why: str) -> None:
    assert unpacked({name: b"work"}) == ({}, [f"refused: {name}: {why}"])


def _of_a_large_directory() -> bytes:
    """Return a zip that says that its list of files has 500 MB."""
    data = _packed({"n.ipynb": b"n"})
    return data[:-10] + (500 << 20).to_bytes(4, "little") + data[-6:]


REFUSED = {
    "link.zip": (zipped([("n.ipynb", LINK, b"")]), "link/n.ipynb: it is a link or no plain file"),
    "inner.zip": (_packed({"in.zip": os.urandom(4 * MB)}), "inner/in.zip: it has more than 3 MB unpacked"),
    "many.zip": (
        _packed({f"{number}.ipynb": bytes(2 * MB) for number in range(6)}),
        "many.zip: it has more than 8 MB unpacked",
    ),
    "crowd.zip": (
        _packed({f"{number}.ipynb": b"" for number in range(60)}),
        "crowd.zip: it holds more than 50 files; what came before was taken",
    ),
    "deep.zip": (
        reduce(lambda data, _: _packed({"in.zip": data}), range(5), _packed({"n.ipynb": b"n"})),
        "deep/in/in/in.zip: zips are nested more than 3 deep",
    ),
    "list.zip": (_of_a_large_directory(), "list.zip: its list of files has 500 MB; at most 16 are read"),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test passes soon."""
    for name, most in {"LARGEST_MEMBER": 3 * MB, "LARGEST_TOTAL": 8 * MB, "MOST_MEMBERS": 50}.items():
        monkeypatch.setattr(archives, name, most)


@pytest.mark.parametrize("name", REFUSED)
def test_links_and_bombs_are_refused_by_name(unpacked: Callable, small: None, name: str) -> None:
    data, line = REFUSED[name]
    assert unpacked({name: data})[1] == [f"refused: {line}"]


def test_a_bomb_costs_its_neighbours_nothing(unpacked: Callable, small: None) -> None:
    found = unpacked({"one.zip": _packed({"one.ipynb": bytes(4 * MB), "two.ipynb": b"2"})})
    assert found == ({"one/two.ipynb": b"2"}, ["refused: one/one.ipynb: it has more than 3 MB unpacked"])
