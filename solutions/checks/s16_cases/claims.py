"""Claims of step 16: each department's examiner on fresh cases, several of each cause, and on healthy ones."""

from collections.abc import Iterator
from functools import lru_cache, partial

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s16_cases import ADVICE, FUNCTIONS, Verdict, proven, verdict
from helpers.toys.casefiles import CAUSES, NOTHING
from solutions.checks.core.claim import Earned, claim, shared
from solutions.checks.s16_cases.made import made
from solutions.checks.s16_cases.sealed import Sealed

EACH, HEALTHY = 4, 8
"""How many fresh cases there are of each cause, and with nothing wrong."""

_POINTS = {"causes": 0.5, "proofs": 0.3, "innocent": 0.2}
_made = lru_cache(maxsize=256)(made)


def _fresh(case: Case, department: str, cause: str, number: int) -> Iterator[Sealed]:
    seed = case.number(f"cases.{department}")
    return (_made(department, cause, seed, index) for index in range(number))


def _examined(case: Case, department: str, cause: str, number: int) -> list[tuple[Sealed, Verdict]]:
    fresh = _fresh(case, department, cause, number)
    return [(sealed, verdict(case, department, sealed.data())) for sealed in fresh]


def _named(department: str, cause: str, case: Case) -> str:
    """Return evidence that a cause is named in each case of it; raise Missed where it is not."""
    taken_for = [found.cause for _, found in _examined(case, department, cause, EACH) if found.cause != cause]
    if taken_for:
        found = f"{len(taken_for)} of {EACH} taken for {taken_for[0]}"
        raise Missed(f"{cause} named in {EACH} fresh cases of it", found, ADVICE[department])
    return f"{cause} {EACH} of {EACH}"


def _proof(department: str, cause: str, case: Case) -> str:
    """Return evidence that a cause is named and proven in each case of it; raise Missed where it is not."""
    _named(department, cause, case)
    for sealed, found in _examined(case, department, cause, EACH):
        if not proven(found.evidence, sealed.evidence, sealed.slack):
            expected = f"{sealed.evidence:.5g} for {cause}: {CAUSES[department][cause]}"
            raise Missed(expected, f"{found.evidence:.5g}", "read what CAUSES asks for")
    return cause


def _causes(department: str, case: Case) -> Earned:
    return shared([partial(_named, department, cause, case) for cause in CAUSES[department]])


def _proofs(department: str, case: Case) -> Earned:
    return shared([partial(_proof, department, cause, case) for cause in CAUSES[department]])


def _innocent(department: str, case: Case) -> str:
    """Return evidence that healthy cases are let go, by an examiner that finds at least half of the causes."""
    accused = [found.cause for _, found in _examined(case, department, NOTHING, HEALTHY) if found.cause != NOTHING]
    if accused:
        found = f"{len(accused)} of {HEALTHY} accused, the first of {accused[0]}"
        raise Missed(f"{NOTHING} in {HEALTHY} fresh cases without a mistake", found, "name no cause that is not sure")
    if _causes(department, case).share < 0.5:
        expected = "half of the causes to be found as well"
        raise Missed(expected, "an examiner that lets most culprits go", ADVICE[department])
    return f"{HEALTHY} of {HEALTHY} let go"


_JUDGES = {"causes": _causes, "proofs": _proofs, "innocent": _innocent}
_TITLES = {
    "causes": "{} names the cause in fresh cases",
    "proofs": "{} proves it by the number",
    "innocent": "{} lets go where nothing is wrong",
}

for _department, _function in FUNCTIONS.items():
    for _what, _judge in _JUDGES.items():
        claim(
            f"cases.{_department}_{_what}",
            cell=f"{_department}_cases",
            points=_POINTS[_what],
            title=_TITLES[_what].format(_function),
        )(partial(_judge, _department))
