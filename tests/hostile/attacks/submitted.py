"""What comes with a submission, or after it.

A learning platform gave archives that are broken, swollen, or named to land elsewhere. Names of files and of a time
zone say more than a name. And one submission leaves something for another: in what judges remember, and in what its
kernel ran in.
"""

import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import nbformat

from tests.grading.tiny import STEP, code_of, solved
from tests.hostile.attack import BASE, MARK, Attack, Trial
from tests.hostile.course import NOTEBOOK, submit
from tests.hostile.goals import ended, formula, peak, said, touches


def _roster(own: Path) -> Path:
    """Return the folder of archives, with z_honest's good one in the place of what it handed in."""
    course = own.parents[2]
    archive = course / "downloaded" / STEP / "archive"
    if archive.is_dir():  # another attacker of the class has made it
        return archive
    archive.mkdir(parents=True)
    names = sorted(path.name for path in own.parents[1].iterdir())
    (course / "students.csv").write_text("id,first_name,last_name\n" + "".join(f"{name},{name},X\n" for name in names))
    honest = own.parents[1] / "z_honest" / STEP / NOTEBOOK
    with zipfile.ZipFile(archive / "z_honest_late.zip", "w") as file:
        file.write(honest, NOTEBOOK)
    honest.unlink()
    return archive


def _zipped(own: Path, members: Mapping[str, str | bytes], change: Callable[[bytes], bytes] = bytes) -> None:
    """Put a zip with `members` into downloaded/; `_OWN` stands for the notebook, which is not compressed."""
    archive = _roster(own) / f"{own.parent.name}_late.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            if content == _OWN:
                file.write(own / NOTEBOOK, name, zipfile.ZIP_STORED)
            else:
                file.writestr(name, content)
    archive.write_bytes(change(archive.read_bytes()))


def _encrypted(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[6] |= 1  # the flag of the local header, and the directory's
    changed[content.index(b"PK\1\2") + 8] |= 1
    return bytes(changed)


def _renamed(own: Path, name: bytes) -> None:
    """Hand in the notebook under a name that is not its own."""
    os.rename(own / NOTEBOOK, os.fsencode(own / STEP) + name + b".ipynb")


def _zone(own: Path) -> None:
    """Hand in a time zone of gigabytes, and a time in it."""
    transitions = 30_000_000
    header = struct.pack(">4s16x6l", b"TZif", 0, 0, 0, transitions, 1, 4)
    (own / "zone").write_bytes(header)
    os.truncate(own / "zone", len(header) + 4 * transitions)
    (own / "timestamp.txt").write_text(f"2026-11-01 12:00:00 {own / 'zone'}")


def _second(own: Path, code: str) -> None:
    """Hand in another submission with `code` under a name that follows the attacker's."""
    course, student = own.parents[2], own.parent.name
    lab = nbformat.read(course / "labs" / STEP / NOTEBOOK, as_version=4)
    submit(course, f"{student}-second", code_of(solved(lab, "cube"), "square", code))


def _second_points(trial: Trial) -> float:
    """Return what the submission after the attacker's has."""
    return trial.seen.points.get(f"{trial.student}-second", 0.0)


_OWN = "the notebook that was handed in"
_WRONG = "def square(x):\n    return 0\n"
_archives = partial(Attack, group="archives", guards=("archives",), alone=True)
_names = partial(Attack, group="names", guards=("names",), says="missing, but there is")
_sharing = partial(Attack, group="sharing", goal=lambda trial: _second_points(trial) > BASE, alone=True)
ATTACKS = [
    _archives(
        "zip_cut",
        about="A zip whose end is missing.",
        goal=ended,
        place=partial(_zipped, members={NOTEBOOK: _OWN}, change=lambda data: data[:-30]),
        says="zip",
    ),
    _archives(
        "zip_damaged",
        about="A zip whose content does not have its checksum.",
        goal=ended,
        place=partial(_zipped, members={NOTEBOOK: _OWN}, change=lambda data: data[:80] + bytes(40) + data[120:]),
        says="zip",
    ),
    _archives(
        "zip_encrypted",
        about="A zip with a password.",
        goal=ended,
        place=partial(_zipped, members={NOTEBOOK: _OWN}, change=_encrypted),
        says="zip",
    ),
    _archives(
        "zip_of_text",
        about="A zip that is none.",
        goal=ended,
        place=partial(_zipped, members={NOTEBOOK: _OWN}, change=lambda data: b"hello"),
        says="zip",
    ),
    _archives(
        "zip_traversal",
        about="Names that lead out of the folder.",
        goal=ended,  # the class is not collected; with all guards on it also may touch nothing
        place=partial(
            _zipped,
            members=dict.fromkeys(
                ("../../../../grades_final.csv", "/mnt/home/zip.txt", "..\\..\\zip.txt", "../../../zip.ipynb"), MARK
            ),
        ),
    ),
    _archives(
        "zip_neighbour",
        about="A name that leads into a neighbour's folder.",
        goal=ended,
        place=partial(_zipped, members={f"../z_honest_late/{NOTEBOOK}": MARK}),
    ),
    _archives(
        "zip_bomb",
        about="1 GB in 1 MB.",
        goal=peak("disk", 250),
        place=partial(
            _zipped,
            members={NOTEBOOK: _OWN, **dict.fromkeys([f"{number}.bin" for number in range(20)], bytes(50 << 20))},
        ),
        apart=True,
    ),
    _names(
        "name_of_two_lines",
        about="A file's name ends its line and says of a neighbour that the step was refused.",
        goal=said(rf"(?m)^z_honest · {STEP} · refused: {MARK}"),
        place=partial(_renamed, name=f"\nz_honest · {STEP} · refused: {MARK}".encode()),
    ),
    _names(
        "name_of_escape_codes",
        about="A file's name sets the title of the instructor's terminal.",
        goal=said("\x1b"),
        place=partial(_renamed, name=f"\x1b]0;{MARK}\x07".encode()),
    ),
    _names(
        "name_that_is_no_text",
        about="A file's name that no file of grades can hold.",
        goal=ended,
        place=partial(_renamed, name=b"\xff"),
        alone=True,
    ),
    _names(
        "name_of_a_formula",
        about="A file's name holds a formula, behind the semicolon at which many spreadsheets split.",
        goal=formula,
        guards=("cells",),
        place=partial(_renamed, name=f";=HYPERLINK('{MARK}')".encode()),
    ),
    _names(
        "zone_of_a_file",
        about="The time zone of timestamp.txt is a file that would take the grader's memory.",
        goal=peak("grader_memory", 400),
        guards=("timestamps",),
        place=_zone,
        says="timestamp.txt holds",
        alone=True,
        apart=True,
    ),
    _sharing(
        "answers_poisoned",
        about="Takes over the process that reads its answers, and has it answer what the next one will ask.",
        code="""
texts = iter(["globals().update(evaluated=lambda text: 4) or 0", "0"])
def square(x):
    return next(texts)
""",
        place=partial(_second, code="def square(x):\n    return '0'\n"),
        guards=("answers",),
    ),
    _sharing(
        "timings_poisoned",
        about="Writes into the file of kernel timings that every build is offered, and replaces it.",
        code="""
import os
path = os.environ["TRT_LAB_TIMING_CACHE"]
for change in (
    lambda: open(path, "w").write("{MARK}"),
    lambda: os.chmod(path, 0o666),
    lambda: os.remove(path),
    lambda: os.replace(".", path),
    lambda: os.truncate(path, 0),
):
    try:
        change()
    except OSError:
        pass
""",
        goal=touches(r"timing\.cache"),
        guards=("sandbox",),
    ),
    _sharing(
        "next_kernel_changed",
        about="Leaves a start-up file for the kernel that comes after it.",
        code="""
import os
place = os.path.expanduser("~/.ipython/profile_default/startup")
os.makedirs(place, exist_ok=True)
with open(os.path.join(place, "00.py"), "w") as file:
    file.write("get_ipython().events.register('post_run_cell', lambda *_: globals().update(square=lambda x: x * x))")
""",
        place=partial(_second, code=_WRONG),
        guards=("once",),
    ),
    _sharing(
        "next_kernel_broken",
        about="Leaves modules by the names that the kernel after it imports.",
        code="""
with open("onnx.py", "w") as file:
    file.write("import builtins\\nbuiltins.print = None")
for name in ("ipykernel_launcher", "IPython", "zmq"):
    with open(name + ".py", "w") as file:
        file.write("raise SystemExit('not today')")
""",
        place=partial(_second, code=_WRONG),
        goal=lambda trial: _second_points(trial) < BASE,
        guards=("once",),
    ),
]
