"""What the student's side says of itself is no evidence: few points rest on it, and each of them is named."""

from tests.tools.evidence_page import reported

MOST = 8
"""Points of the 100 that a student may gain by what is said and not seen."""


def test_few_of_the_hundred_points_rest_on_a_report() -> None:
    assert sum(point.worth for point in reported(bonus=False)) <= MOST + 1e-9


def test_each_such_point_has_a_reason() -> None:
    assert all(len(point.reported) > 20 for point in (*reported(bonus=False), *reported(bonus=True)))
