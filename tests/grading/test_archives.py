"""What a learning platform gave is unpacked with limits: a bad archive or member is named, and the rest is taken."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from solutions.grading import archives
from solutions.grading.archives import unpack


def _zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def _tarred(*members: tuple[str, bytes | None]) -> bytes:
    """Return a tar.gz; a member without content is a link to /etc/passwd."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            if content is None:
                about.type, about.linkname = tarfile.SYMTYPE, "/etc/passwd"
            about.size = len(content or b"")
            archive.addfile(about, io.BytesIO(content or b""))
    return data.getvalue()


def _unpacked(folder: Path, name: str, data: bytes) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that came out by path, and the lines about what was refused."""
    said: list[str] = []
    unpack(io.BytesIO(data), name, folder / "out", said.append)
    inside = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(path.startswith("out/") for path in inside)
    return {path.removeprefix("out/"): content for path, content in inside.items()}, said


def test_notebooks_come_out_of_archives_within_archives_and_nothing_else_does(tmp_path: Path) -> None:
    inner = _tarred(("work/01_export.ipynb", b"a"), ("sitecustomize.py", b"evil"))
    whole = _zipped({"ada/hand-in.tar.gz": inner, "ben/01_export.ipynb": b"b", "ben/model.onnx": b"x" * 100})
    assert _unpacked(tmp_path, "all.zip", whole) == (
        {"all/ada/hand-in/work/01_export.ipynb": b"a", "all/ben/01_export.ipynb": b"b"},
        [],
    )


@pytest.mark.parametrize("name", ["../n.ipynb", "/etc/n.ipynb", "a/../../n.ipynb", "C:/n.ipynb", "a\\..\\n.ipynb"])
def test_what_would_leave_the_folder_is_refused_by_name_and_the_rest_is_taken(tmp_path: Path, name: str) -> None:
    files, said = _unpacked(tmp_path, "ada.tar.gz", _tarred((name, b"out"), ("n.ipynb", b"in")))
    assert files == {"ada/n.ipynb": b"in"}
    assert len(said) == 1 and said[0].startswith("ada.tar.gz: ") and "would leave the archive's folder" in said[0]


@pytest.mark.parametrize("name", ["a\x07.ipynb", "n" * 250 + ".ipynb", "\udcff.ipynb"])
def test_what_is_no_name_for_a_file_is_refused(tmp_path: Path, name: str) -> None:
    files, said = _unpacked(tmp_path, "ada.tgz", _tarred((name, b"x")))
    assert files == {} and len(said) == 1 and said[0].isprintable()


def test_links_are_refused(tmp_path: Path) -> None:
    files, said = _unpacked(tmp_path, "ada.tar.gz", _tarred(("n.ipynb", None)))
    assert (files, said) == ({}, ["ada.tar.gz: 'n.ipynb' is a link or no plain file"])
    link = zipfile.ZipInfo("n.ipynb")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    assert _unpacked(tmp_path, "ada.zip", data.getvalue())[1] == ["ada.zip: 'n.ipynb' is a link or no plain file"]


def test_bombs_are_refused_by_name_before_they_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 3 << 20)
    monkeypatch.setattr(archives, "LARGEST_TOTAL", 8 << 20)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 50)
    zeros = bytes(4 << 20)
    files, said = _unpacked(tmp_path, "one.zip", _zipped({"one.ipynb": zeros, "two.ipynb": b"2"}))
    assert (files, said) == ({"one/two.ipynb": b"2"}, ["one/one.ipynb: it has more than 3 MB unpacked"])
    many = _zipped({f"{number}.ipynb": bytes(2 << 20) for number in range(6)})
    assert _unpacked(tmp_path / "many", "many.zip", many)[1] == ["many.zip: it has more than 8 MB unpacked"]
    skipped = _tarred(("data.bin", bytes(9 << 20)), ("n.ipynb", b"n"))
    assert _unpacked(tmp_path / "tar", "tar.tgz", skipped)[1] == ["tar.tgz: it has more than 8 MB unpacked"]
    crowd = _zipped({f"{number}.txt": b"" for number in range(60)})
    assert "holds more than 50 files" in _unpacked(tmp_path / "crowd", "crowd.zip", crowd)[1][0]


def test_archives_are_not_unpacked_without_end(tmp_path: Path) -> None:
    data = _zipped({"n.ipynb": b"n"})
    for _ in range(5):
        data = _zipped({"in.zip": data})
    files, said = _unpacked(tmp_path, "ada.zip", data)
    assert files == {} and said == ["ada/in/in/in.zip: archives are nested more than 3 deep"]


def test_a_list_of_files_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    data = bytearray(_zipped({"n.ipynb": b"n"}))
    end = data.rfind(b"PK\x05\x06")
    data[end + 12 : end + 16] = (500 << 20).to_bytes(4, "little")
    assert "its list of files has 500 MB" in _unpacked(tmp_path, "ada.zip", bytes(data))[1][0]


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_an_archive_that_is_broken_anywhere_never_raises(tmp_path: Path, suffix: str) -> None:
    whole = _zipped({"n.ipynb": os.urandom(3000)}) if suffix == ".zip" else _tarred(("n.ipynb", os.urandom(3000)))
    for place in range(0, len(whole), 97):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        _unpacked(tmp_path / f"{place}", f"ada{suffix}", bytes(broken))
        _unpacked(tmp_path / f"{place} cut", f"ada{suffix}", whole[:place])
