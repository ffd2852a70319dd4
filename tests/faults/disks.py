"""`python -m tests.faults.disks CASE FOLDER`: a full disk and read-only folders, in a mount namespace of one's own.

Where no such namespace can be made (neither root nor user namespaces), the cases say so and are not counted as proven.
"""

import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import SkipTest

from solutions.grading.layout import ROOT
from tests.faults.course import Run


def disk(root: Path, case: str) -> str:
    """Run a case in its own namespace; raise SkipTest where that cannot be made."""
    ways = [
        way
        for way in ("-m", "-rm")
        if subprocess.run(f"unshare {way} mount -t tmpfs none /mnt", shell=True, capture_output=True).returncode == 0
    ]
    if not ways:
        raise SkipTest("no mount namespace can be made here: neither root nor user namespaces")
    done = subprocess.run(
        ["unshare", ways[0], sys.executable, "-m", "tests.faults.disks", case, root],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr.strip().rpartition("AssertionError: ")[2][-400:]
    return done.stdout.strip()


def full_at_start(root: Path) -> str:
    """Nothing fits any more when the run begins."""
    _small_disk(root, "done")
    _fill(root)
    return Run(root, "--again").refused("error: .*")


def full_under_way(root: Path) -> str:
    """The disk fills up when the first submission has been graded."""
    _small_disk(root, "fresh")
    run = Run(root).until(" · graded")
    _fill(root)
    return run.refused("error: .*")


def full_machine(root: Path) -> str:
    """The disk that submissions write to, where memory does not suffice, fills up while one of them runs."""
    with (root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.GradeExecute.disk_gb = 1 << 20\n")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "none", "/mnt"], check=True)
    run = Run(root, TMPDIR="/mnt").until(" · graded")
    Path("/mnt/filler").write_bytes(bytes(200 << 20))  # submissions must leave 256 MiB free
    return run.refused("error: .*was not graded.*the machine's disk is full.*")


def read_only(root: Path, folder: str) -> str:
    """A folder of the course can only be read."""
    place = root / folder
    subprocess.run(["mount", "-o", "bind,ro", place, place], check=True)
    said = Run(root, "--again").refused("error: .*Read-only file system.*")
    subprocess.run(["umount", place], check=True)
    return said


CASES = {
    "full at the start": full_at_start,
    "full under way": full_under_way,
    "of submissions full under way": full_machine,
    "read-only course": partial(read_only, folder="."),
    "read-only autograded/": partial(read_only, folder="autograded"),
}


def _small_disk(root: Path, course: str) -> None:
    """Have a copy of this course in `root` on a disk that can be filled."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", root], check=True)
    shutil.copytree(root.with_name(course), root, dirs_exist_ok=True)


def _fill(root: Path) -> None:
    with (root / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def _in_namespace(case: str, root: Path) -> None:
    said = CASES[case](root)
    (root / "filler").unlink(missing_ok=True)  # the fault is mended
    Run(root).graded()
    print(said)


if __name__ == "__main__":
    _in_namespace(sys.argv[1], Path(sys.argv[2]))
