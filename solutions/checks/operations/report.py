"""Runs a student's report builder and analysis on files and reports that they have never seen."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.files import write_json
from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.figures import drawn_as, recorded_figures
from helpers.probes.measurements import EARLIER

__all__ = ["about_report", "build_report"]

_MOST_BYTES = 30_000_000


@operation
def build_report(submission: Submission, *, files: dict[str, bytes], made: list[str]) -> dict[str, Any]:
    """Call `build_report(artifacts_folder, output_folder)` on a folder that holds `files`, beside an older report.json.

    Returns `returned` (as JSON would hold it; None where it cannot), `returned_type`, `files` (the bytes of those of
    `made` that were written) and `figures` (what matplotlib drew into each PNG; None where it did not draw it).
    """
    build = submission["build_report"]
    with tempfile.TemporaryDirectory() as folder, recorded_figures() as drawn:
        source, target = Path(folder) / "artifacts", Path(folder) / "report"
        source.mkdir()
        target.mkdir()
        for name, content in files.items():
            (source / name).write_bytes(content)
        write_json(target / "report.json", EARLIER)
        earlier = (target / "report.json").read_bytes()
        returned = build(source, target)
        figures = {name: drawn_as(drawn, target / name) for name in made if name.endswith(".png")}
        written = {name: _content(target / name) for name in made}
        return {
            "returned": _as_json(returned),
            "returned_type": type(returned).__name__,
            "files": {name: content if content != earlier else None for name, content in written.items()},
            "figures": {name: _facts(found) for name, found in figures.items()},
        }


@operation
def about_report(submission: Submission, *, function: str, report: dict[str, Any]) -> Any:
    """Return what `function(report)` gives, as JSON would hold it; text stays text."""
    returned = submission[function](report)
    return returned if isinstance(returned, str) else _as_json(returned)


def _content(path: Path) -> bytes | None:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return None
    return path.read_bytes()


def _facts(drawn: Any) -> dict[str, Any] | None:
    if drawn is None:
        return None
    facts = asdict(drawn)
    return _lists(facts) | {"series": [_lists(series) for series in facts["series"]]}


def _lists(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _as_json(value: Any) -> Any:
    """Return the value after a round trip through JSON, so that 8 and "8" are one key; None where there is no way."""
    try:
        return json.loads(json.dumps(value, default=lambda number: number.item()))
    except (TypeError, ValueError, AttributeError):
        return None
