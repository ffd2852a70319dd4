"""Step 16, one examiner per department: from a case's files to the cause and the number that proves it.

The solutions of the visible cases are in no file that students get: `sealed.json` next to the cases holds only
digests. The grader asks about other cases (solutions/checks/s16_cases).
"""

import hashlib
import math
from functools import partial
from typing import Any

from helpers.checks.points.case import Case
from helpers.checks.points.pure import OneOf, agree
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.tools.files import read_json
from helpers.toys.casefiles import CASES_FOLDER, CAUSES, NOTHING, CaseFile, Finding, case_files

FUNCTIONS = {"engine": "inspect_engine", "clock": "check_clock", "scores": "check_scores"}
"""The function that the student writes for each department."""

ADVICE = {
    "engine": "compare each tensor's range in the cache with the measured one, then ask the engine itself",
    "clock": "compute each suspect's number from the log, and compare it with the reported one",
    "scores": "compute the right inputs, answers and counts, and find the first that differs",
}

TOLERANCE = 0.03
"""Relative error allowed in the number that proves a cause."""

PROMISES = (
    "within 3 %",
    "half a point for the causes, 0.3 points for the proofs, 0.2 points for the innocent",
    "for a case without a mistake, return `Finding(NOTHING)`",
    "four of each cause",
    "eight that are healthy",
    "`case.scores`",
    "`case.labels`",
)
"""Figures and names in the notebook's text."""

SEALED_FILE = CASES_FOLDER / "sealed.json"
_STEP = math.log1p(TOLERANCE / 2)


@probe
def examine(notebook: Notebook, *, function: str, case: dict[str, Any]) -> tuple[str, float]:
    """Return the cause and the evidence of `function(CaseFile(**case))`."""
    cause, evidence = notebook[function](CaseFile(**case))
    return str(cause), float(evidence or 0.0)


def finding(case: Case, department: str, file: dict[str, Any]) -> Finding:
    """Return the finding of the department's examiner for a case, given as the fields of a CaseFile.

    Raises:
        Missed: it raises, returns no finding, or names no cause of its department.
    """
    function, known = FUNCTIONS[department], OneOf((*CAUSES[department], NOTHING))
    found = Finding(*case.call(examine, function=function, case=file).require(function))
    advice = "take the names from CAUSES; for a case without a mistake, return Finding(NOTHING)"
    agree({"cause": found.cause}, {"cause": known}, f"a Finding from {function}", advice)
    return found


def seal(*parts: object) -> str:
    """Return the digest of a case's number and cause, and of its evidence if given."""
    text = "|".join(map(str, parts)).encode()
    return hashlib.pbkdf2_hmac("sha256", text, b"trt-lab cases", 20_000).hex()[:24]


def evidence_seals(number: str, cause: str, evidence: float) -> list[str]:
    """Return the digests of a case's evidence and of the nearest numbers, its own first."""
    if not 0 < evidence < math.inf:
        return []
    return [seal(number, cause, round(math.log(evidence) / _STEP) + step) for step in (0, -1, 1, -2, 2)]


def _findings(case: Case, department: str) -> dict[str, Finding]:
    return {file.number: finding(case, department, vars(file)) for file in case_files(department)}


def _causes(department: str, case: Case) -> str:
    found, seals = _findings(case, department), read_json(SEALED_FILE, "list of sealed solutions")
    wrong = [
        f"case {name}: {one.cause}" for name, one in found.items() if seal(name, one.cause) != seals[name]["cause"]
    ]
    agree({"wrong findings": wrong}, {"wrong findings": []}, f"{len(found)} cases", ADVICE[department])
    return f"{len(found)} of {len(found)}"


def _proofs(department: str, case: Case) -> str:
    seals = read_json(SEALED_FILE, "list of sealed solutions")
    named = {name: said for name, said in _findings(case, department).items() if said.cause != NOTHING}
    wrong = [
        f"case {name}: {said.evidence:g} for {said.cause}"
        for name, said in named.items()
        if seals[name].get("evidence") not in evidence_seals(name, *said)
    ]
    advice = f'return the number that CAUSES["{department}"] asks for'
    agree({"wrong proofs": wrong}, {"wrong proofs": []}, f"{len(named)} cases with a cause", advice)
    return ", ".join(f"{said.cause} by {said.evidence:.4g}" for said in named.values())


def _task(department: str) -> Task:
    task = Task(f"{department}_cases", check=f"check_{department}_cases", takes=(FUNCTIONS[department],))
    task.point(f"cases.{department}_causes", 0.5, "Every cause is right")(partial(_causes, department))
    task.point(f"cases.{department}_proofs", 0.3, "Every cause is proven by its number")(partial(_proofs, department))
    return task


DEPARTMENTS = {department: _task(department) for department in FUNCTIONS}
TASKS = tuple(DEPARTMENTS.values())
