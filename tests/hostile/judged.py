"""What became of attacks: whether one reached its goal with its guard off, and what held with all guards on."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from tests.hostile.attack import BASE, Attack, Trial
from tests.hostile.outer import inside
from tests.hostile.stage import graded

_IN_A_CLASS = 15
"""Attackers in a class with all guards on: each class starts a grader of its own."""


@dataclass(frozen=True)
class Verdict:
    """One attack in one class."""

    attack: Attack
    trial: Trial

    @property
    def reached(self) -> bool:
        """Whether it reached its goal."""
        return self.attack.goal(self.trial)

    @property
    def faults(self) -> list[str]:
        """What did not hold with all guards on, a line each."""
        seen, points = self.trial.seen, self.trial.points
        shown = [line for line in self.trial.lines.splitlines() if "·" in line][:3]
        found = {
            f"{points:g} points, {BASE:g} without the attack": points > BASE,
            f"left behind {seen.left[:5]}": bool(seen.left),
            f"the class ended with {seen.exit_code}, points {seen.points}: {seen.said[-300:]!r}": not seen.finished,
            f"no clear line: {shown}": seen.finished and not self._told,
            "reached its goal": self.reached,
        }
        return [fault for fault, holds in found.items() if holds]

    @property
    def _told(self) -> bool:
        """Whether the instructor has a line about it, and no traceback."""
        seen, lines = self.trial.seen, self.trial.lines
        named = f"{self.attack.student} · " in lines or any(seen.notes.get(self.attack.student, []))
        return named and bool(re.search(self.attack.says, lines)) and "Traceback" not in seen.said


def controls(template: Path, attacks: Sequence[Attack]) -> Iterator[Verdict]:
    """Grade each attack with the guards off that it aims at; those that harm only themselves share a class."""

    def key(attack: Attack) -> tuple[bool, tuple[str, ...], str]:
        return attack.alone, attack.guards, attack.name if attack.alone else ""

    for _, group in groupby(sorted(attacks, key=key), key=key):
        together = list(group)
        for verdict in _verdicts(template, together, off=together[0].guards, ordinary=True):
            if not verdict.reached:  # some race with the grader, and lose now and then
                [verdict] = _verdicts(template, [verdict.attack], off=together[0].guards, ordinary=True)
            yield verdict


def guarded(template: Path, attacks: Sequence[Attack], sandbox: str, *, ordinary: bool) -> Iterator[Verdict]:
    """Grade the attacks with all guards on; where a class is not as it must be, each attack in it again, alone."""
    verdicts = partial(_verdicts, template, sandbox=sandbox, ordinary=ordinary)
    for attack in attacks:
        if attack.apart:
            yield from verdicts([attack], jobs=1)  # a peak is of all that is graded at a time
    others = [attack for attack in attacks if not attack.apart]
    for first in range(0, len(others), _IN_A_CLASS):
        together = others[first : first + _IN_A_CLASS]
        found = verdicts(together, jobs=2)
        if len(together) > 1 and (found[0].trial.seen.left or not found[0].trial.seen.finished):
            found = [verdicts([attack], jobs=2)[0] for attack in together]
        yield from found


def _verdicts(
    template: Path,
    attacks: Sequence[Attack],
    *,
    ordinary: bool,
    off: Sequence[str] = (),
    sandbox: str = "",
    jobs: int = 1,
) -> list[Verdict]:
    names = [attack.name for attack in attacks]
    seen = inside(partial(graded, template, names, off, sandbox, jobs), ordinary=ordinary)
    return [Verdict(attack, Trial(attack.student, seen)) for attack in attacks]
