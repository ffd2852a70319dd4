"""Downloads that are checked and leave nothing half-written; archives that stay inside their folder."""

import contextlib
import logging
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests

from helpers.data.storage import one_line, progress_bar
from helpers.tools.files import made_folders, temporary_path
from trtcpu.errors import DataError

TIMEOUT_S = 20
_RETRIES = 1
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
    """Return the file in `folder`, downloading it first if it is not there. A download that breaks is tried once more.

    Raises:
        DataError: the server cannot be reached, the file is not there, or what came does not match the checksum.
    """
    path = folder / source.filename
    partial = f"{path.name}.part"
    if not path.exists():
        pooch.get_logger().setLevel(logging.WARNING)
        files = pooch.create(folder, "", registry={partial: None}, urls={partial: source.url}, retry_if_failed=_RETRIES)
        size = {"total": 1, "unit_scale": True}  # the server says it; pooch asks first whether the bar has one
        with _explained(source, folder), progress_bar(None, path.name, "B", progress, **size) as bar:
            files.fetch(partial, downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT_S))
        _verify(folder / partial, source)
        (folder / partial).replace(path)
    return path


@contextlib.contextmanager
def _explained(source: Source, folder: Path) -> Iterator[None]:
    """Turn what pooch, requests and the file system raise into one line."""
    try:
        yield
    except requests.HTTPError as error:
        error.response.close()  # pooch leaves it open
        answer = f"{error.response.status_code} {error.response.reason}"
        raise DataError(f"cannot download {source.url}: the server answered {answer}") from error
    except requests.RequestException as error:
        raise DataError(
            f"cannot download {source.url}: {one_line(error)}; check the connection and run again, "
            f"or put the file into {folder}"
        ) from error
    except OSError as error:
        raise cannot_write(folder, error) from error


def cannot_write(folder: Path, error: OSError) -> DataError:
    """Return the error for a folder that takes no files."""
    reason = error.strerror or error
    return DataError(f"cannot write to {folder}: {reason}; free space or name another folder in TRT_LAB_DATA")


def _verify(path: Path, source: Source) -> None:
    algorithm, _, expected = source.checksum.partition(":")
    found = pooch.file_hash(str(path), algorithm)[: len(expected)]
    if found != expected:
        path.unlink()
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
