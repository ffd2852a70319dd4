"""Step 16, one examiner a department: from a case's files to the cause and the number that proves it.

The visible cases' solutions are no more here than in any file that students get: `sealed.json` beside the cases holds
digests alone. The claims ask about other cases (solutions/checks/s16_cases).
"""

import hashlib
import math
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Check, Point
from helpers.checks.probes.answer import Notebook, probe
from helpers.tools.files import read_json
from helpers.toys.casefiles import CASES_FOLDER, CAUSES, NOTHING, CaseFile, Finding, case_files

FUNCTIONS = {"engine": "inspect_engine", "clock": "check_clock", "scores": "check_scores"}
"""What the student writes for each department."""

ADVICE = {
    "engine": "compare each tensor's range in the cache with the measured one; then ask the engine itself",
    "clock": "compute each suspect's number from the log, and see whether it is the reported one",
    "scores": "compute what should have been fed, answered and counted, and find the first that differs",
}

_INNOCENT = "for a case without a mistake, return Finding(NOTHING)"

TOLERANCE = 0.03
"""How far the number that proves a cause may be off, as a share of the right one."""

PROMISES = (
    "within 3 %",
    "half a point for the causes, 0.3 points for the proofs, 0.2 points for the innocent",
    "for a case without a mistake, return `Finding(NOTHING)`",
    "`case.scores`",
    "`case.labels`",
)
"""What the notebook's text says in figures, and what it has the student write."""

SEALED_FILE = CASES_FOLDER / "sealed.json"
_ROUNDS = 20_000
_STEP = math.log1p(TOLERANCE / 2)


class Verdict(NamedTuple):
    """What an examiner said of one case."""

    cause: str
    evidence: float


class Said(TypedDict):
    """What `examine` answers for a finding."""

    cause: str
    evidence: float


class Other(TypedDict):
    """What it answers for anything else."""

    kind: str


@probe
def examine(notebook: Notebook, *, function: str, case: dict[str, Any]) -> Said | Other:
    """Call `function(CaseFile(**case))`; return its `cause` and `evidence`, or in `kind` what else it gave.

    NOTHING alone is as good as Finding(NOTHING).
    """
    found = notebook[function](CaseFile(**case))
    try:
        cause, evidence = Finding(found) if isinstance(found, str) and found == NOTHING else found
        return {"cause": str(cause), "evidence": float(evidence if evidence is not None else math.nan)}
    except (TypeError, ValueError):
        return {"kind": f"{type(found).__name__} {str(found)[:80]}"}


def verdict(case: Case, department: str, file: dict[str, Any]) -> Verdict:
    """Return what the department's examiner says of a case, given as the fields of a CaseFile.

    Raises:
        Missed: it raises, gives no finding, or names no cause of its department.
    """
    function = FUNCTIONS[department]
    found = case.call(examine, function=function, case=file).require(function)
    if "kind" in found:
        advice = f"return Finding(cause, evidence) on every way through the function; {_INNOCENT}"
        raise Missed(f"a Finding from {function}", found["kind"], advice)
    known = [*CAUSES[department], NOTHING]
    if found["cause"] not in known:
        raise Missed(
            f"one of {', '.join(known)}", repr(found["cause"][:60]), f"take the names from CAUSES; {_INNOCENT}"
        )
    if found["cause"] != NOTHING and not math.isfinite(found["evidence"]):
        expected = f"a number that proves {found['cause']}"
        raise Missed(expected, f"{found['evidence']}", "give the number as the Finding's evidence")
    return Verdict(found["cause"], found["evidence"])


def proven(found: float, right: float, slack: float = 0.0) -> bool:
    """Say whether a number is the one that proves a cause: within `TOLERANCE`, or `slack` where that is more."""
    return abs(found - right) <= max(TOLERANCE * abs(right), slack)


def seal(*parts: object) -> str:
    """Return the digest of a case's number and cause, and of its evidence where that is given."""
    text = "|".join(map(str, parts)).encode()
    return hashlib.pbkdf2_hmac("sha256", text, b"trt-lab cases", _ROUNDS).hex()[:24]


def evidence_seal(number: str, cause: str, evidence: float, step: int = 0) -> str:
    """Return the digest of a case's evidence; a `step` to either side are the numbers that lie nearest."""
    return seal(number, cause, round(math.log(evidence) / _STEP) + step)


@lru_cache(maxsize=1)
def _seals() -> dict[str, dict[str, str]]:
    return read_json(SEALED_FILE, "list of sealed solutions")


def _visible(department: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the visible cases of a department: number, and the fields of the CaseFile."""
    return [
        (file.number, {field.name: getattr(file, field.name) for field in fields(file)})
        for file in case_files(department)
    ]


def _findings(case: Case, department: str) -> dict[str, Verdict]:
    return {number: verdict(case, department, file) for number, file in _visible(department)}


def _form(department: str, case: Case) -> str:
    return f"cases {', '.join(_findings(case, department))}"


def _right_cause(number: str, found: Verdict) -> bool:
    return seal(number, found.cause) == _seals()[number]["cause"]


def _causes(department: str, case: Case) -> str:
    findings = _findings(case, department)
    missed = [number for number, found in findings.items() if not _right_cause(number, found)]
    if missed:
        said = "; ".join(f"case {number}: {findings[number].cause}" for number in missed)
        raise Missed("every case of the department solved", f"not it: {said}", ADVICE[department])
    return f"{len(findings)} of {len(findings)}"


def _proofs(department: str, case: Case) -> str:
    findings = _findings(case, department)
    named = {number: found for number, found in findings.items() if found.cause != NOTHING}
    unproven = [number for number, found in named.items() if not _sealed_evidence(number, found)]
    if unproven:
        said = "; ".join(f"case {number}: {named[number].evidence:g} for {named[number].cause}" for number in unproven)
        asked = {CAUSES[department][named[number].cause] for number in unproven}
        raise Missed(f"each cause proven, by {'; by '.join(sorted(asked))}", said, "read what CAUSES asks for")
    return ", ".join(f"{found.cause} by {found.evidence:.4g}" for found in named.values())


def _sealed_evidence(number: str, found: Verdict) -> bool:
    if not found.evidence > 0:
        return False
    return any(evidence_seal(number, *found, step) == _seals()[number]["evidence"] for step in range(-2, 3))


def _check(department: str, title: str) -> Check:
    points = (
        Point("Every case ends with a finding", partial(_form, department)),
        Point("Every cause is right", partial(_causes, department)),
        Point("Every cause is proven by its number", partial(_proofs, department)),
    )
    return Check("16_cases", title, (FUNCTIONS[department],), points)


CHECKS = {
    "check_engine_cases": _check("engine", "Engine department"),
    "check_clock_cases": _check("clock", "Clock department"),
    "check_scores_cases": _check("scores", "Scores department"),
}
