"""What names say: of files, and of a time zone."""

import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.grading.tiny import STEP
from tests.hostile.attack import MARK, Attack
from tests.hostile.goals import ended, formula, grader_memory, said

_TRANSITIONS = 30_000_000
_HEADER = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, _TRANSITIONS, 1, 4)


def _stray(name: bytes) -> Callable[[Path, str], None]:
    """Return what hands in the notebook under a name that is not its own."""

    def place(course: Path, student: str) -> None:
        own = course / "submitted" / student / STEP
        os.rename(own / f"{STEP}.ipynb", os.fsencode(own / STEP) + name + b".ipynb")

    return place


def _zone(course: Path, student: str) -> None:
    """Hand in a time zone of gigabytes, and a time in it."""
    own = course / "submitted" / student / STEP
    with (own / "zone").open("wb") as file:
        file.write(_HEADER)
        file.truncate(len(_HEADER) + 4 * _TRANSITIONS)
    (own / "timestamp.txt").write_text(f"2026-11-01 12:00:00 {own / 'zone'}")


_attack = partial(Attack, group="names", guards=("names",), says="missing, but there is")
ATTACKS = [
    _attack(
        "name_of_two_lines",
        about="A file's name ends its line and says of a neighbour that the step was refused.",
        goal=said(rf"(?m)^z_honest · {STEP} · refused: {MARK}"),
        place=_stray(f"\nz_honest · {STEP} · refused: {MARK}".encode()),
    ),
    _attack(
        "name_of_escape_codes",
        about="A file's name sets the title of the instructor's terminal.",
        goal=said("\x1b"),
        place=_stray(f"\x1b]0;{MARK}\x07".encode()),
    ),
    _attack(
        "name_that_is_no_text",
        about="A file's name that no file of grades can hold.",
        goal=ended,
        place=_stray(b"\xff"),
        alone=True,
    ),
    _attack(
        "name_of_a_formula",
        about="A file's name holds a formula, behind the semicolon at which many spreadsheets split.",
        goal=formula,
        guards=("cells",),
        place=_stray(f";=HYPERLINK('{MARK}')".encode()),
    ),
    _attack(
        "zone_of_a_file",
        about="The time zone of timestamp.txt is a file that would take the grader's memory.",
        goal=grader_memory(400),
        guards=("timestamps",),
        place=_zone,
        says="timestamp.txt holds",
        alone=True,
        apart=True,
    ),
]
