"""Takes in what a learning platform gave: nbgrader's zip_collect for each step that has a folder in downloaded/.

zip_collect asks `StudentCollector` which student a file belongs to (nbgrader_config.py). A name counts whole or up to
an underscore: "ada_l.zip", "ada_l_late.zip" and "ada_l_01_export.ipynb" are ada_l's where students.csv names ada_l.
Without the class list nobody can tell whether "ada_l" is a student or something of ada's.
"""

import hashlib
import json
import logging
import re
from collections import defaultdict
from functools import cached_property
from pathlib import Path, PurePath
from unicodedata import normalize

from nbgrader.apps.zipcollectapp import ZipCollectApp
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import FileNameCollectorPlugin

from helpers.tools.files import sha256, write_json
from solutions.grading.course import Course
from solutions.grading.faults import DISK_FULL, CourseError
from solutions.grading.submissions import ROSTER, Student, read_roster
from trtcpu.errors import InputError

_COLLECTED = "collected.json"
_NOTEBOOK = re.compile(r"(?:^|(?<=_))[01][0-9]_[a-z0-9]+[^/\\]*\.ipynb$", re.IGNORECASE)
# What programs keep beside a notebook: Jupyter its checkpoint, macOS its attributes.
_COPIES = re.compile(r"(^|/)(\.ipynb_checkpoints/|__MACOSX/|\._[^/]*$)")


class _ZipCollect(ZipCollectApp):
    def fail(self, msg: str, *args: object) -> None:
        raise InputError(msg)


def collect(course: Course) -> list[str]:
    """Run nbgrader's zip_collect for each downloaded/<step>/archive/ that has something new.

    It empties the folder of a submission that it takes: StudentCollector leaves out those that were taken before.

    Returns:
        A line for each of these steps, and one for each notebook that was left out.

    Raises:
        InputError: students.csv cannot be read.
        CourseError: the disk is full or cannot be written.
    """
    read_roster(course.root)
    archives = {step: course.root / "downloaded" / step / "archive" for step in course.graded}
    there = [step for step, archive in archives.items() if archive.is_dir() and any(archive.iterdir())]
    return [f"downloaded/{step}{line}" for step in there for line in _collected(course, step)]


def _collected(course: Course, step: str) -> list[str]:
    record = course.root / "downloaded" / step / _COLLECTED
    listed, (before, students) = _listed(record.with_name("archive"), course.root), _taken(record)
    if listed == before and all(course.submitted(student, step).is_file() for student in students):
        return [": collected before"]
    app = _ZipCollect(
        config=course.config,
        coursedir=CourseDirectory(config=course.config, assignment_id=step),
        force=True,
        log=logging.Logger("zip_collect", logging.CRITICAL),
    )
    try:
        app.start()
    except Exception as error:  # a plugin may be anybody's
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        if any(text in reason for text in DISK_FULL):
            raise CourseError(f"downloaded/{step} could not be unpacked: {reason}; nothing was graded") from error
        return [f" could not be collected, submitted/ is graded as it is: {reason}"]
    lines = [f": refused: {line}" for line in getattr(app.extractor_plugin_inst, "refused", [])]
    if isinstance(app.collector_plugin_inst, StudentCollector):
        owners, left = app.collector_plugin_inst.sorted_out
        lines += [f": {line}" for line in left]
        students |= {student: sha256(path) for path, student in owners.items()}
    write_json(record, {"whole": "" if lines else listed, "students": students})
    return [": collected into submitted/", *lines]


def _listed(archive: Path, root: Path) -> str:
    """Return a digest of the names, sizes and times of the files of a download, and of the class list."""
    found = [(path, path.lstat()) for path in [*sorted(archive.rglob("*")), *root.glob(ROSTER)]]
    known = [(str(path), about.st_size, about.st_mtime_ns) for path, about in found]
    return hashlib.sha256(repr(known).encode()).hexdigest()


class StudentCollector(FileNameCollectorPlugin):
    """nbgrader's collector with the class list. Files that would become one submission are all left out.

    What was taken before is left out too, since nbgrader would empty the submission's folder first: what somebody has
    put into submitted/ stays until the download has another notebook.
    """

    @cached_property
    def sorted_out(self) -> tuple[dict[Path, str], list[str]]:
        """`sort_out` of downloaded/<step>/extracted/."""
        course, folder = self.parent.coursedir, self.parent._format_collect_path(self.parent.extracted_directory)
        return sort_out(Path(folder), course.assignment_id, Path(course.root))

    def collect(self, submitted_file: str) -> dict[str, str] | None:
        """Return student and notebook of a file below downloaded/<step>/extracted/, None for one to be left out."""
        owners, _ = self.sorted_out
        path, step, root = Path(submitted_file), self.parent.coursedir.assignment_id, Path(self.parent.coursedir.root)
        if path not in owners:
            return None
        submission = _submission(root, owners[path], step)
        _, before = _taken(root / "downloaded" / step / _COLLECTED)
        if submission.is_file() and sha256(path) in (before.get(owners[path]), sha256(submission)):
            return None
        return {"student_id": owners[path], "file_id": step}


def _taken(record: Path) -> tuple[str, dict[str, str]]:
    """Return what collected.json says of what was taken last.

    Returns:
        `_listed`, empty where something was left out, and the digest of each student's notebook.
    """
    try:
        known = json.loads(record.read_bytes())
        return known["whole"], dict(known["students"])
    except (OSError, ValueError, TypeError, KeyError):
        return "", {}


def sort_out(folder: Path, step: str, root: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the student of each notebook below `folder`, and a line for each notebook that is left out.

    Args:
        folder: the extracted files: archives have become folders of their names.
        root: the course, with the class list and submitted/.

    Raises:
        InputError: students.csv cannot be read.
    """
    names, owners, left = names_of(read_roster(root)), defaultdict(list), {}
    for path in filter(Path.is_file, folder.rglob("*.ipynb")):
        file = path.relative_to(folder)
        if _COPIES.search(file.as_posix()):
            continue
        try:
            owners[student_of(file, step, names)].append(file)
        except InputError as error:
            left[file] = str(error)
    for student, own in owners.items():
        submission = _submission(root, student, step)
        if len(own) > 1:
            both = " and ".join(map(str, sorted(own)))
            left |= dict.fromkeys(own, f"{both} would both be the work of {student}: keep one of them")
        elif any(path.is_symlink() for path in (submission, *submission.parents[:2])):
            left[own[0]] = f"submitted/{student}/{step} is a link, and links are not followed"
    taken = {folder / own[0]: student for student, own in owners.items() if own[0] not in left}
    return taken, [f"{file} left out: {left[file]}" for file in sorted(left)]


def student_of(path: PurePath, step: str, names: dict[str, str]) -> str:
    """Return the id of the student that a notebook belongs to.

    Args:
        path: where it lies below the folder of extracted files.
        names: `names_of` the class list; empty where there is none.

    Raises:
        InputError: the path names no step or student, or without a class list might name several.
    """
    if step not in path.name.lower():
        raise InputError(f"its name holds no {step}")
    # macOS writes a letter and its accent as two characters: NFC makes them one.
    parts = [normalize("NFC", name) for name in (*path.parts[:-1], _NOTEBOOK.sub("", path.name).rstrip("_ -"))]
    for part in parts:
        for name, student in names.items():
            if f"{part}_".startswith(f"{name}_"):
                return student
    if names:
        raise InputError(f"no student of {ROSTER} in its name")
    name = next(filter(None, parts), "")
    if not name or name.endswith(".ipynb"):
        raise InputError("no student's name in it")
    if "_" in name:
        raise InputError(f"{name!r} may be a student, or a file of {name.split('_')[0]!r}: {ROSTER} must say")
    return name


def names_of(roster: list[Student]) -> dict[str, str]:
    """Return the id behind each id, and behind each "Ada Lovelace" that only one student is; the longest first."""
    full = [normalize("NFC", f"{student.first_name} {student.last_name}".strip()) for student in roster]
    names = {name: student.id for name, student in zip(full, roster, strict=True) if name and full.count(name) == 1}
    names |= {normalize("NFC", student.id): student.id for student in roster}
    return dict(sorted(names.items(), key=lambda known: len(known[0]), reverse=True))


def _submission(root: Path, student: str, step: str) -> Path:
    return root / "submitted" / student / step / f"{step}.ipynb"
