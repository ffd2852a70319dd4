"""Unpacks what a learning platform gave: only notebooks come out, and a bad archive costs nobody but its owner.

nbgrader's `zip_collect` calls `NotebookExtractor` (nbgrader_config.py).
"""

import gzip
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from nbgrader.plugins import ExtractorPlugin

from helpers.tools.files import atomic_write
from solutions.grading.faults import course_fault
from solutions.grading.untrusted.text import printable, single_line
from trtcpu.errors import InputError

LARGEST_MEMBER = 200 << 20
LARGEST_TOTAL = 2 << 30
MOST_MEMBERS = 20_000
# Archives within archives: a platform's archive of everybody's archives, and a student's own within.
DEEPEST = 3

_ARCHIVE = re.compile(r"(.*)\.(zip|tar\.gz|tgz)", re.IGNORECASE | re.DOTALL)
_LARGEST_DIRECTORY = 16 << 20


class NotebookExtractor(ExtractorPlugin):
    """nbgrader's extractor for downloaded/<step>/archive/ with limits.

    Attributes:
        refused: a line for each file that was not taken, and why; it is logged too.
    """

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Put the notebooks of each file below `archive_path` into `extracted_path`, an archive's into a folder."""
        source, self.refused = Path(archive_path), []
        for path in sorted(source.rglob("*")):
            name = single_line(str(path.relative_to(source)))
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                self._refuse(f"{name}: it is a link or no plain file")
            elif path.is_file():
                Unpacking(Path(extracted_path), self._refuse).take(partial(path.open, "rb"), PurePosixPath(name))

    def _refuse(self, line: str) -> None:
        self.refused.append(printable(line))
        self.log.warning("Refused: %s", printable(line))


class Unpacking:
    """One downloaded file: its limits hold for all archives within it together.

    Its notebooks are written below `target`; `refuse` is called with a line for each file that is not taken, and why.
    """

    def __init__(self, target: Path, refuse: Callable[[str], None]) -> None:
        self._target, self._refuse = target, refuse
        self._bytes, self._members = LARGEST_TOTAL, MOST_MEMBERS

    def take(self, opened: Callable[[], BinaryIO], name: PurePosixPath, depth: int = 0) -> None:
        """Write a notebook under its name, and those of an archive into a folder of its name; refuse what cannot be.

        Args:
            opened: opens the file.
            name: its path below the archive folder, with its suffix.
            depth: how many archives it lies in.
        """
        try:
            with opened() as file:
                if found := _ARCHIVE.fullmatch(name.name):
                    self._archive(file, name, name.with_name(found[1]), depth)
                elif name.suffix.lower() == ".ipynb":
                    self._write(file, name.with_suffix(".ipynb"))
        except Exception as error:  # zipfile, tarfile and zlib raise whatever a broken archive leads them into
            if (depth and min(self._bytes, self._members) < 0) or course_fault(error):
                raise  # once a limit is used up, nothing more of the download is taken
            said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            self._refuse(f"{name}: {said if isinstance(error, InputError) else f'it cannot be unpacked: {said}'}")

    def _archive(self, file: BinaryIO, name: PurePosixPath, folder: PurePosixPath, depth: int) -> None:
        if depth == DEEPEST:
            raise InputError(f"archives are nested more than {DEEPEST} deep")
        if name.suffix.lower() != ".zip":
            members = _of_tar(file)
        else:  # which is sought in: one within an archive has to be in memory
            members = _of_zip(io.BytesIO(self._read(file)) if depth else file)
        for member, opened in members:
            self._members -= 1
            if self._members < 0:
                raise InputError(f"it holds more than {MOST_MEMBERS:,} files; what came before was taken")
            inner = PurePosixPath(member)
            if not (inner.suffix.lower() == ".ipynb" or _ARCHIVE.fullmatch(inner.name)):
                continue
            if fault := _name_fault(member) or (None if opened else "is a link or no plain file"):
                self._refuse(f"{name}: {member[:200]!a} {fault}")
            else:
                self.take(opened, folder / inner, depth + 1)

    def _write(self, file: BinaryIO, name: PurePosixPath) -> None:
        if os.path.lexists(self._target / name):
            raise InputError("there is another of this name; the first one was taken")
        atomic_write(self._target / name, self._read(file))

    def _read(self, file: BinaryIO) -> bytes:
        data = file.read(LARGEST_MEMBER + 1)
        self._bytes -= len(data)
        if self._bytes < 0:
            raise InputError(f"it has more than {LARGEST_TOTAL >> 20:,} MB unpacked")
        if len(data) > LARGEST_MEMBER:
            raise InputError(f"it has more than {LARGEST_MEMBER >> 20} MB unpacked")
        return data


def _of_zip(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO] | None]]:
    """Yield the name of each member, "" for a folder, and what opens it, None for a link."""
    end = zipfile._EndRecData(file)  # zipfile reads its list of files all at once
    if end and (size := end[zipfile._ECD_SIZE]) > _LARGEST_DIRECTORY:
        raise InputError(f"its list of files has {size >> 20} MB; at most {_LARGEST_DIRECTORY >> 20} are read")
    with zipfile.ZipFile(file) as archive:
        for about in archive.infolist():
            kind = about.external_attr >> 28  # the upper bits of a Unix mode; 0 where another system packed it
            opened = partial(archive.open, about) if kind in (0, 0o10) else None
            yield "" if about.is_dir() else about.filename, opened


def _of_tar(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO] | None]]:
    with _Bounded(fileobj=file) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
        for about in archive:
            opened = partial(archive.extractfile, about) if about.isreg() else None
            yield "" if about.isdir() else about.name, opened


class _Bounded(gzip.GzipFile):
    """What an archive holds unpacked, up to LARGEST_TOTAL bytes: what is skipped has to be unpacked as well."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > LARGEST_TOTAL:
            raise InputError(f"it has more than {LARGEST_TOTAL >> 20:,} MB unpacked")
        return data


def _name_fault(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or (len(name) > 1 and name[1] == ":"):
        return "would leave the archive's folder"
    if single_line(name) != name or any(len(part.encode()) > 200 for part in path.parts):
        return "is no name for a file: at most 200 bytes of UTF-8, without control characters"
    return None
