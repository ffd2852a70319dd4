"""What the student's side says of itself is no evidence: few points rest on it, and each of them is named."""

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported
from solutions.checks.core.claim import Claim, Earned
from solutions.checks.core.decide import decide
from tests.tools.evidence_page import PAGE, reported, section

MOST = 8
"""Points of the 100 that a student may gain by what is said and not seen."""


def test_few_of_the_hundred_points_rest_on_a_report() -> None:
    assert sum(claim.self_reported for claim in reported(bonus=False)) <= MOST + 1e-9


def test_the_page_names_each_claim_with_its_share_and_reason() -> None:
    assert section() in PAGE.read_text(), "python -m tests.tools.evidence_page writes it again"
    for claim in (*reported(bonus=False), *reported(bonus=True)):
        assert 0 < claim.reported.share <= 1 and len(claim.reported.reason) > 20, claim.name
        assert (claim.reported.judge is None) == (claim.reported.share == 1), claim.name


def _lie(case: Case) -> str:
    raise Missed("the model as it was", "another", "leave it alone")


def test_what_is_only_reported_costs_and_gains_no_more_than_its_share() -> None:
    told = Reported("what nobody sees", 0.25, _lie)
    results = [
        decide(Claim("a", "fp16_engine", 2, "A", judge, told), None)
        for judge in (lambda case: "seen", lambda case: Earned(0.5, "half"), _lie)
    ]
    assert [(result.earned, result.status) for result in results] == [(1.5, "partial"), (0.75, "partial"), (0, "lost")]
    assert results[0].missed["found"] == "another" and results[0].evidence == "seen"
