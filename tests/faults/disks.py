"""`python -m tests.faults.disks CASE FOLDER`: a full disk and read-only folders, in a mount namespace of one's own.

Where no such namespace can be made (neither root nor user namespaces), the cases say so and are not counted as proven.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from solutions.grading.layout import ROOT
from tests.faults.course import Copies, Failed, Run, grades_in, require

SIZE_MB = 24
MACHINE_MB = 400
"""Of which submissions must leave 256 free."""


class NotHere(Exception):
    """This machine has no way to make the fault."""


def disk(copies: Copies, case: str) -> str:
    """Run a case in its own namespace; raise NotHere where that cannot be made."""
    unshare = next((way for way in (["unshare", "-m"], ["unshare", "-rm"]) if _works(way)), None)
    if unshare is None:
        raise NotHere("no mount namespace can be made here: neither root nor user namespaces")
    root = copies.copy(graded="under way" not in case)
    command = [*unshare, sys.executable, "-m", "tests.faults.disks", case, str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    require(done.returncode == 0 and bool(done.stdout), f"it ended with {done.returncode}: {done.stderr[-400:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    require("failed" not in found, found.get("failed", ""))
    require([text.encode() for text in found["grades"]] == copies.grades, "other grades once the disk was mended")
    return found["said"]


def _works(unshare: list[str]) -> bool:
    try:
        mount = [*unshare, "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(mount, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def full_at_start(root: Path) -> str:
    """Nothing fits any more when the run begins."""
    with _SmallDisk(root) as filler:
        filler.fill()
        before = grades_in(root)
        said = Run(root, ("--again",)).refused()
        require(grades_in(root) == before, "grades were touched")
        return said


def full_under_way(root: Path) -> str:
    """The disk fills up when the first submission has been graded."""
    with _SmallDisk(root) as filler:
        run = Run(root)
        run.until(" · graded")
        filler.fill()
        said = run.refused()
        require(grades_in(root) == [None, None], "grades were written")
        return said


def full_machine(root: Path) -> str:
    """The disk that submissions write to fills up while one of them runs, whoever filled it."""
    temporary = root.with_name(f"{root.name}-tmp")
    temporary.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MACHINE_MB}m", "none", str(temporary)], check=True)
    with patch.dict(os.environ, TMPDIR=str(temporary)):
        run = Run(root)
        run.until(" · graded")
        with (temporary / "filler").open("wb") as file:
            file.write(bytes((MACHINE_MB - 200) << 20))
        said = run.refused("was not graded", "the machine's disk is full")
    require(grades_in(root) == [None, None], "grades were written")
    return said


def read_only_course(root: Path) -> str:
    """The whole course can only be read."""
    return _read_only(root, root)


def read_only_autograded(root: Path) -> str:
    """The folder of the graded notebooks can only be read."""
    return _read_only(root, root / "autograded")


def _read_only(root: Path, folder: Path) -> str:
    before = grades_in(root)
    for options in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        subprocess.run(["mount", *options], check=True)
    try:
        said = Run(root, ("--again",)).refused("Read-only file system")
        require(grades_in(root) == before, "grades were touched")
        return said
    finally:
        subprocess.run(["umount", str(folder)], check=True)


CASES = {
    "full at the start": full_at_start,
    "full under way": full_under_way,
    "of submissions full under way": full_machine,
    "read-only course": read_only_course,
    "read-only autograded/": read_only_autograded,
}


class _SmallDisk:
    """The course on a disk of SIZE_MB that can be filled; emptied again at the end."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> "_SmallDisk":
        kept = self._root.with_name(f"{self._root.name}-kept")
        self._root.rename(kept)
        self._root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "none", str(self._root)], check=True)
        shutil.copytree(kept, self._root, dirs_exist_ok=True, symlinks=True)
        return self

    def fill(self) -> None:
        """Fill the disk to the last page."""
        with (self._root / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def __exit__(self, *_: object) -> None:
        (self._root / "filler").unlink(missing_ok=True)


def main(case: str, folder: str) -> None:
    """Run a case, then grade once more with the fault mended; print what was said and the grades."""
    root = Path(folder)
    try:
        said = CASES[case](root)
        Run(root).graded()
        found = {"said": said, "grades": [(content or b"none").decode() for content in grades_in(root)]}
    except Failed as error:
        found = {"failed": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
