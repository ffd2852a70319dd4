"""`feedback.progress()`: the engine found here, and per notebook its points, the checks passed and the files made."""

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path

from helpers.checks.points.rooms import CHECKS
from helpers.course.artifacts import artifacts_folder, notebooks_folder
from helpers.course.steps import ARTIFACTS, NOTEBOOKS, STEPS
from helpers.engine.backend import DEVICE, ENGINE, WHY_CPU
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError, LabError

_FILE = ".progress.json"
_OPTIONAL = "optional: bonus points beside the 100"


@dataclass(frozen=True)
class Row:
    """One notebook. `title`, `points` and `notebook`, its path from the current folder, are there where it is."""

    step: str
    passed: int
    checks: int
    there: int
    files: int
    title: str = ""
    points: float | None = None
    notebook: str = ""

    @property
    def done(self) -> bool:
        """Whether every check passed, where there are any."""
        return 0 < self.checks == self.passed

    @property
    def optional(self) -> bool:
        """Whether its points are a bonus, or it has none."""
        return self.step not in STEPS


@dataclass(frozen=True)
class Progress:
    """The engine in use, and a row per notebook. `_repr_html_` is Jupyter's hook, `str()` the plain form."""

    engine: str
    rows: list[Row]

    def __str__(self) -> str:
        lines = [self.engine, f"{'step':<25} {'points':>7} {'checks':>8} {'files':>8}"]
        for row in self.rows:
            if row.optional and _OPTIONAL not in lines:
                lines.append(_OPTIONAL)
            points = "" if row.points is None else f"{row.points:g}"
            mark = "✓" if row.done else " "
            checks, files = f"{row.passed} of {row.checks}", f"{row.there} of {row.files}"
            lines.append(f"{mark} {row.step:<23} {points:>7} {checks:>8} {files:>8}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [_html_row(row) for row in self.rows]
        place = next((number for number, row in enumerate(self.rows) if row.optional), len(rows))
        if self.rows[place:]:
            rows.insert(place, f"<tr><th></th><th style='text-align:left' colspan='4'>{_OPTIONAL}</th></tr>")
        names = "<th style='text-align:left'>step</th><th>points</th><th>checks passed</th><th>files made</th>"
        return f"<p>{html.escape(self.engine)}</p><table><tr><th></th>{names}</tr>{''.join(rows)}</table>"


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


def _about(path: Path) -> tuple[str, float | None, str]:
    """Return a notebook's title, its points and its path from the current folder; empty where it cannot be read."""
    from helpers.course.handout import read_notebook  # a second of imports, which no check needs

    try:
        cells = read_notebook(path).cells
        about = [cell.metadata.get("nbgrader", {}) for cell in cells]
        points = sum(float(label.get("points", 0)) for label in about if label.get("grade"))
        title = cells[0].source.splitlines()[0].lstrip("# ")
    except (InputError, IndexError, TypeError, ValueError, AttributeError):
        return "", None, ""
    return title, points, os.path.relpath(path)


def _html_row(row: Row) -> str:
    bar = f"<progress max='{row.checks}' value='{row.passed}'></progress> {row.passed} of {row.checks}"
    return (
        f"<tr><td>{'✓' if row.done else '○'}</td><td style='text-align:left'>{_link(row)}</td>"
        f"<td>{'' if row.points is None else f'{row.points:g}'}</td>"
        f"<td>{bar if row.checks else ''}</td><td>{row.there} of {row.files}</td></tr>"
    )


def _link(row: Row) -> str:
    title = html.escape(row.title or row.step)
    return f"<a href='{html.escape(row.notebook)}'>{title}</a>" if row.notebook else title


def _read() -> dict[str, list[str]]:
    try:
        found = json.loads((artifacts_folder() / _FILE).read_text())
        return {step: [str(name) for name in names] for step, names in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
