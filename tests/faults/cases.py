"""What is done to grading, and to its gradebook, and what must become of it. Each case gets a copy of the course."""

import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from solutions.grading.locks import LOCK_FILE
from tests.faults.course import STUDENTS, Run
from tests.grading.tiny import STEP


def killed(root: Path, after: float) -> str:
    """SIGKILL some seconds after the course was locked; a second run goes on."""
    first = Run(root).until("process", root / LOCK_FILE)
    time.sleep(after)
    first.kill()
    first.wait()
    Run(root).graded()
    return f"killed after {after:.1f} s with {first.out.read_text().count(' · graded')} submissions graded"


def told_to_stop(root: Path, number: signal.Signals) -> str:
    """A signal to the grading process while it runs a notebook: a clean end, and a second run goes on."""
    first = Run(root).until(" · graded")
    time.sleep(0.5)
    first.send_signal(number)
    said = first.refused(f"interrupted by {number.name}; run the same command again to go on", 128 + number)
    Run(root).graded()
    return said


def two_at_once(root: Path) -> str:
    """A second run while one grades says who does, and ends; the first one is not disturbed."""
    first = Run(root).until("process", root / LOCK_FILE)
    said = Run(root).refused(f"error: .*process {first.pid} on .*since .*")
    first.graded()
    return said


def waits(root: Path) -> str:
    """With --wait the second run waits, and finds everything graded."""
    first = Run(root).until("process", root / LOCK_FILE)
    second = Run(root, "--wait").until("waiting for it")
    first.graded()
    second.graded()
    assert second.out.read_text().count("unchanged") == STUDENTS, "the second run graded again"
    return "waited for the first run, graded nothing again"


def broken_zip(root: Path) -> str:
    """Everybody's notebook comes as a zip, one of a fifth student is broken: everybody else's grades are as ever."""
    archive, submitted = root / "downloaded" / STEP / "archive", root / "submitted"
    for student in submitted.iterdir():
        shutil.make_archive(str(archive / student.name), "zip", student / STEP)
    shutil.rmtree(submitted)
    _cut_in_half(Path(shutil.copy(archive / "ada.zip", archive / "zoe.zip")))
    run = Run(root)
    run.graded()
    line = re.search(".*refused: zoe.zip: it cannot be unpacked.*", run.out.read_text())
    assert line, f"no line about the broken zip: {run.out.read_text()[:400]}"
    return line[0]


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _no_rows(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as own:
        for (name,) in own.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            own.execute(f"DELETE FROM {name}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(os.urandom(50_000)),
    "cut in half": _cut_in_half,
    "no rows": _no_rows,
}


def another_database(root: Path) -> str:
    """A database that is no gradebook in its place is not touched."""
    path = root / "gradebook.db"
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
    return Run(root).refused("error: .*gradebook.db is a database, but no gradebook.*no grades were touched.*")


def lost(root: Path, how: str) -> str:
    """A gradebook that is not one any more is made again from the records, without running a notebook, and kept."""
    DAMAGES[how](root / "gradebook.db")
    run = Run(root)
    run.graded()
    said = run.out.read_text()
    assert said.count(" · unchanged") == STUDENTS, "notebooks were run again"
    assert how == "missing" or any((root / "backups").glob("damaged-*.db")), "what was there is gone"
    return next(line for line in said.splitlines() if "made again from the records" in line)


def locked_at_start(root: Path) -> str:
    """Another process that holds the gradebook is named as the reason."""
    with closing(sqlite3.connect(root / "gradebook.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        return Run(root).refused("error: .*gradebook.db is locked.*")


def locked_under_way(root: Path) -> str:
    """A gradebook that gets locked while a class is graded ends the run; nobody gets 0 points for it."""
    run = Run(root).until(" · graded")
    with closing(sqlite3.connect(root / "gradebook.db", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = run.refused("error: .*the gradebook cannot be used: database is locked.*")
    Run(root).graded()
    return said


def rebuilt(root: Path) -> str:
    """Without gradebook and grades, --rebuild writes the grades from the records alone."""
    for name in ("grades.csv", "grades.json", "gradebook.db"):
        (root / name).unlink()
    Run(root, "--rebuild").graded()
    return "the same grades.csv and grades.json"
