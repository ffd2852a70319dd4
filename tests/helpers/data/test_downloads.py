"""Downloads against a local server that breaks off, lies or is gone; archives that are damaged or unsafe."""

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.data.downloads import Source, atomic_folder, extract, fetch
from tests.helpers.data.local_server import LocalServer, local_server, url_of_nothing
from trtcpu.errors import DataError

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as running:
        running.files["file.bin"] = CONTENT
        yield running


def source(server: LocalServer, name: str = "file.bin", checksum: str | None = None) -> Source:
    return Source(f"{server.url}/{name}", checksum or "sha256:" + hashlib.sha256(CONTENT).hexdigest())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_good_file_arrives_once_and_is_not_asked_for_again(server: LocalServer, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch(source(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.requests == 1
    assert names(tmp_path) == ["file.bin"]


MD5, SHA256 = hashlib.md5(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("checksum", [f"md5:{MD5}", f"sha256:{SHA256[:8]}"])
def test_md5_and_the_first_digits_of_a_checksum_are_enough(server: LocalServer, tmp_path: Path, checksum: str) -> None:
    assert fetch(source(server, checksum=checksum), tmp_path, progress=False).exists()


def test_a_connection_that_breaks_is_tried_once_more(server: LocalServer, tmp_path: Path) -> None:
    server.cut_after, server.cuts = 100_000, 1
    assert fetch(source(server), tmp_path, progress=False).read_bytes() == CONTENT
    assert server.requests == 2 and names(tmp_path) == ["file.bin"]


def test_a_connection_that_always_breaks_is_one_line_and_leaves_nothing(server: LocalServer, tmp_path: Path) -> None:
    server.cut_after, server.cuts = 1000, 99
    with pytest.raises(DataError, match="cannot download .*1000 bytes read.*run again") as caught:
        fetch(source(server), tmp_path, progress=False)
    assert names(tmp_path) == [] and "\n" not in str(caught.value)


def test_what_a_killed_download_left_is_checked_too(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:500])
    with pytest.raises(DataError, match="it was removed, run again"):
        fetch(source(server), tmp_path, progress=False)
    assert fetch(source(server), tmp_path, progress=False).read_bytes() == CONTENT


def test_a_wrong_checksum_names_both_and_leaves_nothing(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has md5 [0-9a-f]{32}, expected 0{32}.*run again"):
        fetch(source(server, checksum="md5:" + "0" * 32), tmp_path, progress=False)
    assert names(tmp_path) == []


def test_a_missing_file_says_404(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="answered 404"):
        fetch(source(server, "other.bin"), tmp_path, progress=False)


def test_a_server_that_is_gone_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot download http.*check the connection") as caught:
        fetch(Source(url_of_nothing() + "/file.bin", "md5:0"), tmp_path, progress=False)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_one_clear_line(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DataError, match="cannot write to .*TRT_LAB_DATA"):
        fetch(source(server), tmp_path / "file" / "below", progress=False)


def archive(path: Path, *members: tuple[str, bytes | None]) -> Path:
    """Write a .tar.gz; a member without content is a symbolic link to /etc/passwd."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content or b"")
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member, io.BytesIO(content or b""))
    return path


def test_plain_files_are_unpacked(tmp_path: Path) -> None:
    extract(archive(tmp_path / "a.tgz", ("set/train/a.txt", b"A"), ("b.txt", b"B")), tmp_path / "out", progress=False)
    assert (tmp_path / "out/set/train/a.txt").read_bytes() == b"A"


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-of-the-archive-test", "a/../../evil"])
def test_members_that_point_outside_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="points outside"):
        extract(archive(tmp_path / "a.tgz", (name, b"x")), tmp_path / "out", progress=False)
    assert not list(tmp_path.glob("**/evil*")) and not Path("/tmp/evil-of-the-archive-test").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a plain file"):
        extract(archive(tmp_path / "a.tgz", ("link", None)), tmp_path / "out", progress=False)


DAMAGES = {
    "truncated": lambda raw: raw[: len(raw) // 2],
    "a byte changed": lambda raw: raw[:3000] + bytes([raw[3000] ^ 255]) + raw[3001:],
    "another file": lambda raw: b"not an archive",
    "empty": lambda raw: b"",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_archive_is_removed(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = archive(tmp_path / "a.tgz", *[(f"{i}.bin", hashlib.sha512(bytes([i])).digest() * 50) for i in range(50)])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"^[^\n]*damaged[^\n]*run again$"):
        extract(path, tmp_path / "out", progress=False)
    assert not path.exists()


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "set") as temporary:
        (temporary / "half").write_text("half")
        raise KeyboardInterrupt
    assert names(tmp_path) == []
    with atomic_folder(tmp_path / "set") as temporary:
        (temporary / "whole").write_text("whole")
    assert names(tmp_path) == ["set"] and names(tmp_path / "set") == ["whole"]


def test_a_folder_that_another_process_made_in_the_meantime_stays(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "set") as temporary:
        (temporary / "second").write_text("2")
        (tmp_path / "set").mkdir()
        (tmp_path / "set" / "first").write_text("1")
    assert names(tmp_path) == ["set"] and names(tmp_path / "set") == ["first"]
