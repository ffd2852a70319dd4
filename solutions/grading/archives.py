"""Reads a platform's download with limits: notebooks come out, and a line for everything that is not taken.

Only zips are unpacked, also those within a zip. A name in an archive says whose a notebook may be, but never where it
is written.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from helpers.tools.files import atomic_write
from solutions.grading.faults import course_fault
from solutions.grading.untrusted.text import printable, single_line
from trtcpu.errors import InputError

LARGEST_MEMBER = 200 << 20
LARGEST_TOTAL = 2 << 30
MOST_MEMBERS = 20_000
# Zips within zips: the platform's, a student's own, and one that the student's may hold.
DEEPEST = 3
_LARGEST_DIRECTORY = 16 << 20

# Copies that Jupyter and macOS keep beside a notebook.
_COPIES = re.compile(r"(^|/)(\.ipynb_checkpoints/|__MACOSX/|\._[^/]*$)")
# Files that are somebody's work in a form that cannot be graded: the end of the name, and a line.
_WRONG_FORM = {
    re.compile(r"\.(rar|7z|tar|gz|tgz|bz2|xz)$", re.I): "is an archive of a kind that is not unpacked: ask for a zip",
    re.compile(r"\.ipynb\.\w+$", re.I): "is a notebook under another ending: rename it to end in .ipynb",
    re.compile(r"\.(html?|pdf|py|docx?)$", re.I): "is no notebook: ask for the .ipynb file",
}


class Download:
    """One step's download.

    Args:
        archive: the folder with what the platform gave.
        target: an empty folder for the notebooks.

    Attributes:
        notebooks: the notebooks that came out, by their names in the download.
        lines: work that was not taken, and why.
        others: how many files of each kind were passed over.
    """

    def __init__(self, archive: Path, target: Path) -> None:
        self.notebooks: dict[PurePosixPath, Path] = {}
        self.lines: list[str] = []
        self.others: Counter[str] = Counter()
        self._target = target
        for path in sorted(archive.rglob("*")):
            name = PurePosixPath(path.relative_to(archive).as_posix())
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                self._refuse(name, "it is a link or no plain file")
            elif path.is_file():
                self._bytes, self._members = LARGEST_TOTAL, MOST_MEMBERS
                self._take(partial(path.open, "rb"), name, 0)

    def _take(self, opened: Callable[[], BinaryIO], name: PurePosixPath, depth: int) -> None:
        """Take a notebook, or those of a zip into a folder of its name; refuse or count anything else."""
        wrong = next((said for ending, said in _WRONG_FORM.items() if ending.search(name.name)), "")
        try:
            if _COPIES.search(str(name)):
                self.others["copies of Jupyter's and macOS'"] += 1
            elif name.suffix.lower() == ".zip":
                with opened() as file:
                    self._unpack(file, name.with_suffix(""), depth)
            elif name.suffix.lower() == ".ipynb":
                with opened() as file:
                    self._keep(self._read(file), name.with_suffix(".ipynb"))
            elif wrong:
                self._refuse(name, f"it {wrong}")
            else:
                self.others[name.suffix.lower() or "without an ending"] += 1
        except Exception as error:  # zipfile and zlib raise whatever a broken archive leads them into
            if (depth and isinstance(error, _TooMuchError)) or course_fault(error):
                raise
            said = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            self._refuse(name, said if isinstance(error, InputError) else f"it cannot be unpacked: {said}")

    def _unpack(self, file: BinaryIO, folder: PurePosixPath, depth: int) -> None:
        if depth == DEEPEST:
            raise InputError(f"zips are nested more than {DEEPEST} deep")
        # zipfile seeks: a zip within a zip has to be in memory
        for name, opened in members(io.BytesIO(self._read(file)) if depth else file):
            self._members -= 1
            if self._members < 0:
                raise _TooMuchError(f"it holds more than {MOST_MEMBERS:,} files; what came before was taken")
            # .NET writes backslashes; a slash at the beginning would lead out of the folder that says whose it is
            inner = folder / single_line(name.replace("\\", "/")).lstrip("/")
            if opened:
                self._take(opened, inner, depth + 1)
            else:
                self._refuse(inner, "it is a link or no plain file")

    def _keep(self, data: bytes, name: PurePosixPath) -> None:
        if name in self.notebooks:
            raise InputError("there is another of this name; the first one was taken")
        place = self._target / f"{len(self.notebooks)}.ipynb"
        atomic_write(place, data)
        self.notebooks[name] = place

    def _read(self, file: BinaryIO) -> bytes:
        data = file.read(LARGEST_MEMBER + 1)
        self._bytes -= len(data)
        if self._bytes < 0:
            raise _TooMuchError(f"it has more than {LARGEST_TOTAL >> 20:,} MB unpacked")
        if len(data) > LARGEST_MEMBER:
            raise InputError(f"it has more than {LARGEST_MEMBER >> 20} MB unpacked")
        return data

    def _refuse(self, name: PurePosixPath, why: str) -> None:
        self.lines.append(printable(f"refused: {str(name)[:300]}: {why}"))


class _TooMuchError(InputError):
    """The whole file is too large: nothing more of it is taken."""


def members(file: BinaryIO) -> Iterator[tuple[str, Callable[[], BinaryIO] | None]]:
    """Yield the name of each file in a zip and what opens it, None for a link.

    Raises:
        InputError: its list of files is too large to be read.
    """
    end = zipfile._EndRecData(file)  # zipfile reads its list of files all at once
    if end and (size := end[zipfile._ECD_SIZE]) > _LARGEST_DIRECTORY:
        raise InputError(f"its list of files has {size >> 20} MB; at most {_LARGEST_DIRECTORY >> 20} are read")
    with zipfile.ZipFile(file) as archive:
        for about in archive.infolist():
            kind = about.external_attr >> 28  # the upper bits of a Unix mode; 0 if another system packed it
            if not about.is_dir():
                yield about.filename, partial(archive.open, about) if kind in (0, 0o10) else None
