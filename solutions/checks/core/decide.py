"""Decides a test cell: asks its points of the submission, writes the record, shows it, gives the points."""

import errno
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from helpers.checks.card import show
from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.task import Earned, Point, told
from helpers.checks.probes.loads import LoadError
from helpers.checks.probes.student import Student
from helpers.course.steps import CELLS
from helpers.engine.backend import API, DEVICE
from solutions.checks.core.asked import points_of
from solutions.checks.core.record import NO_SANDBOX, ClaimResult, Record
from solutions.checks.core.record_schema import LONGEST_TEXT
from solutions.checks.core.seed import cell_seed


def grade_cell(cell: str, namespace: Mapping[str, Any]) -> float:
    """Decide one test cell of our own notebook in its kernel, show its card and return its points.

    A student's is decided by the judge (solutions/grading/judge), a process that the notebook's code cannot reach.
    """
    record = run_points(cell, Case(Student.in_process(namespace), cell_seed(cell)))
    show(record.card())
    return record.earned


def run_points(cell: str, case: Case, sandbox: str = NO_SANDBOX) -> Record:
    """Decide the points of `cell` one by one; the record on disk grows with each, and names the sandbox."""
    points, belongs = points_of(cell), CELLS[cell]
    worth = sum(point.worth for point in points)
    record = Record(cell, belongs.step, belongs.criterion, DEVICE, worth, api=API, sandbox=sandbox)
    for point in points:
        record.results.append(decide(point, case))
        record.write()
    return record


def decide(point: Point, case: Case) -> ClaimResult:
    """Ask one point. Missed loses it; any other exception is our own mistake and says so.

    Raises:
        OSError, InputError: the disk is full, which is not the submission's fault.
    """
    started, fault = time.perf_counter(), ""
    try:
        earned = told(partial(point.asked, case))
    except LoadError as error:
        missed = Missed("a file that loads in reasonable time", str(error), "make it again from the lab's model")
        earned = Earned(0.0, "", missed)
    except KeyboardInterrupt:
        missed = Missed("an answer within the cell's time limit", "no answer", "look for a loop that does not end")
        earned = Earned(0.0, "", missed)
    except Exception as error:
        full = getattr(error.__cause__ or error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if full:
            raise
        said = f"the check itself failed, tell your instructor: {type(error).__name__}: {error}"
        fault, earned = "error", Earned(0.0, said)
    share, about = min(1.0, max(0.0, earned.share)), (point.name, point.title, point.worth)
    status = fault or ("kept" if share == 1 else "partial" if share > 0 else "lost")
    told_of = vars(earned.missed).items() if earned.missed else ()
    missed = {name: text[:LONGEST_TEXT] for name, text in told_of} or None
    seconds, evidence = round(time.perf_counter() - started, 3), earned.evidence[:LONGEST_TEXT]
    return ClaimResult(*about, round(share * point.worth, 2), status, evidence, missed, seconds)
