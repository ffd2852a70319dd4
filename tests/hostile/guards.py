"""The guards that attacks aim at, and how one alone is switched off in the grader's process, for a control.

There is no such switch in the grader: what is here replaces a function of it by name, changes a limit that has no
setting, or adds lines to the fixture course's configuration.
"""

import contextlib
import functools
import json
import os
import signal
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from unittest import mock

from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from solutions.grading import archives, execute
from solutions.grading.scratch import Scratch
from solutions.sandbox.room import ROOT, Limits, Room


@dataclass(frozen=True)
class Guard:
    """What it keeps, and what switches it off."""

    keeps: str
    patches: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    config: str = ""


def switch_off(names: Sequence[str]) -> None:
    """Switch these guards off in this process, but for their lines of configuration."""
    limits = {name: most for guard in names for name, most in GUARDS[guard].limits.items()}
    mock.patch("solutions.grading.execute.Limits", functools.partial(Limits, **limits)).start()
    for guard in names:
        for target, replacement in GUARDS[guard].patches.items():
            mock.patch(target, replacement).start()


def _bare(kind: str, argv: list[str], room: Room, limits: Limits) -> tuple[list[str], dict[str, str]]:
    """The kernel starts as nbgrader's does: with the grader's rights, environment and home."""
    return argv, {**os.environ, **room.environment, "PYTHONPATH": str(ROOT)}


def _in_the_kernel(self: execute.GradeExecute, cell: NotebookNode, *rest: Any) -> Any:
    """Claims run in the kernel, behind the student's cells, and the kernel writes the records."""
    name, records = cell.metadata.nbgrader.grade_id, execute.records_of(self._student)
    call = f"from tests.hostile.judge import grade_here\n\ngrade_here({name!r}, globals(), {str(records)!r})"
    cell.source = call  # no visible check runs in grading
    return self._run(cell, *rest)


def _everything(self: archives.Download, opened: Callable[[], BinaryIO], name: PurePosixPath, depth: int) -> None:
    """All of an archive is unpacked where its names say, as shutil does."""
    with opened() as file:
        if name.suffix == ".zip":
            with zipfile.ZipFile(file) as archive:
                archive.extractall(self._target)
        else:
            self._keep(file.read(), name)


def _in_one_folder(limits: Limits) -> Scratch:
    """All kernels have the folder of the first one, as it was left."""
    scratch = Scratch(_one_folder())
    scratch.artifacts.mkdir(exist_ok=True)
    return scratch


@functools.cache
def _one_folder() -> Path:
    return Path(tempfile.mkdtemp()).resolve()


_is_symlink = Path.is_symlink


GUARDS: dict[str, Guard] = {
    "sandbox": Guard(
        "files, processes, network and environment that the kernel does not see",
        {
            "solutions.sandbox.provisioner.command": _bare,
            "solutions.grading.execute.chosen": lambda unsafe=False: "none",
            # No minder stands before the kernel, which would die of what tells one to stand still and go on.
            "solutions.sandbox.watch.Watch.paused": lambda self: contextlib.nullcontext(),
        },
    ),
    "judge": Guard(
        "claims, expected values and records in a process of their own",
        {"solutions.grading.execute.GradeExecute._judged": _in_the_kernel},
    ),
    "watch": Guard(
        "whatever the kernel started is ended with it",
        {
            "solutions.sandbox.Watch._poll": lambda self: None,
            "solutions.sandbox.Watch.stop": lambda self: None,
            "solutions.sandbox.provisioner.end": lambda pid: os.kill(pid, signal.SIGKILL),
        },
    ),
    "memory": Guard(
        "the memory of the kernel's processes is watched", config="\nc.GradeExecute.memory_gb = 1_000_000\n"
    ),
    "processes": Guard(
        "the number of the kernel's processes and threads is watched",
        limits={"processes": 1 << 30, "threads": 1 << 30},
    ),
    "scratch": Guard(
        "what the kernel writes is watched",
        limits={"scratch_files": 1 << 50},
        config="\nc.GradeExecute.disk_gb = 1_000_000\n",
    ),
    "time": Guard(
        "a cell and a notebook have a time limit",
        config="\nc.Execute.timeout = None\nc.GradeExecute.notebook_timeout = 1_000_000\n",
    ),
    "schema": Guard(
        "a record has a schema and a largest size",
        {"solutions.checks.core.record.read_checked": lambda path: json.loads(Path(path).read_text())},
    ),
    "links": Guard(
        "links and special files in the course are not followed",
        {
            "solutions.grading.grade.remove_links": lambda *_: [],
            "solutions.grading.gradebook.remove_links": lambda *_: [],
            "solutions.grading.grade.check_files": lambda *_: None,
            "solutions.grading.untrusted.limits.read_regular": lambda path, *_: Path(path).read_bytes(),
            "pathlib.Path.is_symlink": lambda path: "submitted" not in path.parts and _is_symlink(path),
        },
    ),
    "archives": Guard(
        "archives are measured and unpacked one by one, and a broken one is refused",
        {"solutions.grading.archives.Download._take": _everything},
    ),
    "sanitise": Guard(
        "outputs and markdown are cleaned, and pages run no script",
        config="""
c.HTMLExporter.filters = {"strict_head": "copy.copy"}  # which leaves a text as it is
c.HTMLExporter.preprocessors = []
c.HTMLExporter.sanitize_html = False
c.Autograde.autograde_preprocessors = [
    name for name in c.Autograde.autograde_preprocessors if not name.endswith("safe_notebook")
]
""",
    ),
    "names": Guard(
        "what cannot be printed is escaped where names are shown",
        {
            "solutions.grading.run.printable": str,
            "solutions.grading.grades.printable": str,
            "solutions.grading.submissions.printable": str,
            "solutions.grading.class_page.printable": str,
        },
    ),
    "cells": Guard(
        "no cell of grades.csv is a formula, split at commas or semicolons", {"solutions.grading.grades.text_cell": str}
    ),
    "timestamps": Guard(
        "a time zone is a name of the database, no file's",
        {"solutions.grading.untrusted.timestamps.parsed": parse_utc},
    ),
    "apart": Guard(
        "outputs are cleaned and pages rendered in a child process with limits",
        {
            "solutions.grading.untrusted.pages.apart": lambda function, *given: function(*given),
            "solutions.grading.untrusted.sanitise.apart": lambda function, *given: function(*given),
        },
    ),
    "reader": Guard(
        "notebooks are measured before they are read",
        {
            "solutions.grading.submissions.check_notebook_file": lambda path: None,
            "solutions.grading.untrusted.limits.check_notebook_file": lambda path: None,
            "solutions.grading.grade.check_files": lambda *_: None,
        },
        config='\nc.Autograde.exporter_class = "nbconvert.exporters.NotebookExporter"\n',
    ),
    "once": Guard(
        "a kernel's folder and processes are used once",
        {
            "solutions.grading.scratch.Scratch.made": _in_one_folder,
            "solutions.grading.scratch.Scratch.remove": lambda self: None,
        },
    ),
    "answers": Guard(
        "an answer is known again only behind all that was asked before it",
        config='\nc.GradeExecute.judge = "tests.hostile.forgetful"\n',
    ),
    "messages": Guard(
        "what a kernel's messages take of the grader's memory is watched", limits={"unread_bytes": 1 << 50}
    ),
    "outputs": Guard(
        "a cell's and a notebook's outputs are limited",
        {"solutions.grading.untrusted.limits.OutputRoom.admit": lambda self, message, places=1: message},
    ),
}
