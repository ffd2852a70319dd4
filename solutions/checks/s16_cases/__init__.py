"""Step 16, on cases that are made from seeds, each with one mistake or none: here is what earns points.

Reading order: networks.py (what a case is made of), then engine.py, clock.py and scores.py (what goes wrong in each
department), made.py, visible.py (the twelve cases that students get).
"""

import math
from functools import lru_cache, partial

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s16_cases import ADVICE, DEPARTMENTS, TOLERANCE, finding
from helpers.checks.points.task import Earned, shared
from helpers.toys.casefiles import CAUSES, NOTHING, Finding
from solutions.checks.s16_cases.made import Sealed, made

EACH, HEALTHY = 4, 8
"""How many fresh cases there are of each cause, and with nothing wrong."""

_made = lru_cache(maxsize=256)(made)


def _examined(case: Case, department: str, cause: str, number: int) -> list[tuple[Sealed, Finding]]:
    fresh = [_made(department, cause, case.number(f"cases.{department}"), index) for index in range(number)]
    return [(sealed, finding(case, department, sealed.data())) for sealed in fresh]


def _solved(department: str, proofs: bool, cause: str, case: Case) -> str:
    """Return evidence that a cause is named, and with `proofs` proven too, in each case of it."""
    for sealed, said in _examined(case, department, cause, EACH):
        if said.cause != cause:
            raise Missed(f"{cause} in each of {EACH} fresh cases of it", said.cause, ADVICE[department])
        picture = 100.5 / sealed.material["report"].get("images", math.inf)  # of which an accuracy may be one off
        if proofs and not abs(said.evidence - sealed.evidence) <= max(TOLERANCE * sealed.evidence, picture):
            expected = f"{sealed.evidence:.5g} for {cause}: {CAUSES[department][cause]}"
            raise Missed(expected, f"{said.evidence:.5g}", "read what CAUSES asks for")
    return f"{cause} {EACH} of {EACH}"


def _each(department: str, proofs: bool, case: Case) -> Earned:
    """Return the share of the causes that are solved."""
    return shared([partial(_solved, department, proofs, cause, case) for cause in CAUSES[department]])


def _innocent(department: str, case: Case) -> str:
    """Return evidence that healthy cases are let go, by an examiner that finds at least half of the causes."""
    accused = [said.cause for _, said in _examined(case, department, NOTHING, HEALTHY) if said.cause != NOTHING]
    if accused:
        found = f"{len(accused)} of {HEALTHY} accused, the first of {accused[0]}"
        raise Missed(f"{NOTHING} in {HEALTHY} fresh cases without a mistake", found, "name no cause that is not sure")
    if _each(department, False, case).share < 0.5:
        expected = "half of the causes to be found as well"
        raise Missed(expected, "an examiner that lets most culprits go", ADVICE[department])
    return f"{HEALTHY} of {HEALTHY} let go"


for _department, _task in DEPARTMENTS.items():
    _causes, _proofs = _task.points
    _causes.in_grading(partial(_each, _department, False))
    _proofs.in_grading(partial(_each, _department, True))
    _task.hidden(f"cases.{_department}_innocent", 0.2, "The innocent are let go")(partial(_innocent, _department))
