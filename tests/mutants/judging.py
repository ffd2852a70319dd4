"""Judges mutants and rewrites with the bank's runner, and keeps what was decided so that it is not decided twice."""

import functools
import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers.course.steps import CELLS
from helpers.tools.files import read_json
from solutions.checks.core.asked import points_of
from tests.mutants.source import todo_cells
from tests.submissions.bank import ROOT, Entry, notebook_cells, patched_cells
from tests.submissions.execution import Outcome, run_all, run_entry

_Part = tuple[Entry, list[tuple[str, ...]]]
"""A variant, and the test cells that are still to judge it, round by round."""

_TIMES = 10
_LEAST_S = 30.0
"""A mutant may run ten times as long as the solution, and at least this: a machine that is busy is no fault."""


@dataclass
class Decision:
    """What became of a variant: `lost` claims, `failed` ones (our own mistake), how it `died`, seconds it took.

    `key` stands for everything that decided: the notebook with the variant in it, and the judging code.
    """

    key: str
    lost: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    died: str = ""
    seconds: float = 0.0
    visible: str = ""

    @property
    def killed(self) -> bool:
        """Whether it lost a claim, or ended without an answer (whatever is not decided earns nothing)."""
        return bool(self.lost or self.died)


def read_decisions(path: Path) -> dict[str, Decision]:
    """Return the decisions kept in a results file, by id; none if there is no file."""
    if not path.is_file():
        return {}
    rows = read_json(path, "results of an earlier run")["decisions"]
    return {name: Decision(**row) for name, row in rows.items()}


def test_cells_after(step: str, cell: str) -> list[str]:
    """Return the test cells with claims that come after a TODO cell of the step, in order."""
    names = [found.metadata.get("nbgrader", {}).get("grade_id") for found in notebook_cells(step)]
    later = names[names.index(cell) :]
    return [name for name in later if name in CELLS and points_of(name)]


def rounds(step: str, cell: str) -> list[tuple[str, ...]]:
    """Return the test cells that judge a TODO cell, cheap ones first: the nearest, then the others, timed ones last."""
    nearest, *others = test_cells_after(step, cell)
    timed = [name for name in others if CELLS[name].timed]
    parts = ((nearest,), tuple(name for name in others if name not in timed), tuple(timed))
    return [part for part in parts if part]


class Judge:
    """Decides variants of TODO cells; `decisions` are known ones, `workers` how many run beside each other."""

    def __init__(self, decisions: dict[str, Decision], workers: int = 2) -> None:
        self.decisions, self.workers = decisions, workers
        self._limits: dict[tuple[str, tuple[str, ...]], float] = {}
        self._locks: dict[tuple[str, tuple[str, ...]], threading.Lock] = defaultdict(threading.Lock)

    def mutants(self, variants: Sequence[Entry]) -> Iterator[tuple[Entry, Decision]]:
        """Decide each, from its nearest test cell on, until a claim is lost; yield it once it is decided."""
        yield from self._decide([(one, rounds(one.step, one.cell)) for one in variants], stop_at_loss=True)

    def rewrites(self, variants: Sequence[Entry], *, everywhere: bool) -> Iterator[tuple[Entry, Decision]]:
        """Decide each on the nearest test cell or, `everywhere`, on all that come after its TODO cell."""
        chosen = [(one, rounds(one.step, one.cell)[: None if everywhere else 1]) for one in variants]
        yield from self._decide(chosen, stop_at_loss=False)

    def _decide(self, chosen: Sequence[_Part], *, stop_at_loss: bool) -> Iterator[tuple[Entry, Decision]]:
        waiting, keys = [], {variant.name: _key(variant, parts) for variant, parts in chosen}
        for variant, parts in chosen:
            known = self.decisions.get(variant.name)
            if known is not None and known.key == keys[variant.name]:
                yield variant, known
            else:
                self.decisions.pop(variant.name, None)
                waiting.append((variant, parts))
        so_far: dict[str, Decision] = {}
        while waiting:
            now = [replace(variant, cells=parts[0]) for variant, parts in waiting]
            left = {variant.name: (variant, parts[1:]) for variant, parts in waiting}
            run = functools.partial(self._run, stop_at_loss=stop_at_loss)
            for entry, outcome in run_all(now, self.workers, run):
                decision = _added(so_far.get(entry.name), entry, outcome)
                so_far[entry.name] = decision
                variant, parts = left[entry.name]
                if not parts or (stop_at_loss and decision.killed):
                    decision.key = keys[variant.name]
                    self.decisions[variant.name] = decision
                    del left[variant.name]
                    yield variant, decision
            waiting = list(left.values())

    def _run(self, entry: Entry, *, stop_at_loss: bool) -> Outcome:
        return run_entry(entry, self._limit(entry), stop_at_loss=stop_at_loss)

    def _limit(self, entry: Entry) -> float:
        """Return the seconds it may take; the solution itself is run first if it was not yet on these cells.

        Raises:
            RuntimeError: the solution loses a claim, so that nothing can be said of its mutants.
        """
        what = entry.cell, entry.cells
        with self._locks[what]:
            if what not in self._limits:
                solution = replace(entry, kind="rewrite", code=todo_cells(entry.step)[entry.cell])
                outcome = run_entry(solution)
                if outcome.lost or outcome.died:
                    raise RuntimeError(f"the solution loses {sorted(outcome.lost)} of {what} {outcome.died}")
                self._limits[what] = max(_LEAST_S, _TIMES * outcome.seconds)
            return self._limits[what]


def _added(before: Decision | None, entry: Entry, outcome: Outcome) -> Decision:
    failed = {name for name in outcome.lost if outcome.claims[name]["status"] == "error"}
    after = before or Decision("")
    after.lost += sorted(outcome.lost - failed)
    after.failed += sorted(failed)
    after.died = after.died or outcome.died
    after.seconds = round(after.seconds + outcome.seconds, 2)
    after.visible += "".join(text for text in outcome.visible.values() if "✗" in text)
    if entry.kind == "rewrite":
        after.visible += "\n".join(outcome.errors)
    return after


def _key(variant: Entry, parts: list[tuple[str, ...]]) -> str:
    sources = [cell.source for cell in patched_cells(variant)]
    return hashlib.sha256("\0".join([_judging_code(), variant.kind, str(parts), *sources]).encode()).hexdigest()[:16]


@functools.cache
def _judging_code() -> str:
    """Return a digest of the code that decides: checks, helpers, and how entries are run."""
    digest = hashlib.sha256()
    for folder in ("helpers", "trtcpu", "trtlab", "solutions"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update((ROOT / "tests" / "submissions" / "execution.py").read_bytes())
    return digest.hexdigest()
