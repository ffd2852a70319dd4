"""Downloads that resume, are checksummed and leave nothing half-written; archives that stay inside their folder."""

import contextlib
import hashlib
import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from helpers.data.storage import one_line, progress_bar
from helpers.tools.files import made_folders, temporary_path
from trtcpu.errors import DataError

TIMEOUT_S = 20
ATTEMPTS = 3
_BLOCK = 1 << 18


@dataclass(frozen=True)
class Source:
    """A file on a server: its address and its checksum as "md5:…" or "sha256:…" (a leading part of it is enough)."""

    url: str
    checksum: str

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[-1]


def fetch(source: Source, folder: Path, progress: bool = True) -> Path:
    """Return the file in `folder`, downloading it first if it is not there; a broken download resumes where it stopped.

    Raises:
        DataError: the server cannot be reached, the file is not there, or what came does not match the checksum.
    """
    path = folder / source.filename
    if path.exists():
        return path
    partial = path.with_name(path.name + ".part")
    with _explained(source, folder):
        folder.mkdir(parents=True, exist_ok=True)
        resumed = partial.exists()
        _download(source.url, partial, progress)
        if resumed and not _matches(partial, source.checksum):  # the part may stem from another version of the file
            partial.unlink()
            _download(source.url, partial, progress)
        _verify(partial, source)
        partial.replace(path)
    return path


@contextlib.contextmanager
def _explained(source: Source, folder: Path) -> Iterator[None]:
    """Turn what urllib, http.client and the file system raise into one line."""
    try:
        yield
    except urllib.error.HTTPError as error:
        raise DataError(f"cannot download {source.url}: the server answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DataError(
            f"cannot download {source.url}: {reason}; check the connection and run again (what came is kept), "
            f"or put the file into {folder}"
        ) from error
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(folder: Path, error: OSError) -> DataError:
    """Return the error for a folder that takes no files."""
    reason = error.strerror or error
    return DataError(f"cannot write to {folder}: {reason}; free space or name another folder in TRT_LAB_DATA")


def _download(url: str, partial: Path, progress: bool) -> None:
    """Bring `partial` to its full length, asking again for the rest when the connection breaks."""
    for attempt in range(1, ATTEMPTS + 1):
        start = partial.stat().st_size if partial.exists() else 0
        try:
            return _transfer(url, partial, start, progress)
        except urllib.error.HTTPError as error:
            error.close()  # it is the answer too, with an open connection
            if error.code != 416:  # 416: nothing is left to send, or the part is longer than the file
                raise
            if _length_said(error) == start:
                return None
            partial.unlink()
        except (http.client.HTTPException, TimeoutError, ConnectionError):
            if attempt == ATTEMPTS:
                raise
    raise ConnectionError("the server refuses to send the rest of the file")


def _length_said(error: urllib.error.HTTPError) -> int:
    total = (error.headers.get("Content-Range") or "").rsplit("/", 1)[-1]
    return int(total) if total.isdigit() else -1


def _transfer(url: str, partial: Path, start: int, progress: bool) -> None:
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        if response.status != 206:
            start = 0  # the server sends the whole file: begin again
        with partial.open("ab" if start else "wb") as file:
            _copy(response, file, start, url, progress)


def _copy(response: http.client.HTTPResponse, file: BinaryIO, start: int, url: str, progress: bool) -> None:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length and length.isdigit() else None
    name = url.rsplit("/", 1)[-1]
    with progress_bar(None, name, "B", progress, total=total, initial=start, unit_scale=True) as bar:
        while block := _read(response):
            file.write(block)
            bar.update(len(block))
    if total is not None and file.tell() < total:
        raise ConnectionError(f"the connection broke after {file.tell()} of {total} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    """Read a block; what the network raises (TLS errors too) must not be taken for a full disk."""
    try:
        return response.read(_BLOCK)
    except OSError as error:
        raise ConnectionError(one_line(error)) from error


def _matches(path: Path, checksum: str) -> bool:
    algorithm, _, expected = checksum.partition(":")
    return _digest(path, algorithm).startswith(expected)


def _digest(path: Path, algorithm: str) -> str:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _verify(partial: Path, source: Source) -> None:
    if _matches(partial, source.checksum):
        return
    algorithm, _, expected = source.checksum.partition(":")
    found = _digest(partial, algorithm)[: len(expected)]
    partial.unlink()
    raise DataError(
        f"{source.url} has {algorithm} {found}, expected {expected}: the file was damaged or replaced; "
        "it was removed, run again"
    )


@contextlib.contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside `folder`, renamed onto it on success and removed on any failure or interrupt.

    When another process made `folder` in the meantime, its result stays.
    """
    try:
        with made_folders(folder.parent), temporary_path(folder) as temporary:
            temporary.mkdir(0o700)
            yield temporary
            temporary.chmod(0o755)
            with contextlib.suppress(FileExistsError):
                temporary.replace(folder)
    except OSError as error:
        if not folder.is_dir():
            raise cannot_write(folder, error) from error


def extract(archive: Path, folder: Path, progress: bool = True, *, keep: bool = False) -> None:
    """Unpack the plain files of a .tar.gz below `folder`; links and anything that points outside are refused.

    Raises:
        DataError: the archive is damaged or unsafe; it is removed, so that the next run downloads it again, unless it
            is somebody's own (`keep`).
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in progress_bar(tar, f"unpack {archive.name}", " files", progress):
                _extract_member(tar, member, folder, archive)
            while tar.fileobj.read(_BLOCK):  # to the end, where gzip checks its own checksum
                pass
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # gzip's own OSErrors have none
            raise
        if keep:
            raise DataError(f"{archive} is no .tar.gz, or is damaged ({one_line(error)})") from error
        archive.unlink(missing_ok=True)
        raise DataError(f"{archive} is damaged ({one_line(error)}); it was removed, run again") from error


def _extract_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, archive: Path) -> None:
    target = (folder / member.name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise DataError(f"{archive} is unsafe: {member.name!r} points outside its folder; nothing was installed")
    if member.isdir():
        return target.mkdir(parents=True, exist_ok=True)
    if not member.isfile():
        raise DataError(f"{archive} is unsafe: {member.name!r} is not a plain file; nothing was installed")
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    with target.open("wb") as file:
        shutil.copyfileobj(source, file)
