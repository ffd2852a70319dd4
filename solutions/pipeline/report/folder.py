"""Reading a results folder.

A folder holds these, each written by one stage and each naming the engine and device it was measured on:

    latency.json      {"engine", "model", "data", "rows": [timings by name and batch]}
    throughput.json   {"engine", "rows": [images_per_s by name and batch]}
    accuracy.json     {"engine", "data", "rows": [top-1, top-5 and the loss against FP32, by name]}
    checks.json       {"engine", "rows": [what was checked, measured, allowed, passed]}
    profile.json      {"engine", "rows": [time and bound by layer]}, where a profile was taken
    engines/*.json    how each engine was built, beside it; else "builds" of summary.json

Each also has "settings", "versions" and the date "measured"; what an older file lacks is not known, and shown so.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from helpers.errors import InputError
from helpers.files import read_json
from solutions.pipeline.ran_in import elsewhere
from solutions.pipeline.report.results import (
    AccuracyRow,
    BuildRow,
    CheckRow,
    LayerRow,
    Results,
    Row,
    order_names,
    with_speedup,
)
from solutions.pipeline.stats import TAILS, least_calls

__all__ = ["load_results"]


def load_results(folder: str | Path) -> Results:
    """Read a results folder; a stage whose file is absent is named in `missing`.

    Raises:
        InputError: no such folder, nothing measured in it, a damaged file, or files of two devices.
    """
    folder = Path(folder)
    parts = {part: _read_part(folder, part) for part in ("latency", "throughput", "accuracy", "checks", "profile")}
    present = {part: content for part, content in parts.items() if content is not None}
    if not any(part in present for part in ("latency", "throughput", "accuracy")):
        raise InputError(
            f"{folder} has no latency.json, throughput.json or accuracy.json; measure first: trtlab run --out {folder}"
        )
    engine = _one_engine(folder, present)
    facts = {key: _first(present.values(), key) for key in ("model", "data", "settings", "versions")}
    accuracy = _records(folder, present, "accuracy", AccuracyRow)
    return Results(
        engine=engine,
        model=str(facts["model"] or "not named"),
        data=str(facts["data"] or "not named"),
        rows=_merge(folder, present, accuracy, engine),
        accuracy=accuracy,
        checks=_records(folder, present, "checks", CheckRow),
        layers=_records(folder, present, "profile", LayerRow),
        builds=_builds(folder),
        missing=[part for part, content in parts.items() if content is None],
        settings=facts["settings"] if isinstance(facts["settings"], dict) else {},
        versions=facts["versions"] if isinstance(facts["versions"], dict) else {},
        measured=_dates(present.values()),
    )


def _read_part(folder: Path, part: str) -> dict[str, Any] | None:
    path = folder / f"{part}.json"
    if not path.exists():
        return None
    content = read_json(path, f"{part} record")
    engine = content.get("engine") if isinstance(content, dict) else None
    named = isinstance(engine, dict) and all(isinstance(engine.get(key), str) for key in ("name", "version", "device"))
    if not named:
        raise _damaged(path, 'it has no "engine" with name, version and device')
    if not isinstance(content.get("rows"), list) or not all(isinstance(row, dict) for row in content["rows"]):
        raise _damaged(path, 'it has no list of "rows"')
    return content


def _one_engine(folder: Path, present: dict[str, dict[str, Any]]) -> dict[str, str]:
    engines = {content["engine"]["device"]: part for part, content in present.items()}
    if len(engines) > 1:
        raise InputError(
            f"{folder} mixes measurements of {len(engines)} devices ("
            + "; ".join(f"{part}.json: {device}" for device, part in engines.items())
            + "); numbers of two devices are never compared: run again into a folder of its own"
        )
    return dict(next(iter(present.values()))["engine"])


def _first(contents: Iterable[dict[str, Any]], key: str) -> Any:
    return next((content[key] for content in contents if content.get(key)), None)


def _dates(contents: Iterable[dict[str, Any]]) -> str | None:
    """Return the date of the measurements, or the first and the last of them."""
    dates = sorted({str(content["measured"]) for content in contents if content.get("measured")})
    return " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else None


def _records(folder: Path, present: dict[str, dict[str, Any]], part: str, kind: type) -> list[Any]:
    names = {item.name for item in dataclasses.fields(kind)}
    rows = [{key: row[key] for key in row if key in names} for row in _dicts(folder, present, part)]
    try:
        return [_checked(kind(**row)) for row in rows]
    except (TypeError, ValueError) as error:
        raise _damaged(folder / f"{part}.json", str(error)) from error


def _dicts(folder: Path, present: dict[str, dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return present[part]["rows"] if part in present else []


def _checked(row: Any) -> Any:
    """Refuse a value of the wrong type, so that a damaged file is one clear error and not a strange chart."""
    for item in dataclasses.fields(row):
        value = getattr(row, item.name)
        if not _fits(value, get_args(item.type) or (item.type,), signed=item.name.startswith("loss")):
            raise ValueError(f"{item.name} is {value!r} in the row of {row.name!r}")
    if isinstance(row, Row) and row.batch < 1:
        raise ValueError(f"batch is {row.batch!r} in the row of {row.name!r}")
    return row


def _fits(value: Any, kinds: tuple[type, ...], signed: bool) -> bool:
    """Say whether `value` is of one of `kinds`; a float may be written as an integer, and numbers are finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return isinstance(value, kinds)
    number = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
    return number and math.isfinite(value) and (signed or value >= 0)


def _merge(
    folder: Path, present: dict[str, dict[str, Any]], accuracy: Sequence[AccuracyRow], engine: dict[str, str]
) -> list[Row]:
    """Join latency, throughput and accuracy by name and batch; throughput.json's rate wins over latency.json's."""
    merged: dict[tuple[str, int], Row] = {}
    for part in ("latency", "throughput"):
        for row in _records(folder, present, part, Row):
            known = merged.get((row.name, row.batch), Row(row.name, row.batch))
            found = {key: value for key, value in dataclasses.asdict(row).items() if value is not None}
            if part == "latency":
                found["executions"] = row.iterations
            merged[row.name, row.batch] = dataclasses.replace(known, **found)
    for place, row in merged.items():
        merged[place] = dataclasses.replace(row, elsewhere=elsewhere(engine, row.device), **_too_few(row))
    scores = {score.name: score for score in accuracy}
    rows = [
        dataclasses.replace(row, top1=scores[row.name].top1, top5=scores[row.name].top5) if row.name in scores else row
        for row in merged.values()
    ]
    names = order_names({row.name for row in rows})
    return with_speedup(sorted(rows, key=lambda row: (names.index(row.name), row.batch)))


def _too_few(row: Row) -> dict[str, None]:
    """Return the percentiles that the row's calls cannot give, as None: older files hold them all the same."""
    return {f"p{percent}_ms": None for percent in TAILS if (row.iterations or 0) < least_calls(percent)}


def _builds(folder: Path) -> list[BuildRow]:
    """Return how the engines were built; a record that cannot be read is left out, since no number depends on it.

    A folder that is kept without its engines has them in the summary of its last report.
    """
    rows = {}
    with contextlib.suppress(InputError, KeyError, TypeError):
        rows = {row["name"]: BuildRow(**row) for row in read_json(folder / "summary.json")["builds"]}
    for path in sorted((folder / "engines").glob("*.engine.json")):
        with contextlib.suppress(InputError, KeyError, TypeError, AttributeError, ValueError):
            rows[row.name] = (row := _build(path.name.removesuffix(".engine.json"), read_json(path)))
    return [rows[name] for name in order_names(rows)]


def _build(stem: str, record: dict[str, Any]) -> BuildRow:
    profile, calibration = record["profile"], record["calibration"]
    return BuildRow(
        name=stem.partition("_")[2].replace("_", "-") or stem,
        precision=str(record["precision"]),
        profile="–".join(str(profile[key]) for key in ("min", "opt", "max")),
        layers=int(record["layers"]),
        layer_precisions=", ".join(f"{count} {name}" for name, count in record["layer_precisions"].items()),
        calibration=f"{calibration['calibrator']}, {calibration['images']} images" if calibration else "–",
        seconds=float(record["seconds"]),
    )


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is damaged: {why}; delete it and run trtlab run again")
