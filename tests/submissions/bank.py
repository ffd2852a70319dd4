"""Reads the bank: one YAML file a step, each entry a patch to one TODO cell of that step's solution notebook."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbgrader.preprocessors import ClearSolutions

from helpers.course.steps import CELLS, GRADED
from helpers.engine.backend import API, ENGINE
from solutions.checks.core.asked import points_of

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = Path(__file__).parent
_QUICK_CELLS = {"evaluate_accuracy", "report_charts", "report_numbers", "analysis_figures"}
_BY_A_SIMULATED_CLOCK = {"benchmark_latency", "benchmark_throughput"}
_AFTER_THE_ENGINE = {"images_per_second", "saturation"}
_BUILDING = "\n\nbuild_both_engines()"
"""Step 3's tasks that leave its engine as the solution builds it, and what builds it. The CPU engine always compiles
the same network from it: there the reference's engine is lent, and need not be timed against itself."""

_ENGINES = ("cpu", "tensorrt")
_APIS = (10, 11)
_KEYS = {"name", "about", "engine", "api", "cell", "replace", "code", "before", "loses", "cells"}


@dataclass(frozen=True)
class Entry:
    """One entry. `loses` are exactly the claims that are not kept; None means every claim that is looked at.

    `kind` is wrong, right, solution (the notebook as it is) or skeleton (every TODO unfilled); the last two are made
    here, for every step. tests/mutants makes the kinds mutant and rewrite. `cells` are the test cells to run; empty
    means all of the step's. `before` is code that makes artifacts of earlier steps, as this student handed them in.
    `api` is the version of TensorRT's API that it is written for.
    """

    step: str
    name: str
    kind: str
    about: str = ""
    cell: str = ""
    replace: dict[str, str] = field(default_factory=dict)
    code: str = ""
    loses: tuple[str, ...] | None = ()
    cells: tuple[str, ...] = ()
    api: int = API
    before: str = ""

    @property
    def title(self) -> str:
        """Step and name, for tables and test ids."""
        return f"{self.step}/{self.name}"

    @property
    def graded(self) -> tuple[str, ...]:
        """The test cells to run; none that a person grades."""
        return self.cells or tuple(cell for cell, about in CELLS.items() if about.step == self.step and points_of(cell))

    @property
    def timed(self) -> bool:
        """Whether a test cell measures time, so that nothing may run beside it."""
        if self.lent_its_engine:
            return False
        return any(CELLS[cell].timed for cell in self.graded if cell not in _BY_A_SIMULATED_CLOCK)

    @property
    def lent_its_engine(self) -> bool:
        """Whether it gets the reference's engine instead of building the solution's, which would be the same."""
        return ENGINE == "cpu" and self.cell in _AFTER_THE_ENGINE

    @property
    def quick(self) -> bool:
        """Whether it is decided in seconds: its test cells need no engine of the lab's model."""
        return set(self.graded) <= _QUICK_CELLS


def load_bank(step: str | None = None, *, extremes: bool = True) -> list[Entry]:
    """Return the bank's entries for this engine in order; with `extremes`, each step's solution and skeleton first.

    Those for another API are among them on the CPU engine, which speaks both; real TensorRT has the one of its version.

    Raises:
        ValueError: an entry with an unknown key, engine or API, a name that is taken, or neither `replace` nor `code`.
    """
    found: list[Entry] = []
    for path in sorted(_FOLDER.glob("*.yaml")):
        if path.stem not in GRADED or step not in (None, path.stem):
            continue
        if extremes:
            found.append(Entry(path.stem, "solution", "solution", "The notebook as it is."))
            found.append(Entry(path.stem, "skeleton", "skeleton", "Every TODO unfilled.", loses=None))
        raws = yaml.safe_load(path.read_text()) or []
        entries = [(_entry(path, raw), raw.get("engine", ENGINE)) for raw in raws]
        found += [entry for entry, engine in entries if engine == ENGINE and (engine == "cpu" or entry.api == API)]
    titles = [entry.title for entry in found]
    if len(set(titles)) != len(titles):
        raise ValueError(f"names used twice: {sorted({title for title in titles if titles.count(title) > 1})}")
    return found


def covering(entries: Sequence[Entry]) -> list[Entry]:
    """Return a part of `entries` in which each claim that a wrong one loses is lost once, and all other kinds.

    In the bank's order, the first that loses what none before it does.
    """
    lost: set[str] = set()
    chosen = []
    for entry in entries:
        new = set(entry.loses or ()) - lost if entry.kind == "wrong" else {entry.name}
        if new:
            chosen.append(entry)
            lost |= new
    return chosen


def sampled(entries: Sequence[Entry], number: int, seed: int) -> list[Entry]:
    """Return `number` of each step's entries, or all if there are fewer, in the bank's order: a part drawn from `seed`.

    A third are right where there are as many; solution and skeleton count as right and wrong.
    """
    draws, chosen = random.Random(seed), set()
    for step in dict.fromkeys(entry.step for entry in entries):
        of_step = [entry for entry in entries if entry.step == step]
        shuffled = draws.sample(of_step, len(of_step))
        right = [entry for entry in shuffled if entry.loses == ()][: -(-number // 3)]
        wrong = [entry for entry in shuffled if entry.loses != ()][: number - len(right)]
        chosen |= {entry.title for entry in right + wrong}
    return [entry for entry in entries if entry.title in chosen]


def _entry(path: Path, raw: dict[str, Any]) -> Entry:
    unknown = set(raw) - _KEYS
    given = [key for key in ("replace", "code", "before") if raw.get(key)]
    if unknown or not given or {"replace", "code"} <= set(given):
        raise ValueError(f"{path.name}, {raw.get('name')}: give replace, code or before; unknown keys: {unknown}")
    if raw.get("engine", ENGINE) not in _ENGINES:
        raise ValueError(f"{path.name}, {raw['name']}: engine is {raw['engine']!r}; choose {' or '.join(_ENGINES)}")
    if raw.get("api", API) not in _APIS:
        raise ValueError(f"{path.name}, {raw['name']}: api is {raw['api']!r}; choose {' or '.join(map(str, _APIS))}")
    loses = tuple(raw["loses"])
    return Entry(
        path.stem,
        raw["name"],
        "wrong" if loses else "right",
        raw["about"],
        raw["cell"],
        raw.get("replace") or {},
        raw.get("code") or "",
        loses,
        tuple(raw.get("cells") or ()),
        raw.get("api", API),
        raw.get("before") or "",
    )


def notebook_cells(step: str, *, filled: bool = True) -> list[nbformat.NotebookNode]:
    """Return the code cells of a step's solution notebook; not `filled`, its TODO cells as a student gets them."""
    notebook = nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4)
    if not filled:
        notebook, _ = ClearSolutions().preprocess(notebook, {})
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def patched_cells(entry: Entry, *, lent: bool = True) -> list[nbformat.NotebookNode]:
    """Return the step's code cells with the entry's patch; with `lent`, without what builds an engine that is lent.

    Raises:
        ValueError: the cell, or a text to replace, is not there.
    """
    cells = notebook_cells(entry.step, filled=entry.kind != "skeleton")
    if entry.cell:
        cell = next((c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == entry.cell), None)
        if cell is None:
            raise ValueError(f"{entry.title}: no cell {entry.cell} in {entry.step}")
        cell.source = entry.code or _replaced(entry, cell.source)
    if lent and entry.lent_its_engine:
        for cell in cells:
            cell.source = cell.source.removesuffix(_BUILDING)
    return cells


def _replaced(entry: Entry, source: str) -> str:
    for old, new in entry.replace.items():
        if old not in source:
            raise ValueError(f"{entry.title}: cell {entry.cell} does not hold {old!r}")
        source = source.replace(old, new)
    return source
