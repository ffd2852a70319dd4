"""Several sources as one set of results: run folders, bench JSON files and parsed logs, of one machine or of several.

The first source's device is at home. Rows of every other device ran elsewhere: they have axes of their own, and neither
a headline nor a speed-up. Where two sources have a row of one name, the name says what it is from.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.report.files import load_file
from trtlab.report.folder import load_results
from trtlab.report.results import NOT_NAMED, AccuracyRow, Results, Row, marked, order_names

MOST_ROWS, MOST_BATCHES = 500, 32


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
    home = found[0]
    words = _machine_words([results.device for results in found])
    taken: set[tuple[str, int]] = set()
    guests = []
    for results, label in zip(found, labels, strict=True):
        guest = _renamed(results, home, words[results.device], label, taken)
        taken |= {(row.name, row.batch) for row in guest.rows}
        guests.append(guest)
    rows = [row for guest in guests for row in guest.rows]
    names = order_names({row.name for row in rows})
    return dataclasses.replace(
        home,
        model=_together([results.model for results in found]),
        data=_together([results.data for results in found]),
        rows=sorted(rows, key=lambda row: (names.index(row.name), row.batch)),
        accuracy=[score for guest in guests for score in guest.accuracy],
        checks=[check for guest in guests for check in guest.checks],
        builds=[build for guest in guests for build in guest.builds],
        missing=[part for part in home.missing if all(part in results.missing for results in found)],
        settings={**home.settings, "sources": ", ".join(labels)},
    )


def _renamed(results: Results, home: Results, machine: str, label: str, taken: set[tuple[str, int]]) -> Results:
    """Return the results with names that no row has yet; what ran on another device than `home` ran elsewhere."""
    other = results.device != home.device
    other_model = NOT_NAMED not in (results.model, home.model) and results.model != home.model
    words = [machine] * other + [results.model] * other_model
    names = {row.name: _name(row, words) for row in results.rows}
    if any((names[row.name], row.batch) in taken for row in results.rows):
        names = {row.name: _name(row, [*words, label]) for row in results.rows}
    rows = [_away(row, results.device) if other else row for row in results.rows]
    rows = [_named(row, names[row.name]) for row in rows]
    if results.baseline != home.baseline:  # ratios to something else would read as ratios to home's
        rows = [dataclasses.replace(row, speedup=None) for row in rows]
        results = dataclasses.replace(results, accuracy=[_without_loss(score) for score in results.accuracy])
    parts = {
        part: [_named(item, names.get(item.name, _marked(item.name, words))) for item in getattr(results, part)]
        for part in ("accuracy", "checks", "builds")
    }
    return dataclasses.replace(results, rows=rows, **parts)


def _name(row: Row, words: Sequence[str]) -> str:
    """Return the row's name with what it is from; a CPU beside a GPU is another device than the GPU."""
    beside = f"{row.elsewhere.partition(',')[0]} beside " if row.elsewhere and words else ""
    return _marked(row.name, [beside + words[0], *words[1:]] if words else [])


def _marked(name: str, words: Sequence[str]) -> str:
    return marked(name, ", ".join(words)) if words else name


def _named(item: Any, name: str) -> Any:
    return dataclasses.replace(item, name=name)


def _away(row: Row, device: str) -> Row:
    where = f"{row.elsewhere}, beside {device}" if row.elsewhere else device
    return dataclasses.replace(row, elsewhere=where, speedup=None)


def _without_loss(score: AccuracyRow) -> AccuracyRow:
    return dataclasses.replace(score, loss=None, loss_low=None, loss_high=None, changed=None)


def _machine_words(devices: Sequence[str]) -> dict[str, str]:
    """Return a few words for each device: its processor's name, or all of it where two devices have one name."""
    short = {device: _processor(device) for device in devices}
    counts = Counter(short.values())
    return {device: words if counts[words] == 1 else device for device, words in short.items()}


def _processor(device: str) -> str:
    """Return "NVIDIA H200" of "TensorRT 8.6.0, NVIDIA H200", and a CPU engine's processor without its features."""
    parts = device.split(", ", 2 if device.startswith("CPU engine, OpenVINO") else 1)
    return re.sub(r" \(.*", "", parts[-1])


def _together(texts: Sequence[str]) -> str:
    named = list(dict.fromkeys(text for text in texts if text != NOT_NAMED))
    return ", ".join(named) or NOT_NAMED
