"""`feedback.progress()`: the engine in use, and each notebook's points, passed checks and files."""

import json
import os
from pathlib import Path

from helpers.checks.card import Card, Line
from helpers.checks.points.rooms import CHECKS
from helpers.course.artifacts import artifacts_folder, notebooks_folder
from helpers.course.steps import ARTIFACTS, NOTEBOOKS, STEPS
from helpers.engine.backend import DEVICE, ENGINE, WHY_CPU
from helpers.tools.files import atomic_write
from trtcpu.errors import InputError, LabError

_FILE = ".progress.json"


def progress() -> Card:
    """Return the engine found here, each notebook's points, passed checks and files, and which step comes next."""
    engine = f"Real TensorRT: {DEVICE}" if ENGINE == "tensorrt" else f"No GPU in use: {DEVICE}"
    why = f". TensorRT is installed and not used: {WHY_CPU}" if WHY_CPU else ""
    lines = {step: _line(step) for step in NOTEBOOKS}
    left = [lines[step].title for step in STEPS if not lines[step].ok]
    following = f"Next: {left[0]}" if left else "All steps are done: hand in your notebooks"
    return Card(engine + why, [*lines.values()], following)


def _line(step: str) -> Line:
    """Return a notebook's line; points outside the 100 are a bonus."""
    title, points, path = _about(notebooks_folder() / step / f"{step}.ipynb")
    names = [name for name, check in CHECKS.items() if check.step == step]
    files = [artifacts_folder() / name for name, maker in ARTIFACTS.items() if maker == step]
    passed, there = sum(name in _read().get(step, ()) for name in names), sum(file.is_file() for file in files)
    counts = f"{passed} of {len(names)} checks passed, {there} of {len(files)} files made"
    worth = f"{points:g} {'bonus ' * (step not in STEPS)}points" if points else ""
    return Line(0 < passed == len(names) or None, title or step, counts, points=worth, link=path)


def remember(step: str, check: str, ok: bool) -> None:
    """Note whether a check passed. If the folder cannot be written to, only the overview suffers, not the check."""
    passed = _read()
    names = set(passed.get(step, ())) - {check} | ({check} if ok else set())
    try:
        folder = artifacts_folder()
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / _FILE, json.dumps({**passed, step: sorted(names)}, indent=1))
    except (OSError, LabError):
        pass


def _about(path: Path) -> tuple[str, float, str]:
    """Return a notebook's title, its points and its path from the current folder; empty if it cannot be read."""
    from helpers.course.handout import read_notebook  # takes a second to import, and no check needs it

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
