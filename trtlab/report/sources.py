"""Several sources as one set of results: run folders, bench JSON files and parsed logs, of one machine or of several.

The first source's device is at home. Every other machine has charts of its own, and neither a headline nor a speed-up.
A row says its source where that is of another machine or model, or where an earlier source has a row of its engine.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.report.files import load_file
from trtlab.report.folder import load_results
from trtlab.report.results import NOT_NAMED, Results

MOST_ROWS, MOST_BATCHES = 500, 32
_PARTS = ("found", "scored", "checks", "builds")
_AGAINST_BASELINE = ("loss", "loss_low", "loss_high", "changed")


def load_sources(paths: Sequence[str | Path], device: str | None = None) -> Results:
    """Read every source (a folder or a file) and put them side by side.

    Args:
        device: what logs ran on that do not name their GPU.

    Raises:
        InputError: no source, one is given twice, damaged, or absent; or more rows than a report can show.
    """
    paths = [Path(path) for path in paths]
    twice = [path for path, count in Counter(path.resolve() for path in paths).items() if count > 1]
    if not paths or twice:
        raise InputError(f"--results names {twice[0]} twice; give it once" if twice else "--results names nothing")
    found = [_load(path, device) for path in paths]
    results = found[0] if len(found) == 1 else _beside(found, _labels(paths))
    if len(results.rows) > MOST_ROWS or len(results.batches) > MOST_BATCHES:
        raise InputError(
            f"--results holds {len(results.rows):,} rows of {len(results.batches):,} batch sizes; a report shows at "
            f"most {MOST_ROWS} of {MOST_BATCHES}: give fewer sources, or measure fewer batch sizes"
        )
    return results


def _load(path: Path, device: str | None) -> Results:
    return load_file(path, device) if path.is_file() or path.suffix == ".json" else load_results(path)


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return a short name of each source: its stem, or its whole path where two have one stem."""
    counts = Counter(path.resolve().stem for path in paths)
    return [path.resolve().stem if counts[path.resolve().stem] == 1 else str(path) for path in paths]


def _beside(found: Sequence[Results], labels: Sequence[str]) -> Results:
    home, taken, parts = found[0], set(), {part: [] for part in _PARTS}
    for results, label in zip(found, labels, strict=True):
        named = _named(results, home, label, taken)
        taken |= set(map(_place, named.found))
        for part in _PARTS:
            parts[part] += getattr(named, part)
    return dataclasses.replace(
        home,
        model=_together([results.model for results in found]),
        data=_together([results.data for results in found]),
        missing=[part for part in home.missing if all(part in results.missing for results in found)],
        settings={**home.settings, "sources": ", ".join(labels)},
        **parts,
    )


def _named(results: Results, home: Results, label: str, taken: set[tuple[Any, ...]]) -> Results:
    """Return the results whose rows say their source, where they must; `taken` is what earlier rows are of."""
    machine = results.device if results.device != home.device else None
    other_baseline = results.baseline != home.baseline
    other_model = NOT_NAMED not in (results.model, home.model) and results.model != home.model
    if machine or other_model or not taken.isdisjoint(map(_place, results.found)):
        parts = {
            part: [{**row, "source": row.get("source") or label} for row in getattr(results, part)] for part in _PARTS
        }
        results = dataclasses.replace(results, **parts)
    rows, scored = [{**row, "machine": row.get("machine") or machine} for row in results.found], results.scored
    if machine or other_baseline:  # ratios to something else would read as ratios to home's
        rows = [{**row, "speedup": None} for row in rows]
    if other_baseline:
        scored = [{**row, **dict.fromkeys(_AGAINST_BASELINE)} for row in scored]
    return dataclasses.replace(results, found=rows, scored=scored)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("source") or "", row["engine"], row.get("how"), row["batch"]


def _together(texts: Sequence[str]) -> str:
    named = list(dict.fromkeys(text for text in texts if text != NOT_NAMED))
    return ", ".join(named) or NOT_NAMED
