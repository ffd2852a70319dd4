"""Several sources as one set of results: run folders, bench JSON files and parsed logs, of one machine or of several.

The first source's device is at home. Rows of every other device ran elsewhere: they have charts of their own, and
neither a headline nor a speed-up. Where two sources have a row of one engine, it says what it is from.
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
from trtlab.report.results import BESIDE, NOT_NAMED, Results

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
    home = found[0]
    words = _machine_words([results.device for results in found])
    taken: set[tuple[Any, ...]] = set()
    guests = []
    for results, label in zip(found, labels, strict=True):
        guest = _named(results, home, words[results.device], label, taken)
        taken |= {_place(row) for row in guest.found}
        guests.append(guest)
    parts = {part: [row for guest in guests for row in getattr(guest, part)] for part in _PARTS}
    return dataclasses.replace(
        home,
        model=_together([results.model for results in found]),
        data=_together([results.data for results in found]),
        missing=[part for part in home.missing if all(part in results.missing for results in found)],
        settings={**home.settings, "sources": ", ".join(labels)},
        **parts,
    )


def _named(results: Results, home: Results, machine: str, label: str, taken: set[tuple[Any, ...]]) -> Results:
    """Return the results whose rows say what they are from; what ran on another device than `home` ran elsewhere.

    `taken` is what rows of earlier sources are of: such a row says the `label` of its source as well.
    """
    other = results.device != home.device
    other_model = NOT_NAMED not in (results.model, home.model) and results.model != home.model
    words = [machine] * other + [results.model] * other_model
    if any(_place({**row, "source": _source(row, words)}) in taken for row in results.found):
        words.append(label)
    rows = [{**row, "source": _source(row, words)} for row in results.found]
    rows = [_away(row, results.device) for row in rows] if other else rows
    sources = {row["engine"]: row["source"] for row in rows}
    parts = {
        part: [{**row, "source": sources.get(row["engine"], ", ".join(words))} for row in getattr(results, part)]
        for part in _PARTS[1:]
    }
    if results.baseline != home.baseline:  # ratios to something else would read as ratios to home's
        rows = [{**row, "speedup": None} for row in rows]
        parts["scored"] = [{**row, **dict.fromkeys(_AGAINST_BASELINE)} for row in parts["scored"]]
    return dataclasses.replace(results, found=rows, **parts)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["source"], row["engine"], row.get("how"), row["batch"]


def _source(row: dict[str, Any], words: Sequence[str]) -> str:
    """Return what the row is from; a CPU beside a GPU is another device than the GPU."""
    beside = f"{row['elsewhere'].partition(',')[0]}{BESIDE}" if row.get("elsewhere") and words else ""
    return ", ".join([*filter(None, [row.get("source")]), *([beside + words[0], *words[1:]] if words else [])])


def _away(row: dict[str, Any], device: str) -> dict[str, Any]:
    where = f"{row['elsewhere']}, beside {device}" if row.get("elsewhere") else device
    return {**row, "elsewhere": where, "speedup": None}


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
