"""What became of attacks: whether one reached its goal with its guard off, and what held with all guards on."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.hostile.attack import BASE, Attack, Seen, Trial
from tests.hostile.outer import begin
from tests.hostile.stage import Class

CLASS_S, ATTACK_S = 120, 60
"""Seconds for a class, and for each attacker in it, on a busy machine."""


@dataclass(frozen=True)
class Verdict:
    """One attack in one class."""

    attack: Attack
    trial: Trial
    sandbox: str = ""

    @property
    def reached(self) -> bool:
        """Whether it reached its goal."""
        return self.attack.goal(self.trial)

    @property
    def open(self) -> bool:
        """Whether it reached a goal that the threat model says is open in this sandbox."""
        return self.sandbox in self.attack.open_in and self.reached

    @property
    def gained(self) -> bool:
        """Whether it has more points than the notebook without the attack."""
        return self.trial.points > BASE

    @property
    def touched(self) -> bool:
        """Whether a file outside its folders was made, changed or removed, or a process stayed."""
        return bool(self.trial.seen.touched or self.trial.seen.survivors)

    @property
    def unfinished(self) -> bool:
        """Whether the class was not graded to its end, with the points that the honest must have."""
        return not self.trial.seen.finished

    @property
    def silent(self) -> bool:
        """Whether the instructor has no line about it, or a traceback."""
        lines = self.trial.lines
        told = f"{self.attack.student} · " in lines or any(self.trial.seen.notes.get(self.attack.student, []))
        return not told or not re.search(self.attack.says, lines) or "Traceback" in self.trial.seen.said

    @property
    def faults(self) -> list[str]:
        """What did not hold, a line each."""
        seen, found = self.trial.seen, []
        if self.gained:
            found.append(f"{self.trial.points:g} points, {BASE:g} without the attack")
        if self.touched:
            found.append(f"left behind {(seen.touched + seen.survivors)[:5]}")
        if self.unfinished:
            found.append(f"the class ended with {seen.exit_code}, points {seen.points}: {seen.said[-300:]!r}")
        if self.silent and not self.unfinished:
            found.append(f"no clear line: {[line for line in self.trial.lines.splitlines() if '·' in line][:3]}")
        if self.reached and not self.open:
            found.append("reached its goal")
        return found


def controls(folder: Path, attacks: Sequence[Attack]) -> Iterator[Verdict]:
    """Grade each attack with the guards off that it aims at; those that harm only themselves share a class."""

    def key(attack: Attack) -> tuple[bool, tuple[str, ...], str]:
        return attack.alone, attack.guards, attack.name if attack.alone else ""

    for _, group in groupby(sorted(attacks, key=key), key=key):
        together = list(group)
        seen = _see(folder, together, off=together[0].guards, sandbox="", ordinary=True)
        yield from (Verdict(attack, Trial(attack.student, seen)) for attack in together)


def guarded(folder: Path, attacks: Sequence[Attack], sandbox: str, *, ordinary: bool) -> Iterator[Verdict]:
    """Grade the attacks with all guards on, a class a group; where a class is not as it must be, each again alone."""
    for _, group in groupby(attacks, key=lambda attack: attack.group):
        together = list(group)
        for part in ([one for one in together if not one.apart], *([one] for one in together if one.apart)):
            if not part:
                continue
            verdicts = _verdicts(folder, part, sandbox, ordinary)
            if len(part) > 1 and any(verdict.touched or verdict.unfinished for verdict in verdicts):
                verdicts = [_verdicts(folder, [attack], sandbox, ordinary)[0] for attack in part]
            yield from verdicts


def _verdicts(folder: Path, attacks: Sequence[Attack], sandbox: str, ordinary: bool) -> list[Verdict]:
    jobs = 1 if any(attack.apart for attack in attacks) else 2  # a peak is of all that is graded at a time
    seen = _see(folder, attacks, off=(), sandbox=sandbox, ordinary=ordinary, jobs=jobs)
    return [Verdict(attack, Trial(attack.student, seen), sandbox) for attack in attacks]


def _see(
    folder: Path, attacks: Sequence[Attack], *, off: Sequence[str], sandbox: str, ordinary: bool, jobs: int = 1
) -> Seen:
    limit = CLASS_S + ATTACK_S * len(attacks)
    return begin(Class(folder, attacks, off, sandbox, limit, jobs).graded, ordinary=ordinary).wait()
