"""Step 16, on cases that are made from seeds, each with one mistake or none: here is what earns points.

Reading order: networks.py (what a case is made of), then engine.py, clock.py and scores.py (what goes wrong in each
department), made.py, visible.py (the twelve cases that students get).
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
"""How many fresh cases there are of each cause, and with nothing wrong."""


def _examined(case: Case, department: str, cause: str, number: int) -> list[tuple[Material, float, Finding]]:
    fresh = [made(department, cause, case.number(f"cases.{department}"), index) for index in range(number)]
    return [(material, proof, finding(case, department, file_of(material))) for material, proof in fresh]


def _solved(department: str, proofs: bool, cause: str, case: Case) -> str:
    """Return evidence that a cause is named, and with `proofs` proven too, in each case of it."""
    for material, proof, said in _examined(case, department, cause, EACH):
        agree(said.cause, cause, f"the examiner, in each of {EACH} fresh cases of it", ADVICE[department])
        if proofs:
            picture = 100.5 / material["report"].get("images", math.inf)  # an accuracy may be one off
            asked = f"the proof of {cause}: {CAUSES[department][cause]}"
            agree(said.evidence, proof, asked, "read what CAUSES asks for", rtol=TOLERANCE, atol=picture)
    return f"{cause} {EACH} of {EACH}"


def _each(department: str, proofs: bool, case: Case) -> Earned:
    """Return the share of the causes that are solved."""
    return shared([partial(_solved, department, proofs, cause, case) for cause in CAUSES[department]])


def _innocent(department: str, case: Case) -> str:
    """Return evidence that healthy cases are let go, by an examiner that finds at least half of the causes."""
    accused = [said.cause for *_, said in _examined(case, department, NOTHING, HEALTHY) if said.cause != NOTHING]
    found = {"accusations": accused, "half of the causes found too": _each(department, False, case).share >= 0.5}
    right = {"accusations": [], "half of the causes found too": True}
    agree(found, right, f"{HEALTHY} healthy cases", "name no cause that is not sure")
    return f"{HEALTHY} of {HEALTHY} let go"


for _department, _task in DEPARTMENTS.items():
    _causes, _proofs = _task.points
    _causes.in_grading(partial(_each, _department, False))
    _proofs.in_grading(partial(_each, _department, True))
    _task.hidden(f"cases.{_department}_innocent", 0.2, "The innocent are let go")(partial(_innocent, _department))
