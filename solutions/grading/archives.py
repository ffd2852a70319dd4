"""Unpacks what a learning platform gave: only notebooks come out, and a bad archive costs nobody but its owner.

nbgrader's `zip_collect` asks `NotebookExtractor` (nbgrader_config.py). Each thing refused is logged with REFUSED first.
"""

import errno
import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from nbgrader.plugins import ExtractorPlugin

from helpers.tools.files import atomic_path
from solutions.grading.untrusted.text import printable, single_line
from trtcpu.errors import InputError

REFUSED = "Refused:"
LARGEST_MEMBER = 200 << 20
LARGEST_TOTAL = 2 << 30
MOST_MEMBERS = 20_000
DEEPEST = 3
"""Archives within archives: a platform's archive of everybody's archives, and a student's own within."""

_ARCHIVES = (".zip", ".tar.gz", ".tgz")
_BLOCK = 1 << 20
_LARGEST_DIRECTORY = 16 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError, OSError)
_BROKEN += (NotImplementedError, ValueError, LookupError, OverflowError, UnicodeError)
_OURS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""What is wrong with our disk, not with an archive."""

Refuse = Callable[[str], None]


class NotebookExtractor(ExtractorPlugin):
    """nbgrader's extractor for downloaded/<step>/archive/ with limits: what it refuses is logged, by name."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Put the notebooks of each file below `archive_path` into `extracted_path`, an archive's into a folder."""
        source, target = Path(archive_path), Path(extracted_path)
        for path in sorted(source.rglob("*")):
            name = single_line(str(path.relative_to(source)))
            if path.is_dir() and not path.is_symlink():
                continue
            if path.is_symlink() or not path.is_file():
                self.log.warning("%s %s: it is a link or no plain file", REFUSED, printable(name))
                continue
            with path.open("rb") as file:
                unpack(file, name, target, lambda line: self.log.warning("%s %s", REFUSED, printable(line)))


def unpack(file: BinaryIO, name: str, target: Path, refuse: Refuse) -> None:
    """Write the notebooks in a file to `target`: a notebook under its name, an archive's into a folder of its name.

    Args:
        name: the file's path below the archive folder, with its suffix, in which `refuse`'s lines name it.
        refuse: called with a line for each file that was not taken, and why.
    """
    _Unpacking(target, refuse).take(file, PurePosixPath(name), 0)


class _Unpacking:
    """One downloaded file: its limits hold for all archives within it together."""

    def __init__(self, target: Path, refuse: Refuse) -> None:
        self._target, self._refuse = target, refuse
        self._bytes, self._members = LARGEST_TOTAL, MOST_MEMBERS

    def take(self, file: BinaryIO, name: PurePosixPath, depth: int) -> None:
        """Take one file: a notebook is written, an archive unpacked; refuse it where that cannot be done."""
        try:
            if name.name.lower().endswith(_ARCHIVES):
                self._archive(file, name, depth)
            elif name.suffix.lower() == ".ipynb":
                self._write(file, name.with_suffix(".ipynb"))
        except _TooMuch as error:
            if depth:
                raise
            self._refuse(f"{name}: {error}")
        except (InputError, *_BROKEN) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, OSError) and cause.errno in _OURS:
                raise
            said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            self._refuse(f"{name}: {said if isinstance(error, InputError) else f'it cannot be unpacked: {said}'}")

    def _archive(self, file: BinaryIO, name: PurePosixPath, depth: int) -> None:
        if depth == DEEPEST:
            raise InputError(f"archives are nested more than {DEEPEST} deep")
        folder = name.with_name(_stem(name.name))
        members = _of_zip if name.suffix.lower() == ".zip" else _of_tar
        for member, opened in members(file, self._count):
            inner = PurePosixPath(member)
            if not (inner.suffix.lower() == ".ipynb" or inner.name.lower().endswith(_ARCHIVES)):
                continue
            if fault := _name_fault(member):
                self._refuse(f"{name}: {member[:200]!a} {fault}")
            elif opened is None:
                self._refuse(f"{name}: {member[:200]!a} is a link or no plain file")
            else:
                with _Member(opened) as stream:
                    self.take(stream, folder / inner, depth + 1)

    def _count(self) -> None:
        self._members -= 1
        if self._members < 0:
            raise _TooMuch(f"it holds more than {MOST_MEMBERS:,} files; what came before was taken")

    def _write(self, file: BinaryIO, name: PurePosixPath) -> None:
        path, left = self._target / name, LARGEST_MEMBER
        if os.path.lexists(path):
            raise InputError("there is another of this name; the first one was taken")
        with atomic_path(path) as temporary, temporary.open("wb") as out:
            while block := file.read(_BLOCK):
                left -= len(block)
                self._bytes -= len(block)
                if left < 0:
                    raise InputError(f"it has more than {LARGEST_MEMBER >> 20} MB unpacked")
                if self._bytes < 0:
                    raise _TooMuch(f"it has more than {LARGEST_TOTAL >> 20:,} MB unpacked")
                out.write(block)


class _TooMuch(Exception):
    """The whole download is too large: nothing more of it is taken."""


class _Member:
    """A member of an archive, opened when it is first read; closed with the block."""

    def __init__(self, opened: Callable[[], BinaryIO]) -> None:
        self._opened = opened
        self._file: BinaryIO | None = None

    def __enter__(self) -> "_Member":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes."""
        if self._file is None:
            self._file = self._opened()
        return self._file.read(size)


def _of_zip(file: BinaryIO, count: Callable[[], None]) -> Iterator[tuple[str, Callable[[], BinaryIO] | None]]:
    file = _seekable(file)
    if (size := _directory_bytes(file)) > _LARGEST_DIRECTORY:
        raise InputError(f"its list of files has {size >> 20} MB; at most {_LARGEST_DIRECTORY >> 20} are read")
    with zipfile.ZipFile(file) as archive:
        for about in archive.infolist():
            count()
            kind = about.external_attr >> 28  # the upper bits of a Unix mode; 0 where another system packed it
            plain = kind in (0, 0o10) and not about.is_dir()
            if not about.is_dir():
                yield about.filename, (lambda about=about: archive.open(about)) if plain else None


def _of_tar(file: BinaryIO, count: Callable[[], None]) -> Iterator[tuple[str, Callable[[], BinaryIO] | None]]:
    with closing(_Bounded(gzip.GzipFile(fileobj=file))) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for about in archive:
            count()
            if not about.isdir():
                yield about.name, (lambda about=about: archive.extractfile(about)) if about.isreg() else None


class _Bounded(io.RawIOBase):
    """What an archive holds unpacked, up to LARGEST_TOTAL bytes: what is skipped has to be unpacked as well."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, LARGEST_TOTAL

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes."""
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _TooMuch(f"it has more than {LARGEST_TOTAL >> 20:,} MB unpacked")
        return data


def _seekable(file: BinaryIO) -> BinaryIO:
    """Return a zip within an archive as one that can be sought in: in memory, up to LARGEST_MEMBER bytes."""
    if not isinstance(file, _Member):
        return file
    data = file.read(LARGEST_MEMBER + 1)
    if len(data) > LARGEST_MEMBER:
        raise InputError(f"it has more than {LARGEST_MEMBER >> 20} MB")
    return io.BytesIO(data)


def _directory_bytes(file: BinaryIO) -> int:
    """Return how long a zip says that its list of files is; zipfile reads it all at once."""
    start = max(0, file.seek(0, os.SEEK_END) - (1 << 16) - 98)
    file.seek(start)
    end = file.read()
    file.seek(0)
    found, far = end.rfind(b"PK\x05\x06"), end.rfind(b"PK\x06\x06")
    sizes = [int.from_bytes(end[found + 12 : found + 16], "little")] if found >= 0 else []
    sizes += [int.from_bytes(end[far + 40 : far + 48], "little")] if far >= 0 else []
    return min((size for size in sizes if size != 0xFFFFFFFF), default=0 if found < 0 else 0xFFFFFFFF)


def _stem(name: str) -> str:
    return next(name[: -len(suffix)] for suffix in _ARCHIVES if name.lower().endswith(suffix))


def _name_fault(name: str) -> str | None:
    """Return why a member's name is none for a file below the archive's folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        return "would leave the archive's folder"
    try:
        lengths = [len(part.encode()) for part in path.parts]
    except UnicodeEncodeError:
        return "is not UTF-8"
    if max(lengths, default=0) > 200 or single_line(name) != name:
        return "is no name for a file"
    return None
