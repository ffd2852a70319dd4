"""The graded points of step 16, on cases made from seeds, each with one mistake or none.

Reading order: networks.py (parts of a case), then engine.py, clock.py and scores.py (the mistakes of each department),
made.py, visible.py (the twelve cases that students get).
"""

import math
from functools import partial

from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s16_cases import ADVICE, DEPARTMENTS, TOLERANCE, finding
from helpers.checks.points.task import Earned, shared
from helpers.toys.casefiles import CAUSES, NOTHING, Finding
from solutions.checks.s16_cases.made import file_of, made
from solutions.checks.s16_cases.networks import Material

EACH, HEALTHY = 4, 8
"""The number of new cases of each cause, and of healthy cases."""


def _examined(case: Case, department: str, cause: str, number: int) -> list[tuple[Material, float, Finding]]:
    fresh = [made(department, cause, case.number(f"cases.{department}"), index) for index in range(number)]
    return [(material, proof, finding(case, department, file_of(material))) for material, proof in fresh]


def _solved(department: str, proofs: bool, cause: str, case: Case) -> str:
    """Return evidence that a cause is named, and with `proofs` also proven, in each of its cases."""
    for material, proof, said in _examined(case, department, cause, EACH):
        agree({"cause": said.cause}, {"cause": cause}, f"each of {EACH} new cases of this cause", ADVICE[department])
        if proofs:
            picture = 100.5 / material["report"].get("images", math.inf)  # an accuracy may be off by one image
            asked, advice = f"{cause} ({CAUSES[department][cause]})", "return the number that CAUSES asks for"
            agree({"proof": said.evidence}, {"proof": proof}, asked, advice, rtol=TOLERANCE, atol=picture)
    return f"{cause} {EACH} of {EACH}"


def _each(department: str, proofs: bool, case: Case) -> Earned:
    """Return the share of the causes that are solved."""
    return shared([partial(_solved, department, proofs, cause, case) for cause in CAUSES[department]])


def _innocent(department: str, case: Case) -> str:
    """Return evidence that healthy cases are let go by an examiner that finds at least half of the causes."""
    accused = [said.cause for *_, said in _examined(case, department, NOTHING, HEALTHY) if said.cause != NOTHING]
    found = {"accusations": accused, "half of the causes found": _each(department, False, case).share >= 0.5}
    right = {"accusations": [], "half of the causes found": True}
    agree(found, right, f"{HEALTHY} healthy cases", "name a cause only if you are sure of it")
    return f"{HEALTHY} of {HEALTHY} let go"


for _department, _task in DEPARTMENTS.items():
    _causes, _proofs = _task.points
    _causes.in_grading(partial(_each, _department, False))
    _proofs.in_grading(partial(_each, _department, True))
    _task.hidden(f"cases.{_department}_innocent", 0.2, "The innocent are let go")(partial(_innocent, _department))
