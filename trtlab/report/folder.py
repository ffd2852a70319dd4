"""Reading a results folder.

A folder holds these, each written by one stage and each naming the engine and device it was measured on:

    latency.json      {"engine", "model", "data", "rows": [timings by name and batch]}
    throughput.json   {"engine", "rows": [images_per_s by name and batch]}
    accuracy.json     {"engine", "data", "rows": [top-1, top-5 and the loss against FP32, by name]}
    checks.json       {"engine", "rows": [what was checked, measured, allowed, passed]}
    profile.json      {"engine", "rows": [time and bound by layer]}, where a profile was taken
    engines/*.json    how each engine was built, beside it; else "builds" of summary.json

throughput.json's figures win: a row that contradicted itself was measured again there, its times too.
Each also has "settings", "versions" and the date "measured"; what an older file lacks is not known, and shown so.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.ran_in import elsewhere
from trtlab.report.records import checked, facts, read, read_engine, records
from trtlab.report.results import (
    NOT_NAMED,
    AccuracyRow,
    BuildRow,
    CheckRow,
    LayerRow,
    Results,
    Row,
    order_names,
    with_speedup,
)
from trtlab.stats import TAILS, least_calls


def load_results(folder: str | Path) -> Results:
    """Read a results folder; a stage whose file is absent is named in `missing`.

    Raises:
        InputError: no such folder, nothing measured in it, a damaged file, or files of two devices.
    """
    folder = Path(folder)
    parts = {part: _read_part(folder, part) for part in ("latency", "throughput", "accuracy", "checks", "profile")}
    present = {part: content for part, content in parts.items() if content is not None}
    if not any(part in present for part in ("latency", "throughput", "accuracy")):
        others = sorted(path for path in folder.glob("*.json") if path.name != "summary.json")
        raise InputError(
            f"{folder} has no latency.json, throughput.json or accuracy.json; measure first: trtlab run --out {folder}"
            + (f"; or name files of bench and parse-log: --results {others[0]}" if others else "")
        )
    engine = _one_engine(folder, present)
    model, data = (_first(present.values(), key) for key in ("model", "data"))
    accuracy = _records(folder, present, "accuracy", AccuracyRow)
    return Results(
        engine=engine,
        model=model,
        data=data,
        rows=_merge(folder, present, accuracy, engine),
        accuracy=accuracy,
        checks=_records(folder, present, "checks", CheckRow),
        layers=_records(folder, present, "profile", LayerRow),
        builds=_builds(folder),
        missing=[part for part, content in parts.items() if content is None],
        **facts(present.values()),
    )


def _read_part(folder: Path, part: str) -> dict[str, Any] | None:
    path = folder / f"{part}.json"
    if not path.exists():
        return None
    content = read(path, f"{part} record")
    read_engine(path, content)
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


def _first(contents: Iterable[dict[str, Any]], key: str) -> str:
    return next((str(content[key]) for content in contents if content.get(key)), NOT_NAMED)


def _records(folder: Path, present: dict[str, dict[str, Any]], part: str, kind: type) -> list[Any]:
    return records(folder / f"{part}.json", present[part]["rows"] if part in present else [], kind)


def _merge(
    folder: Path, present: dict[str, dict[str, Any]], accuracy: Sequence[AccuracyRow], engine: dict[str, str]
) -> list[Row]:
    """Join latency, throughput and accuracy by name and batch; throughput.json's figures win over latency.json's."""
    merged: dict[tuple[str, int], Row] = {}
    for part in ("latency", "throughput"):
        for row in _records(folder, present, part, Row):
            known = merged.get((row.name, row.batch), Row(row.name, row.batch))
            found = {key: value for key, value in dataclasses.asdict(row).items() if value is not None}
            if part == "latency":
                found["executions"] = row.iterations
            merged[row.name, row.batch] = dataclasses.replace(known, **found)
    for place, row in merged.items():
        merged[place] = complete(row, engine)
    scores = {score.name: score for score in accuracy}
    rows = [
        dataclasses.replace(row, top1=scores[row.name].top1, top5=scores[row.name].top5) if row.name in scores else row
        for row in merged.values()
    ]
    names = order_names({row.name for row in rows})
    return with_speedup(sorted(rows, key=lambda row: (names.index(row.name), row.batch)))


def complete(row: Row, engine: dict[str, str]) -> Row:
    """Return the row with where it ran, and without percentiles that its calls cannot give."""
    return dataclasses.replace(row, elsewhere=row.elsewhere or elsewhere(engine, row.device), **_too_few(row))


def _too_few(row: Row) -> dict[str, None]:
    """Return the percentiles that the row's calls cannot give, as None: older files hold them all the same."""
    return {f"p{percent}_ms": None for percent in TAILS if (row.iterations or 0) < least_calls(percent)}


def _builds(folder: Path) -> list[BuildRow]:
    """Return how the engines were built; a record that cannot be read is left out, since no number depends on it.

    A folder that is kept without its engines has them in the summary of its last report.
    """
    rows = {}
    with contextlib.suppress(InputError, KeyError, TypeError, ValueError):
        rows = {row["name"]: checked(BuildRow(**row)) for row in read_json(folder / "summary.json")["builds"]}
    for path in sorted((folder / "engines").glob("*.engine.json")):
        with contextlib.suppress(InputError, KeyError, TypeError, AttributeError, ValueError, OverflowError):
            rows[row.name] = (row := _build(path.name.removesuffix(".engine.json"), read_json(path)))
    return [rows[name] for name in order_names(rows)]


def _build(stem: str, record: dict[str, Any]) -> BuildRow:
    profile, calibration = record["profile"], record["calibration"]
    row = BuildRow(
        name=stem.partition("_")[2].replace("_", "-") or stem,
        precision=str(record["precision"]),
        profile="–".join(str(profile[key]) for key in ("min", "opt", "max")),
        layers=int(record["layers"]),
        layer_precisions=", ".join(f"{count} {name}" for name, count in record["layer_precisions"].items()),
        calibration=_calibration(record, calibration) if calibration else "–",
        seconds=float(record["seconds"]),
    )
    return checked(row)


def _calibration(record: dict[str, Any], calibration: dict[str, Any]) -> str:
    """Return how the scales were found and, of an explicit build, that they stand in the model."""
    said = f"{calibration['calibrator']}, {calibration['images']} images"
    return f"{said}, as Q/DQ" if record.get("typed_onnx") else said
