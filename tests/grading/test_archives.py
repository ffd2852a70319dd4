"""What a learning platform gave is unpacked with limits: a bad archive or member is named, and the rest is taken."""

import io
import os
import tarfile
import zipfile
from functools import reduce
from pathlib import Path, PurePosixPath

import pytest

from solutions.grading import archives
from solutions.grading.archives import Unpacking

MB = 1 << 20
LINK = b"/etc/passwd"


def _zipped(files: dict[str, bytes]) -> bytes:
    """Return a zip, in which what holds LINK is a link."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name)
            about.external_attr = 0o120777 << 16 if content == LINK else 0
            archive.writestr(about, content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _tarred(files: dict[str, bytes]) -> bytes:
    """Return a tar.gz, in which what holds LINK is a link."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            if content == LINK:
                about.type, about.linkname, about.size = tarfile.SYMTYPE, "/etc/passwd", 0
            archive.addfile(about, io.BytesIO(content))
    return data.getvalue()


def _unpacked(folder: Path, name: str, data: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that came out by path, and the lines about what was refused."""
    said: list[str] = []
    Unpacking(folder / "out", said.append).take(lambda: io.BytesIO(data), PurePosixPath(name))
    inside = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(path.startswith("out/") for path in inside)
    return {path.removeprefix("out/"): content for path, content in inside.items()}, said


def test_notebooks_come_out_of_archives_within_archives_and_nothing_else_does(tmp_path: Path) -> None:
    inner = _tarred({"work/01_export.ipynb": b"a", "sitecustomize.py": b"evil"})
    whole = _zipped({"ada/hand-in.tar.gz": inner, "ben/01_export.ipynb": b"b", "ben/model.onnx": b"x" * 100})
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
    files, (said,) = _unpacked(tmp_path, "ada.tar.gz", _tarred({name: b"out", "n.ipynb": b"in"}))
    assert files == {"ada/n.ipynb": b"in"}
    assert said.startswith("ada.tar.gz: ") and fault in said and said.isprintable()


def _of_a_large_directory() -> bytes:
    """Return a zip that says that its list of files has 500 MB."""
    data = bytearray(_zipped({"n.ipynb": b"n"}))
    end = data.rfind(b"PK\x05\x06")
    data[end + 12 : end + 16] = (500 << 20).to_bytes(4, "little")
    return bytes(data)


REFUSED = {
    "link.tar.gz": (_tarred({"n.ipynb": LINK}), "link.tar.gz: 'n.ipynb' is a link or no plain file"),
    "link.zip": (_zipped({"n.ipynb": LINK}), "link.zip: 'n.ipynb' is a link or no plain file"),
    "inner.zip": (_zipped({"in.zip": os.urandom(4 * MB)}), "inner/in.zip: it has more than 3 MB unpacked"),
    "many.zip": (
        _zipped({f"{number}.ipynb": bytes(2 * MB) for number in range(6)}),
        "many.zip: it has more than 8 MB unpacked",
    ),
    "skipped.tgz": (_tarred({"data.bin": bytes(9 * MB)}), "skipped.tgz: it has more than 8 MB unpacked"),
    "crowd.zip": (
        _zipped({f"{number}.txt": b"" for number in range(60)}),
        "crowd.zip: it holds more than 50 files; what came before was taken",
    ),
    "deep.zip": (
        reduce(lambda data, _: _zipped({"in.zip": data}), range(5), _zipped({"n.ipynb": b"n"})),
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
    found = _unpacked(tmp_path, "one.zip", _zipped({"one.ipynb": bytes(4 * MB), "two.ipynb": b"2"}))
    assert found == ({"one/two.ipynb": b"2"}, ["one/one.ipynb: it has more than 3 MB unpacked"])


@pytest.mark.parametrize(("suffix", "pack"), [(".zip", _zipped), (".tar.gz", _tarred)])
def test_an_archive_that_is_broken_anywhere_never_raises(tmp_path: Path, suffix: str, pack: object) -> None:
    whole = pack({"n.ipynb": os.urandom(3000)})
    for place in range(0, len(whole), 97):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        _unpacked(tmp_path / f"{place}", f"ada{suffix}", bytes(broken))
        _unpacked(tmp_path / f"{place} cut", f"ada{suffix}", whole[:place])
