"""Takes in a learning platform's downloads: each student's notebook goes from downloaded/<step>/archive/ to submitted/.

A notebook's owner is in its file name, or in the name of a folder or zip around it, in the form of Canvas, Blackboard,
Moodle, ILIAS or Teams, or as people write names. students.csv says who is meant: by id, e-mail, canvas_id, or first and
last name in either order.
"""

import datetime
import hashlib
import json
import re
import shutil
import tempfile
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from nbgrader.api import MissingEntry

from helpers.course.handout import as_handed_out
from helpers.tools.files import atomic_write, sha256, write_json
from solutions.grading.archives import Download
from solutions.grading.course import Course
from solutions.grading.faults import course_faults
from solutions.grading.submissions import ROSTER, Student, composed, name_fault, read_roster
from solutions.grading.untrusted.text import printable
from trtcpu.errors import InputError

_COLLECTED = "collected.json"

# How platforms name files: `who`, and what else the name tells. The student chose the rest, so it may be anything.
PLATFORM_NAMES = {
    "canvas": re.compile(
        r"(?P<who>[^_]+)(?P<late>_late)?_(?P<canvas>\d+)_(?P<number>\d+)_.*?(-(?P<again>\d+))?(\.\w+)?", re.I | re.S
    ),
    "blackboard": re.compile(r".*?_(?P<who>.+?)_attempt_(?P<when>\d{4}(-\d\d){5}).*", re.I | re.S),
    "moodle": re.compile(r"(?P<who>.+?)_\d+_assignsubmission_.*", re.I | re.S),
}
_VERSION = re.compile(r"version[ _-]?(\d+)", re.I)  # a folder of Teams


@dataclass(frozen=True)
class Handed:
    """A notebook found in a download.

    Attributes:
        name: its path in the download.
        file: where its content is.
        student: its owner's id.
        when: when it was handed in, if the platform tells.
        late: whether the platform tells only that it was late.
        version: sorts a student's notebooks, the newest last.
    """

    name: PurePosixPath
    file: Path
    student: str
    when: datetime.datetime | None = None
    late: bool = False
    version: tuple[str, int, int] = ("", 0, 0)


def collect(course: Course, *, only_look: bool = False) -> list[str]:
    """Take in what is new in each downloaded/<step>/archive/; with `only_look`, only say what would be taken.

    Returns:
        A line for each of these steps, for each file that was left out, and for what lies in the wrong folder.

    Raises:
        InputError: students.csv cannot be read.
        CourseError: the disk is full or cannot be written.
    """
    roster = read_roster(course.root)
    archives = {step: course.root / "downloaded" / step / "archive" for step in course.graded}
    there = [step for step, archive in archives.items() if archive.is_dir() and any(archive.iterdir())]
    with course_faults():
        found = [f"downloaded/{step}: {line}" for step in there for line in _collected(course, step, roster, only_look)]
        return [*found, *map(printable, _misplaced(course))]


def _misplaced(course: Course) -> Iterator[str]:
    """Yield a line about each folder of downloaded/ with something that is not read."""
    for folder in sorted((course.root / "downloaded").glob("[!.]*")):
        own = ("archive", "extracted", _COLLECTED)  # extracted/ is nbgrader's
        beside = sorted(path.name for path in folder.glob("[!.]*") if path.name not in own)
        if folder.name not in course.graded:
            steps = ", ".join(course.graded)
            yield f"downloaded/{folder.name} is not read: put it into downloaded/<step>/archive/; the steps are {steps}"
        elif beside:
            yield f"downloaded/{folder.name}: {beside[0]} is not read: put all downloads into {folder.name}/archive/"


def _collected(course: Course, step: str, roster: list[Student], only_look: bool) -> Iterator[str]:
    folder = course.root / "downloaded" / step
    record = folder / _COLLECTED
    listed, taken = _listed(folder / "archive", course.root), _taken(record)
    students, names = taken["students"], taken["names"]
    if listed == taken["whole"] and all(course.submitted(student, step).is_file() for student in students):
        yield "collected before"
        return
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as own:
        download = Download(folder / "archive", Path(own))
        chosen, lines, unclear = sort_out(download.notebooks, step, roster)
        lines = download.lines + lines
        others = ", ".join(f"{kind} {count}" for kind, count in sorted(download.others.items()))
        yield f"{len(chosen)} notebooks for submitted/{f'; other files: {others}' if others else ''}"
        for one in chosen:
            submission = course.submitted(one.student, step)
            if any(path.is_symlink() for path in (submission, *submission.parents[:2])):
                unclear.append(one.student)
                lines.append(f"{one.name} left out: submitted/{one.student}/{step} is a link; links are not followed")
                continue
            digest = sha256(one.file)
            if only_look:
                continue
            if not submission.is_file() or digest not in (students.get(one.student), sha256(submission)):
                lines += _put(course, step, one)
            students[one.student], names[one.student] = digest, str(one.name)
    if not only_look:
        whole = "" if lines else listed
        write_json(record, {"whole": whole, "unclear": unclear, "students": students, "names": names})
    yield from map(printable, lines)


def _put(course: Course, step: str, one: Handed) -> Iterator[str]:
    """Put a notebook into submitted/, in place of what was there, with a timestamp beside it."""
    submission, when = course.submitted(one.student, step), one.when
    stamp = submission.with_name("timestamp.txt")
    had_stamp = stamp.is_file()
    shutil.rmtree(submission.parent, ignore_errors=True)
    if one.late and (deadline := _deadline(course, step)):
        when = deadline + datetime.timedelta(seconds=1)
        yield f"{one.name} is marked late: its timestamp.txt says a second after the deadline; put the true time there"
    elif one.late:
        yield f"{one.name} is marked late, but the step has no deadline"
    if when:
        atomic_write(stamp, f"{when:%Y-%m-%d %H:%M:%S} UTC\n")
    elif had_stamp:
        yield f"{stamp.relative_to(course.root)} removed: it belonged to the earlier work; write the new time"
    atomic_write(submission, one.file.read_bytes())


def _deadline(course: Course, step: str) -> datetime.datetime | None:
    with course.gradebook() as gradebook:
        try:
            return gradebook.find_assignment(step).duedate
        except MissingEntry:
            return None


def _listed(archive: Path, root: Path) -> str:
    """Return a digest of the names, sizes and times of a download's files, and of the class list."""
    found = [(path, path.lstat()) for path in [*sorted(archive.rglob("*")), *root.glob(ROSTER)]]
    known = [(str(path), about.st_size, about.st_mtime_ns) for path, about in found]
    return hashlib.sha256(repr(known).encode()).hexdigest()


def names_taken(course: Course, step: str) -> dict[str, str]:
    """Return the name that each student's notebook had in the download."""
    return _taken(course.root / "downloaded" / step / _COLLECTED)["names"]


def work_left_out(course: Course, step: str) -> set[str]:
    """Return the students of whose work in the download nothing was taken."""
    return set(_taken(course.root / "downloaded" / step / _COLLECTED)["unclear"])


def _taken(record: Path) -> dict[str, Any]:
    """Return what collected.json has: `_listed`, empty if something was left out; each notebook's digest and name."""
    try:
        known = json.loads(record.read_bytes())
        whole, unclear = known["whole"], list(known.get("unclear", []))
        return {"whole": whole, "unclear": unclear, "students": dict(known["students"]), "names": dict(known["names"])}
    except (OSError, ValueError, TypeError, KeyError):
        return {"whole": "", "unclear": [], "students": {}, "names": {}}


def sort_out(
    notebooks: dict[PurePosixPath, Path], step: str, roster: list[Student]
) -> tuple[list[Handed], list[str], list[str]]:
    """Return one notebook for each student, and what is left out.

    Returns:
        The notebooks; a line about each that is left out; the students of whose notebooks none could be chosen.
    """
    names, owned, lines = Names(roster), defaultdict(list), []
    for name, file in notebooks.items():
        try:
            one = names.handed(name, file, step)
            owned[one.student].append(one)
        except InputError as error:
            lines.append(f"{name} left out: {error}")
    chosen = []
    for own in owned.values():
        one, said = _chosen(own)
        chosen += [one] if one else []
        lines += said
    return chosen, lines, sorted(owned.keys() - {one.student for one in chosen})


def _chosen(own: list[Handed]) -> tuple[Handed | None, list[str]]:
    """Return the one of a student's notebooks that counts, None if that cannot be known, and lines about the others."""
    *older, newest = sorted(own, key=lambda one: one.version)
    if all(one.version < newest.version for one in older):
        return newest, [f"{one.name} left out: {newest.name} is newer" for one in older]
    worked_in = {sha256(one.file): one for one in own if not _untouched(one.file)}
    if len(worked_in) == 1:
        [one] = worked_in.values()
        rest = {other: "as it was handed out" if _untouched(other.file) else f"the same as {one.name}" for other in own}
        return one, [f"{other.name} left out: it is {why}" for other, why in rest.items() if other is not one]
    both = " and ".join(sorted(str(one.name) for one in own))
    why = f"{both} would both be the work of {own[0].student}: keep one of them; a new zip takes the old one's place"
    return None, [f"{one.name} left out: {why}" for one in own]


def _untouched(file: Path) -> bool:
    try:
        return as_handed_out(file)
    except InputError:
        return False


class Names:
    """Finds the student whom a name means: in the class list, or without a list by the name alone."""

    def __init__(self, roster: list[Student]) -> None:
        self._listed = bool(roster)
        self._ids = {composed(key): one.id for one in roster for key in (one.email, one.id) if key}
        self._canvas = {one.canvas_id: one.id for one in roster if one.canvas_id}
        self._full: dict[str, set[str]] = defaultdict(set)
        for one in roster:
            for name in (f"{one.first_name}{one.last_name}", f"{one.last_name}{one.first_name}"):
                self._full[_letters(name)].add(one.id)
        self._full.pop("", None)

    def handed(self, name: PurePosixPath, file: Path, step: str) -> Handed:
        """Return a downloaded notebook with its owner.

        Raises:
            InputError: its name has no step or no student, or may mean several students.
        """
        before, there, _ = name.name.lower().partition(step)
        if not there:
            raise InputError(f"its name holds no {step}")
        stem = name.name[: len(before)]
        version = max([int(number) for number in _VERSION.findall(str(name.parent))], default=0)
        one = Handed(name, file, "", version=("", version, 0))
        if not self._listed:
            return replace(one, student=_alone([*name.parts[:-1], stem]))
        for part in name.parts:  # the outermost one that names a student: what lies within is that student's
            for platform, form in PLATFORM_NAMES.items():
                if (found := form.fullmatch(part)) and (student := self._on(platform, found.groupdict())):
                    return _told(replace(one, student=student), found.groupdict())
            if student := self._plain(stem if part == name.name else part):
                return replace(one, student=student)
        raise InputError(f"no student of {ROSTER} in its name")

    def _on(self, platform: str, said: dict[str, str | None]) -> str | None:
        """Return the student whom a platform's name means."""
        if said.get("canvas") in self._canvas:
            return self._canvas[said["canvas"]]
        words = said["who"].split("_")
        starts = range(len(words)) if platform == "blackboard" else range(1)  # there it follows the column's name
        return next((known for start in starts if (known := self._known("_".join(words[start:])))), None)

    def _plain(self, part: str) -> str | None:
        """Return the student with whose name a part of the path begins."""
        words = part.split("_")
        parts = ("_".join(words[:end]) for end in range(len(words), 0, -1))
        return next((known for name in parts if (known := self._known(name, part[len(name) + 1 :]))), None)

    def _known(self, name: str, rest: str = "") -> str | None:
        """Return the id of the student with this name; of several, the one with whose id `rest` begins.

        Raises:
            InputError: several students have it.
        """
        if (key := composed(name)) in self._ids:
            return self._ids[key]
        found = sorted(self._full.get(_letters(name), ()))
        within = [one for one in found if f"{composed(rest)}_".startswith(f"{composed(one)}_")]
        named = sorted(within, key=len)[-1:] or found  # ada_l and not ada, whose name is the same
        if len(named) > 1:
            whose = " or ".join(found)
            raise InputError(f"it may be the work of {whose}: put the id into its name, or a canvas_id into {ROSTER}")
        return named[0] if named else None


def _told(one: Handed, said: dict[str, str | None]) -> Handed:
    """Add what a platform's file name tells about the time."""
    late, when = bool(said.get("late")), said.get("when")
    number, again = (int(said.get(name) or 0) for name in ("number", "again"))
    if not when:
        return replace(one, late=late, version=("", max(number, one.version[1]), again))
    try:  # Blackboard's clock is taken for this machine's
        local = datetime.datetime.strptime(when, "%Y-%m-%d-%H-%M-%S").astimezone()
    except ValueError:
        return one
    return replace(one, when=local.astimezone(datetime.timezone.utc), version=(when, 0, 0))


def _alone(parts: list[str]) -> str:
    """Return the student's id if there is no class list: the first part of the path, which may have no underscore."""
    name = unicodedata.normalize("NFC", next(filter(None, (part.strip(" _-") for part in parts)), ""))
    if not name:
        raise InputError("no student's name in it")
    if "_" in name:
        raise InputError(f"{name!r} may be a student, or a file of {name.split('_')[0]!r}: {ROSTER} must say")
    if fault := name_fault(name):
        raise InputError(f"the student's name {fault}")
    return name


def _letters(name: str) -> str:
    """Return only the letters and digits of a name, without accents, as Canvas writes it."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum())
