"""Adds decisions up: per step how many mutants there are, killed, equivalent, survived; and the rewrites."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from helpers.course.steps import GRADED
from tests.mutants.equivalent import reason_of
from tests.mutants.judging import Decision
from tests.mutants.source import Mutant
from tests.submissions.bank import Entry

COUNTS = ("mutants", "killed", "equivalent", "survived", "undecided")
LEAST_KILLED, MOST_EQUIVALENT = 0.95, 0.10
"""Of the mutants that are not equivalent, how many must be killed; of all, how many may be called equivalent."""


def status(mutant: Mutant, decision: Decision | None) -> str:
    """Return killed, equivalent, survived or undecided; what is listed as equivalent and yet killed is killed."""
    if decision is None:
        return "undecided"
    if decision.killed:
        return "killed"
    return "equivalent" if reason_of(mutant) else "survived"


def figures(
    mutants: Sequence[Mutant], rewrites: Sequence[Entry], decisions: dict[str, Decision], about: dict[str, Any]
) -> dict[str, Any]:
    """Return what results/mutants.json holds: counts by step and by operator, every decision raw."""
    rows = [(mutant, status(mutant, decisions.get(mutant.id))) for mutant in mutants]
    judged = [one for one in rewrites if one.name in decisions]
    return {
        **about,
        "steps": {step: _counts([found for mutant, found in rows if mutant.step == step]) for step in GRADED},
        "all": _counts([found for _, found in rows]),
        "operators": {
            name: _counts([found for mutant, found in rows if mutant.operator == name])
            for name in sorted({mutant.operator for mutant, _ in rows})
        },
        "rewrites": {
            "rewrites": len(judged),
            "rejected": [one.name for one in judged if rejected(decisions[one.name])],
        },
        "survived": {mutant.id: mutant.diff() for mutant, found in rows if found == "survived"},
        "equivalent": {mutant.id: reason_of(mutant) for mutant, found in rows if found == "equivalent"},
        "listed_but_killed": [mutant.id for mutant, found in rows if found == "killed" and reason_of(mutant)],
        "decisions": {name: asdict(decision) for name, decision in decisions.items()},
    }


def rejected(decision: Decision) -> bool:
    """Return whether a rewrite, which is right, lost something, died, or was told of a fault by a visible check."""
    return bool(decision.killed or decision.failed or decision.visible)


def good_enough(found: dict[str, Any]) -> bool:
    """Return whether what was judged reaches the shares that are asked for, and no rewrite is rejected."""
    counts = found["all"]
    decided = counts["mutants"] - counts["undecided"]
    judged = decided - counts["equivalent"]
    return (
        counts["killed"] >= LEAST_KILLED * judged
        and counts["equivalent"] <= MOST_EQUIVALENT * decided
        and not found["rewrites"]["rejected"]
    )


def _counts(found: Sequence[str]) -> dict[str, Any]:
    counts = {"mutants": len(found), **{name: list(found).count(name) for name in COUNTS[1:]}}
    judged = counts["killed"] + counts["survived"]
    return {**counts, "killed_share": round(counts["killed"] / judged, 4) if judged else None}
