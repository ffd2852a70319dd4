"""A gradebook that is lost, damaged or locked: one line, no grades touched; the grades come back from the records."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.faults.course import GRADES, STUDENTS, Copies, Run, require

DAMAGES = ("missing", "empty", "garbage", "cut in half", "another database", "no rows")


def damaged(copies: Copies, how: str) -> str:
    """A gradebook that is not one any more is refused before anything is graded."""
    root = copies.copy(graded=True)
    _damage(root / "gradebook.db", how)
    said = Run(root).refused("gradebook.db ", "no grades were touched; copy backups/gradebook-")
    copies.require_same(root)
    return said


def begun_anew(copies: Copies, how: str) -> str:
    """--new-gradebook makes it again from the records, without running a notebook, and moves what was there away."""
    root = copies.copy(graded=True)
    _damage(root / "gradebook.db", how)
    run = Run(root, ("--new-gradebook",))
    require(run.ended() == 0, f"exit code {run.process.returncode}: {run.err[-300:]}")
    require(run.out.count(" · unchanged") == STUDENTS, "notebooks were run again")
    require(how == "missing" or any((root / "backups").glob("damaged-*.db")), "what was there is gone")
    (root / "grades.json").unlink()  # of a mended gradebook the notes speak
    Run(root).graded()
    copies.require_same(root)
    return "points from the records, every submission unchanged"


def locked_at_start(copies: Copies) -> str:
    """Another process that holds the gradebook is named as the reason."""
    root = copies.copy(graded=True)
    with closing(sqlite3.connect(root / "gradebook.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = Run(root).refused("gradebook.db is locked")
    copies.require_same(root)
    return said


def locked_under_way(copies: Copies) -> str:
    """A gradebook that gets locked while a class is graded ends the run; nobody gets 0 points for it."""
    root = copies.copy(graded=False)
    run = Run(root)
    run.until(" · graded")
    with closing(sqlite3.connect(root / "gradebook.db", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = run.refused("the gradebook cannot be used: database is locked")
    require(not any((root / name).exists() for name in GRADES), "grades were written")
    Run(root).graded()
    copies.require_same(root)
    return said


def rebuilt(copies: Copies) -> str:
    """Without gradebook and grades, --rebuild writes the grades from the records alone."""
    root = copies.copy(graded=True)
    for name in (*GRADES, "gradebook.db"):
        (root / name).unlink()
    Run(root, ("--rebuild",)).graded()
    copies.require_same(root)
    return "the same grades.csv and grades.json"


def _damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "another database":
        path.unlink()
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE notes (text)")
    elif how == "no rows":
        with closing(sqlite3.connect(path, isolation_level=None)) as own:
            for (name,) in own.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                own.execute(f"DELETE FROM {name}")
    else:
        path.write_bytes({"empty": b"", "garbage": os.urandom(50_000), "cut in half": whole[: len(whole) // 2]}[how])
