"""`feedback.progress()`: the engine found here, and per notebook its points, the checks passed and the files made."""

import html
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from helpers.checks.points.rooms import CHECKS
from helpers.course.artifacts import artifacts_folder, notebooks_folder
from helpers.course.steps import ARTIFACTS, NOTEBOOKS, STEPS
from helpers.engine.backend import DEVICE, ENGINE, WHY_CPU
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError, LabError

_FILE = ".progress.json"
_HEAD = ("", "step", "points", "checks passed", "files made")


@dataclass(frozen=True)
class Row:
    """One notebook. `title`, `points` and `notebook`, its path from the current folder, are there where it is."""

    step: str
    passed: int
    checks: int
    there: int
    files: int
    title: str = ""
    points: float = 0.0
    notebook: str = ""

    @property
    def done(self) -> bool:
        """Whether every check passed, where there are any."""
        return 0 < self.checks == self.passed

    def cells(self, name: str) -> tuple[str, ...]:
        """Return what the overview shows of it; points beside the 100 are a bonus."""
        worth = f"{self.points:g}{' bonus' * (self.step not in STEPS)}" if self.points else ""
        counts = f"{self.passed} of {self.checks}", f"{self.there} of {self.files}"
        return ("✓" if self.done else "", name, worth, *counts)

    @property
    def link(self) -> str:
        """Its title in HTML, as a link to the notebook where that is there."""
        title = html.escape(self.title or self.step)
        return f"<a href='{html.escape(self.notebook)}'>{title}</a>" if self.notebook else title


@dataclass(frozen=True)
class Progress:
    """The engine in use, and a row per notebook. `_repr_html_` is Jupyter's hook, `str()` the plain form."""

    engine: str
    rows: list[Row]

    def __str__(self) -> str:
        table = [_HEAD, *(row.cells(row.step) for row in self.rows)]
        lines = [
            f"{done:1} {step:<27} {worth:>9} {checks:>14} {files:>11}" for done, step, worth, checks, files in table
        ]
        return "\n".join([self.engine, *lines])

    def _repr_html_(self) -> str:
        rows = [_html_row("th", _HEAD), *(_html_row("td", row.cells(row.link)) for row in self.rows)]
        return f"<p>{html.escape(self.engine)}</p><table>{''.join(rows)}</table>"


def _html_row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag} style=text-align:left>{text}</{tag}>' for text in texts)}</tr>"


def progress() -> Progress:
    """Return the overview of all notebooks, from the checks that passed here, the artifacts and the notebooks."""
    passed, folder, notebooks = _read(), artifacts_folder(), notebooks_folder()
    rows = []
    for step in NOTEBOOKS:
        names = [name for name, check in CHECKS.items() if check.step == step]
        files = [name for name, maker in ARTIFACTS.items() if maker == step]
        there = sum((folder / name).is_file() for name in files)
        done = sum(name in passed.get(step, ()) for name in names)
        rows.append(Row(step, done, len(names), there, len(files), *_about(notebooks / step / f"{step}.ipynb")))
    engine = f"Real TensorRT: {DEVICE}" if ENGINE == "tensorrt" else f"No GPU in use: {DEVICE}"
    why = f". TensorRT is installed and not used: {WHY_CPU}" if WHY_CPU else ""
    return Progress(engine + why, rows)


def remember(step: str, check: str, ok: bool) -> None:
    """Note whether a check passed. A folder that cannot be written to costs the overview only, never the check."""
    passed = _read()
    names = set(passed.get(step, ())) - {check} | ({check} if ok else set())
    try:
        folder = artifacts_folder()
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / _FILE, json.dumps({**passed, step: sorted(names)}, indent=1))
    except (OSError, LabError):
        pass


def _about(path: Path) -> tuple[str, float, str]:
    """Return a notebook's title, its points and its path from the current folder; empty where it cannot be read."""
    from helpers.course.handout import read_notebook  # a second of imports, which no check needs

    try:
        cells = read_notebook(path).cells
        about = [cell.metadata.get("nbgrader", {}) for cell in cells]
        points = sum(float(label.get("points", 0)) for label in about if label.get("grade"))
        title = cells[0].source.splitlines()[0].lstrip("# ")
    except (InputError, IndexError, TypeError, ValueError, AttributeError):
        return "", 0.0, ""
    return title, points, os.path.relpath(path)


def _read() -> dict[str, list[str]]:
    try:
        found = json.loads((artifacts_folder() / _FILE).read_text())
        return {step: [str(name) for name in names] for step, names in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
