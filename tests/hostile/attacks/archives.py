"""What a learning platform gave: archives that are broken, swollen, or named to land elsewhere."""

import io
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.grading.tiny import STEP
from tests.hostile.attack import MARK, Attack
from tests.hostile.goals import disk, ended

_NAME = f"{STEP}.ipynb"


def _roster(course: Path, student: str) -> Path:
    archive = course / "downloaded" / STEP / "archive"
    if archive.is_dir():  # another attacker of the class has made it
        return archive
    archive.mkdir(parents=True)
    names = sorted({"a_honest", "z_honest", student, *(path.name for path in (course / "submitted").iterdir())})
    (course / "students.csv").write_text("id,first_name,last_name\n" + "".join(f"{name},{name},X\n" for name in names))
    with zipfile.ZipFile(archive / "z_honest_late.zip", "w") as honest:
        honest.write(course / "submitted" / "z_honest" / STEP / _NAME, _NAME)
    (course / "submitted" / "z_honest" / STEP / _NAME).unlink()
    return archive


def _zipped(members: Callable[[zipfile.ZipFile, Path], None]) -> Callable[[Path, str], None]:
    """Return what puts a zip with `members` into downloaded/, and z_honest's good one beside it."""

    def place(course: Path, student: str) -> None:
        with zipfile.ZipFile(_roster(course, student) / f"{student}_late.zip", "w", zipfile.ZIP_DEFLATED) as file:
            members(file, course / "submitted" / student / STEP / _NAME)

    return place


def _raw(change: Callable[[bytes], bytes]) -> Callable[[Path, str], None]:
    def place(course: Path, student: str) -> None:
        archive = _roster(course, student)
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as file:
            file.write(course / "submitted" / student / STEP / _NAME, _NAME)
        (archive / f"{student}_late.zip").write_bytes(change(content.getvalue()))

    return place


def _traversal(file: zipfile.ZipFile, own: Path) -> None:
    for name in ("../../../../grades_final.csv", "/mnt/home/zip.txt", "..\\..\\zip.txt", "../../../zip.ipynb"):
        file.writestr(name, MARK)


def _neighbour(file: zipfile.ZipFile, own: Path) -> None:
    file.writestr(f"../z_honest_late/{_NAME}", MARK)


def _bomb(file: zipfile.ZipFile, own: Path) -> None:
    file.write(own, _NAME)
    for number in range(6):
        file.writestr(f"{number}.bin", bytes(50 << 20))


def _forged(course: Path, student: str) -> None:
    skipped = "[ZipCollectApp | WARNING] Skipped submission with no match information provided: gone.ipynb"
    (_roster(course, student) / f"x\r{skipped}").write_text(MARK)


def _encrypted(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[6] |= 1  # the flag of the local header, and the directory's
    changed[content.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


_attack = partial(Attack, group="archives", guards=("archives",), alone=True)
ATTACKS = [
    _attack(
        "zip_cut", about="A zip whose end is missing.", goal=ended, place=_raw(lambda data: data[:-30]), says="zip"
    ),
    _attack(
        "zip_damaged",
        about="A zip whose content does not have its checksum.",
        goal=ended,
        place=_raw(lambda data: data[:80] + bytes(40) + data[120:]),
        says="zip",
    ),
    _attack("zip_encrypted", about="A zip with a password.", goal=ended, place=_raw(_encrypted), says="zip"),
    _attack("zip_of_text", about="A zip that is none.", goal=ended, place=_raw(lambda data: b"hello"), says="zip"),
    _attack(
        "zip_traversal",
        about="Names that lead out of the folder.",
        goal=ended,  # the class is not collected; with all guards on it also may touch nothing
        place=_zipped(_traversal),
    ),
    _attack(
        "zip_neighbour", about="A name that leads into a neighbour's folder.", goal=ended, place=_zipped(_neighbour)
    ),
    _attack(
        "file_of_two_lines",
        about="A file's name writes a line of nbgrader's log, about a file that is not there.",
        goal=ended,
        place=_forged,
    ),
    _attack("zip_bomb", about="300 MB in 300 KB.", goal=disk(250), place=_zipped(_bomb), alone=True, apart=True),
]
