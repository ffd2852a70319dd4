"""The guards that attacks aim at, and how one alone is switched off in the grader's process, for a control.

There is no such switch in the grader: what is here replaces a function of it, or a line of the fixture course's
configuration.
"""

import dataclasses
import json
import math
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from solutions.checks.core import record
from solutions.grading import __main__ as main
from solutions.grading import class_page, execute, feedback, grade, grades, saving, submissions
from solutions.grading.scratch import Scratch
from solutions.grading.untrusted import limits, rendering, sanitise, timestamps
from solutions.grading.untrusted.output_room import OutputRoom
from solutions.sandbox import Watch, messages, provisioner
from solutions.sandbox.room import ROOT, Limits, Room


@dataclasses.dataclass(frozen=True)
class Guard:
    """What it keeps, and what switches it off."""

    keeps: str
    off: Callable[[], None] = lambda: None
    config: str = ""


def _no_sandbox() -> None:
    """The kernel starts as nbgrader's does: with the grader's rights, environment and home."""

    def command(kind: str, argv: list[str], room: Room, limits: Limits) -> tuple[list[str], dict[str, str]]:
        return argv, {**os.environ, **room.environment, "PYTHONPATH": str(ROOT)}

    provisioner.command = command
    execute.chosen = lambda unsafe=False: "none"


def _no_judge() -> None:
    """Claims run in the kernel, behind the student's cells, and the kernel writes the records."""

    def judged(self: execute.GradeExecute, cell: NotebookNode, *rest: Any) -> Any:
        name, records = cell.metadata.nbgrader.grade_id, execute.records_of(self._student)
        call = f"from tests.hostile.judge import grade_here\n\ngrade_here({name!r}, globals(), {str(records)!r})"
        cell.source = call  # no visible check runs in grading
        return self._run(cell, *rest)

    execute.GradeExecute._judged = judged


def _unlimited(**changed: Any) -> Callable[[], None]:
    def off() -> None:
        before = execute.Limits
        execute.Limits = lambda **given: before(**{**given, **changed})

    return off


def _no_scratch() -> None:
    _unlimited(scratch_bytes=1 << 50, scratch_files=1 << 50)()


def _no_time() -> None:
    _unlimited(seconds=math.inf)()
    execute.GradeExecute._get_timeout = lambda self, cell: None
    execute.GradeExecute._over = lambda self, index: False


def _no_watch() -> None:
    """Nothing ends what the kernel started."""
    Watch.start = Watch.stop = lambda self: None
    provisioner.end = lambda pid: os.kill(pid, signal.SIGKILL)


def _no_schema() -> None:
    record.read_checked = lambda path: json.loads(Path(path).read_text())


def _links_followed() -> None:
    for room in (grade, saving):
        room.remove_links = lambda *_: []
    grade.check_files = lambda *_: None
    execute._remove = lambda path: path.unlink(missing_ok=True)
    limits.read_regular = lambda path, *_: Path(path).read_bytes()
    real = Path.is_symlink
    submissions.Path.is_symlink = lambda path: "submitted" not in path.parts and real(path)


def _unmeasured() -> None:
    submissions.check_notebook_file = limits.check_notebook_file = lambda path: None
    grade.check_files = lambda *_: None


def _all_outputs() -> None:
    OutputRoom.admit = lambda self, message, places=1: message


def _all_messages() -> None:
    messages.MESSAGE_BYTES = -1
    _unlimited(unread_bytes=1 << 50)()


def _as_written() -> None:
    feedback.strict_head = lambda head: str(head)


def _in_process() -> None:
    """Texts are cleaned and rendered in the grader, however long that takes."""
    rendering.apart = sanitise.apart = lambda function, *given: function(*given)


def _one_scratch() -> None:
    """All kernels have the folder of the first one, as it was left."""
    folder = Path(tempfile.mkdtemp()).resolve()

    def made(limits: Limits) -> Scratch:
        scratch = Scratch(folder)
        scratch.artifacts.mkdir(exist_ok=True)
        return scratch

    Scratch.made, Scratch.remove = made, lambda self: None


def _as_named() -> None:
    for room in (main, grades, submissions, class_page):
        room.printable = str


def _any_cell() -> None:
    grades.text_cell = str


def _any_zone() -> None:
    timestamps.parsed = parse_utc


_DIRTY = """
c.HTMLExporter.filters = {}
c.HTMLExporter.preprocessors = []
c.HTMLExporter.sanitize_html = False
c.Autograde.autograde_preprocessors = [
    name for name in c.Autograde.autograde_preprocessors if not name.endswith("SafeNotebook")
]
"""
_FORGETFUL = """
c.GradeExecute.judge = "tests.hostile.forgetful"
"""
_NO_EXTRACTOR = """
c.ZipCollectApp.extractor_plugin = "nbgrader.plugins.ExtractorPlugin"
"""

GUARDS: dict[str, Guard] = {
    "sandbox": Guard("files, processes, network and environment that the kernel does not see", _no_sandbox),
    "judge": Guard("claims, expected values and records in a process of their own", _no_judge),
    "watch": Guard("whatever the kernel started is ended with it", _no_watch),
    "memory": Guard("the memory of the kernel's processes is watched", _unlimited(memory_bytes=1 << 50)),
    "processes": Guard(
        "the number of the kernel's processes and threads is watched", _unlimited(processes=1 << 30, threads=1 << 30)
    ),
    "scratch": Guard("what the kernel writes is watched", _no_scratch),
    "time": Guard("a cell and a notebook have a time limit", _no_time),
    "schema": Guard("a record has a schema and a largest size", _no_schema),
    "links": Guard("links and special files in the course are not followed", _links_followed),
    "archives": Guard("archives are measured and unpacked one by one", config=_NO_EXTRACTOR),
    "sanitise": Guard("outputs and markdown are cleaned, and pages run no script", _as_written, _DIRTY),
    "names": Guard("what cannot be printed is escaped where names are shown", _as_named),
    "cells": Guard("no cell of grades.csv is a formula, split at commas or semicolons", _any_cell),
    "timestamps": Guard("a time zone is a name of the database, no file's", _any_zone),
    "apart": Guard("outputs are cleaned and pages rendered in a child process with limits", _in_process),
    "reader": Guard(
        "notebooks are measured before they are read",
        _unmeasured,
        '\nc.Autograde.exporter_class = "nbconvert.exporters.NotebookExporter"\n',
    ),
    "once": Guard("a kernel's folder and processes are used once", _one_scratch),
    "answers": Guard("an answer is known again only behind all that was asked before it", config=_FORGETFUL),
    "messages": Guard("what a kernel sends is limited before it is read", _all_messages),
    "outputs": Guard("a cell's and a notebook's outputs are limited", _all_outputs),
}
