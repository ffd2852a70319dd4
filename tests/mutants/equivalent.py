"""Reads equivalent.yaml: the mutants that no check can tell from the solution, each with the reason."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.mutants.source import Mutant

_FILE = Path(__file__).with_name("equivalent.yaml")
_KEYS = {"operators", "step", "cell", "removed", "added", "id", "reason"}


@dataclass(frozen=True)
class Rule:
    """What it is about, and why that is equivalent; what is empty matches everything.

    `removed` and `added` are regular expressions searched in the lines of the solution and of the mutant.
    """

    reason: str
    operators: tuple[str, ...] = ()
    step: str = ""
    cell: str = ""
    removed: str = ""
    added: str = ""
    id: str = ""

    def matches(self, mutant: Mutant) -> bool:
        """Return whether the mutant is one that the rule is about."""
        if self.id:
            return self.id == mutant.id
        return (
            (not self.operators or mutant.operator in self.operators)
            and self.step in ("", mutant.step)
            and self.cell in ("", mutant.cell)
            and bool(re.search(self.removed, mutant.removed))
            and bool(re.search(self.added, mutant.added))
        )


@functools.cache
def equivalents() -> tuple[Rule, ...]:
    """Return the rules, then the single ones.

    Raises:
        ValueError: one has an unknown key or no reason, or names no lines and no id.
    """
    return tuple(_rule(raw) for raw in yaml.safe_load(_FILE.read_text()) or [])


def _rule(raw: dict[str, Any]) -> Rule:
    narrow = {"removed", "added", "id"} & set(raw)
    if set(raw) - _KEYS or not raw.get("reason") or not narrow:
        raise ValueError(f"{_FILE.name}: {raw}: give a reason, and an id or a pattern of the lines; keys: {_KEYS}")
    return Rule(**{**raw, "operators": tuple(raw.get("operators", ()))})


def reason_of(mutant: Mutant) -> str:
    """Return why the mutant is equivalent; empty if it is not listed."""
    return next((rule.reason for rule in equivalents() if rule.matches(mutant)), "")
