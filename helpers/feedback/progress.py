"""`feedback.progress()`: the eight steps, which checks have passed, and which artifacts are there."""

import html
import json
from dataclasses import dataclass

from helpers.errors import LabError
from helpers.files import atomic_write
from helpers.lab import ARTIFACTS, STEPS, artifacts_folder

__all__ = ["CHECKS", "Progress", "progress", "remember"]

CHECKS: dict[str, tuple[str, ...]] = {
    "01_export": ("check_export", "check_simplify"),
    "02_fp16": ("check_fp16_engine",),
    "03_dynamic": ("check_dynamic_engine", "check_saturation"),
    "04_int8": ("check_calibration_dataset", "check_calibrator", "check_int8_engine", "check_int8_calibration"),
    "05_inference": ("check_inference",),
    "06_benchmark": ("check_latency", "check_throughput", "check_measurements"),
    "07_accuracy": ("check_accuracy", "check_accuracy_results"),
    "08_report": ("check_report", "check_charts", "check_analysis"),
}
"""The visible checks of each step, by the names of helpers.feedback."""

_FILE = ".progress.json"


@dataclass(frozen=True)
class Progress:
    """One row a step: (step, checks passed, checks, artifacts there, artifacts)."""

    rows: list[tuple[str, int, int, int, int]]

    def __str__(self) -> str:
        lines = [f"{'step':<14} {'checks':>8} {'artifacts':>10}"]
        for step, passed, checks, there, files in self.rows:
            mark = "✓" if passed == checks else " "
            lines.append(f"{mark} {step:<12} {passed:>4} of {checks} {there:>5} of {files}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'✓' if passed == checks else '○'} {html.escape(step)}</td>"
            f"<td><progress max='{checks}' value='{passed}'></progress> {passed} of {checks}</td>"
            f"<td>{there} of {files}</td></tr>"
            for step, passed, checks, there, files in self.rows
        )
        return f"<table><tr><th>step</th><th>checks passed</th><th>files made</th></tr>{rows}</table>"


def progress() -> Progress:
    """Return the overview of the eight steps, from the checks that passed here and the artifacts folder."""
    passed = _read()
    rows = []
    for step in STEPS:
        names = CHECKS[step]
        files = [name for name, maker in ARTIFACTS.items() if maker == step]
        there = sum((artifacts_folder() / name).is_file() for name in files)
        rows.append((step, sum(name in passed.get(step, ()) for name in names), len(names), there, len(files)))
    return Progress(rows)


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


def _read() -> dict[str, list[str]]:
    try:
        found = json.loads((artifacts_folder() / _FILE).read_text())
        return {step: [str(name) for name in names] for step, names in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
