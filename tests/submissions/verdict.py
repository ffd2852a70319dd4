"""Compares what an entry lost with what it must lose, and adds the bank up."""

from dataclasses import dataclass
from typing import Any

from tests.submissions.bank import Entry
from tests.submissions.execution import Outcome


@dataclass(frozen=True)
class Verdict:
    """One entry's outcome: claims that were kept though they must be lost, and lost though they must be kept."""

    entry: Entry
    outcome: Outcome
    kept_wrongly: tuple[str, ...]
    lost_wrongly: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the checks decided as the bank says, with none of them failing itself."""
        return not (self.kept_wrongly or self.lost_wrongly or self.failed)

    @property
    def failed(self) -> list[str]:
        """Claims whose check failed by our own mistake, or how the process died."""
        errors = [name for name, result in self.outcome.claims.items() if result["status"] == "error"]
        return errors + ([self.outcome.died] if self.outcome.died else [])


def judge(entry: Entry, outcome: Outcome) -> Verdict:
    """Compare an entry's lost claims with the bank's."""
    decided = set(outcome.claims)
    expected = decided if entry.loses is None else set(entry.loses)
    kept = tuple(sorted(expected - outcome.lost))
    return Verdict(entry, outcome, kept, tuple(sorted(outcome.lost - expected)))


def summary(verdicts: list[Verdict], seconds: float) -> dict[str, Any]:
    """Return the bank's figures: counts of entries, and of the three mistakes that must not happen."""
    wrong = [verdict for verdict in verdicts if verdict.entry.kind == "wrong"]
    right = [verdict for verdict in verdicts if verdict.entry.kind == "right"]
    whole = [verdict for verdict in verdicts if verdict.entry.kind in ("right", "solution")]
    return {
        "wrong": len(wrong),
        "right": len(right),
        "accepted_wrong": sum(bool(v.kept_wrongly) for v in verdicts if v.entry.kind in ("wrong", "skeleton")),
        "rejected_right": sum(bool(verdict.lost_wrongly) for verdict in whole),
        "lost_by_mistake": sum(len(verdict.lost_wrongly) for verdict in wrong),
        "failed_checks": sum(len(verdict.failed) for verdict in verdicts),
        "seen_by_visible_checks": sum(any("✗" in text for text in v.outcome.visible.values()) for v in wrong),
        "seconds": round(seconds, 1),
        "entries": [_row(verdict) for verdict in verdicts],
    }


def _row(verdict: Verdict) -> dict[str, Any]:
    entry, outcome = verdict.entry, verdict.outcome
    return {
        "step": entry.step,
        "name": entry.name,
        "kind": entry.kind,
        "about": entry.about,
        "lost": {name: outcome.claims[name]["missed"] for name in sorted(outcome.lost)},
        "kept_wrongly": list(verdict.kept_wrongly),
        "lost_wrongly": list(verdict.lost_wrongly),
        "failed": verdict.failed,
        "visible": outcome.visible,
        "cell_errors": outcome.errors,
        "seconds": round(outcome.seconds, 2),
    }
