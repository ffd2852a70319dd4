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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.ran_in import elsewhere
from trtlab.report.records import checked, facts, read, read_engine, records
from trtlab.report.results import BUILD, NOT_NAMED, Results
from trtlab.report.table import place, with_speedups, without_short_tails

NEEDED = {
    "latency": ["batch"],
    "throughput": ["batch"],
    "accuracy": ["top1", "top5", "num_samples"],
    "checks": ["what", "passed"],
    "profile": ["batch", "layer", "layer_type", "precision", "time_ms", "share_percent"],
}
"""The parts of a run, each with what its rows must have."""


def load_results(folder: str | Path) -> Results:
    """Read a results folder; a stage whose file is absent is named in `missing`.

    Raises:
        InputError: no such folder, nothing measured in it, a damaged file, or files of two devices.
    """
    folder = Path(folder)
    present = {part: read(path, f"{part} record") for part in NEEDED if (path := folder / f"{part}.json").exists()}
    if not any(part in present for part in ("latency", "throughput", "accuracy")):
        others = sorted(path for path in folder.glob("*.json") if path.name != "summary.json")
        raise InputError(
            f"{folder} has no latency.json, throughput.json or accuracy.json; measure first: trtlab run --out {folder}"
            + (f"; or name files of bench and parse-log: --results {others[0]}" if others else "")
        )
    engine = _one_engine(folder, present)
    rows = {
        part: records(folder / f"{part}.json", present[part]["rows"] if part in present else [], needed)
        for part, needed in NEEDED.items()
    }
    return Results(
        engine=engine,
        model=_first(present.values(), "model"),
        data=_first(present.values(), "data"),
        found=with_speedups(complete(row, engine) for row in _merged(rows["latency"], rows["throughput"])),
        scored=rows["accuracy"],
        checks=rows["checks"],
        layers=rows["profile"],
        builds=_builds(folder),
        missing=[part for part in NEEDED if part not in present],
        **facts(present.values()),
    )


def _one_engine(folder: Path, present: dict[str, Any]) -> dict[str, str]:
    engines = {part: read_engine(folder / f"{part}.json", content) for part, content in present.items()}
    devices = {engine["device"]: part for part, engine in engines.items()}
    if len(devices) > 1:
        raise InputError(
            f"{folder} mixes measurements of {len(devices)} devices ("
            + "; ".join(f"{part}.json: {device}" for device, part in devices.items())
            + "); numbers of two devices are never compared: run again into a folder of its own"
        )
    return next(iter(engines.values()))


def _first(contents: Iterable[dict[str, Any]], key: str) -> str:
    return next((str(content[key]) for content in contents if content.get(key)), NOT_NAMED)


def _merged(latencies: list[dict[str, Any]], rates: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Join the rows by engine and batch; throughput.json's figures win over latency.json's."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for row in [*({**row, "executions": row.get("iterations")} for row in latencies), *rates]:
        known = merged.setdefault((row["engine"], row["batch"]), {})
        known |= {key: value for key, value in row.items() if value is not None}
    return merged.values()


def complete(row: dict[str, Any], engine: dict[str, str]) -> dict[str, Any]:
    """Return the row with where it ran, and without percentiles that its calls cannot give."""
    away = row.get("elsewhere") or elsewhere(engine, row.get("device"))
    return {**without_short_tails(row), "elsewhere": away}


def _builds(folder: Path) -> list[dict[str, Any]]:
    """Return how the engines were built; a record that cannot be read is left out, since no number depends on it.

    A folder that is kept without its engines has them in the summary of its last report.
    """
    rows = {}
    with contextlib.suppress(InputError, KeyError, TypeError, AttributeError, ValueError):
        rows = {row["name"]: checked(row, BUILD) for row in read_json(folder / "summary.json")["builds"]}
    for path in sorted((folder / "engines").glob("*.engine.json")):
        with contextlib.suppress(InputError, KeyError, TypeError, AttributeError, ValueError, OverflowError):
            row = _build(path.name.removesuffix(".engine.json"), read_json(path))
            rows[row["engine"]] = row
    return sorted(rows.values(), key=lambda row: (place(row["engine"]), row["engine"]))


def _build(stem: str, record: dict[str, Any]) -> dict[str, Any]:
    profile, calibration = record["profile"], record["calibration"]
    row = {
        "name": stem.partition("_")[2].replace("_", "-") or stem,
        "precision": str(record["precision"]),
        "profile": "–".join(str(profile[key]) for key in ("min", "opt", "max")),
        "layers": int(record["layers"]),
        "layer_precisions": ", ".join(f"{count} {name}" for name, count in record["layer_precisions"].items()),
        "calibration": _calibration(record, calibration) if calibration else "–",
        "seconds": float(record["seconds"]),
    }
    return checked(row, BUILD)


def _calibration(record: dict[str, Any], calibration: dict[str, Any]) -> str:
    """Return how the scales were found and, of an explicit build, that they stand in the model."""
    said = f"{calibration['calibrator']}, {calibration['images']} images"
    return f"{said}, as Q/DQ" if record.get("typed_onnx") else said
