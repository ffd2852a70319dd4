"""Reading a results folder; a value of the wrong type or size is one clear error and not a strange chart.

A folder holds these, each written by one stage and each naming the engine and device it was measured on:

    latency.json      {"engine", "model", "data", "rows": [timings by name and batch]}
    throughput.json   {"engine", "rows": [images_per_s by name and batch]}
    accuracy.json     {"engine", "data", "rows": [top-1, top-5 and the loss against FP32, by name]}
    checks.json       {"engine", "rows": [what was checked, measured, allowed, passed]}
    profile.json      {"engine", "rows": [time and bound by layer]}, if a profile was taken
    engines/*.json    how each engine was built, beside it; else "builds" of summary.json

throughput.json's figures win: a row that contradicted itself was measured again there, its times too.
Each also has "settings", "versions" and the date "measured"; what an older file lacks is not known, and shown so.
"""

import contextlib
import json
import reprlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.ran_in import elsewhere
from trtlab.report.results import BUILD, COUNTS, NOT_NAMED, SCORES, TIMES, Results, place, with_speedups
from trtlab.stats import TAILS, least_calls

# The parts of a run, each with what its rows must have.
NEEDED = {
    "latency": ["batch"],
    "throughput": ["batch"],
    "accuracy": ["top1", "top5", "num_samples"],
    "checks": ["what", "passed"],
    "profile": ["batch", "layer", "layer_type", "precision", "time_ms", "share_percent"],
}


def load_results(folder: str | Path) -> Results:
    """Read a results folder; a stage whose file is absent is named in `missing`.

    Raises:
        InputError: no such folder, nothing measured in it, a damaged file, or files of two devices.
    """
    folder = Path(folder)
    present = {part: read(path, f"{part} record") for part in NEEDED if (path := folder / f"{part}.json").exists()}
    if not any(part in present for part in ("latency", "throughput", "accuracy")):
        raise InputError(
            f"{folder} has no latency.json, throughput.json or accuracy.json; measure first: trtlab run --out {folder}"
            "; or name a file of trtlab bench --output or parse-log"
        )
    engine = _one_engine(folder, present)
    rows = {
        part: records(folder / f"{part}.json", present[part]["rows"] if part in present else [], needed)
        for part, needed in NEEDED.items()
    }
    return Results(
        engine=engine,
        found=with_speedups(complete(row, engine) for row in _merged(rows["latency"], rows["throughput"])),
        scored=rows["accuracy"],
        checks=rows["checks"],
        layers=rows["profile"],
        builds=_builds(folder),
        missing=[part for part in NEEDED if part not in present],
        **facts(list(present.values())),
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


def _merged(latencies: list[dict[str, Any]], rates: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Join the rows by engine and batch; throughput.json's figures win over latency.json's."""
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for row in [*latencies, *rates]:
        merged.setdefault((row["engine"], row["batch"]), {}).update(row)
    return merged.values()


def complete(row: dict[str, Any], engine: dict[str, str]) -> dict[str, Any]:
    """Return the row with where it ran, and without percentiles that its calls cannot give: older files hold them.

    A throughput that does not say its executions is that of the calls.
    """
    calls = row.get("iterations") or 0
    return {
        **row,
        **{f"p{percent}_ms": None for percent in TAILS if calls < least_calls(percent)},
        "executions": row.get("executions") or row.get("iterations"),
        "elsewhere": row.get("elsewhere") or elsewhere(engine, row.get("device")),
    }


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
    """Return the row of a build; of an explicit one it says that the scales stand in the model."""
    profile, calibration = record["profile"], record["calibration"]
    batches = [profile[key] for key in ("min", "opt", "max")]
    scales = f"{calibration['calibrator']}, {calibration['images']} images" if calibration else "–"
    row = {
        "name": stem.partition("_")[2].replace("_", "-") or stem,
        "precision": str(record["precision"]),
        "profile": "–".join(map(str, batches)) + _tuned(record.get("inputs", []), batches),
        "layers": int(record["layers"]),
        "layer_precisions": ", ".join(f"{count} {name}" for name, count in record["layer_precisions"].items()),
        "calibration": scales + ", as Q/DQ" * bool(calibration and record.get("typed_onnx")),
        "seconds": float(record["seconds"]),
    }
    return checked(row, BUILD)


def _tuned(inputs: Iterable[Mapping[str, Any]], batches: list[int]) -> str:
    """Return the shapes that the engine was tuned for and timed at where more than the batch varies: " at ids Nx16"."""
    said = []
    for each in inputs:
        least, best, most = (each[key] for key in ("min", "opt", "max"))
        batch = [*least[:1], *best[:1], *most[:1]] == batches
        if least[batch:] != most[batch:]:
            said.append(f"{each['name']} {'x'.join(map(str, ['N'] * batch + best[batch:]))}")
    return " at " * bool(said) + ", ".join(said)


_MOST = 1e15
# No number that was measured lies outside of these; of other numbers outside of 0 to 1e15.
_BOUNDS = {
    **dict.fromkeys(("mean_ms", "median_ms", "images_per_s"), (1e-9, _MOST)),
    **dict.fromkeys(("loss", "loss_low", "loss_high"), (-_MOST, _MOST)),
    **dict.fromkeys(("value", "limit"), (0, sys.float_info.max)),
    "batch": (1, _MOST),
}
_LONGEST_NAME = 200

# Every key of a row that is read, with its types; other keys are left out.
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys("name source how device elsewhere machine precision ran_in what message".split(), (str,)),
    **dict.fromkeys("layer layer_type bound profile layer_precisions calibration".split(), (str,)),
    **dict.fromkeys([*TIMES, "images_per_s", "speedup", *SCORES, "value", "limit", "seconds"], (int, float)),
    **dict.fromkeys(["time_ms", "share_percent", "intensity", "roof_percent"], (int, float)),
    **dict.fromkeys([*COUNTS, "layers"], (int,)),
    "passed": (bool,),
}


def read(path: Path, what: str) -> Any:
    """Return the content of a JSON file of measurements; `what` names its role.

    Raises:
        InputError: it cannot be read, is not JSON, or has text that no file can hold.
    """
    content = read_json(path, what)
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it has text that cannot be written") from error
    return content


def read_engine(path: Path, content: Any) -> dict[str, str]:
    """Return the engine that a file of measurements names, after a look at its form.

    Raises:
        InputError: no engine with name, version and device, or no list of rows.
    """
    engine = content.get("engine") if isinstance(content, dict) else None
    named = isinstance(engine, dict) and all(isinstance(engine.get(key), str) for key in ("name", "version", "device"))
    if not named:
        raise damaged(path, 'it has no "engine" with name, version and device')
    if not isinstance(content.get("rows"), list) or not all(isinstance(row, dict) for row in content["rows"]):
        raise damaged(path, 'it has no list of "rows"')
    return dict(engine)


def records(path: Path, rows: Iterable[Mapping[str, Any]], needed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the rows with the keys of FIELDS; their name is that of an `engine`.

    Raises:
        InputError: a value of `needed` is missing, of the wrong type, or no number that can have been measured.
    """
    try:
        return [checked(row, needed) for row in rows]
    except ValueError as error:
        raise damaged(path, str(error)) from error


def checked(row: Mapping[str, Any], needed: Collection[str] = ()) -> dict[str, Any]:
    """Return the row.

    Raises:
        ValueError: a value is missing, of the wrong type or out of bounds; it names the field.
    """
    found = {key: row.get(key) for key in FIELDS if row.get(key) is not None or key in ("name", *needed)}
    name = reprlib.repr(found["name"])
    for key, value in found.items():
        least, most = _BOUNDS.get(key, (0, _MOST))
        if type(value) not in FIELDS[key] or not (isinstance(value, (str, bool)) or least <= value <= most):
            raise ValueError(f"{key} is {reprlib.repr(value)} in the row of {name}")
    if not (found["name"].isprintable() and 0 < len(found["name"].strip()) <= _LONGEST_NAME):
        raise ValueError(f"a name should be printable and at most {_LONGEST_NAME} long, found {name}")
    return {"engine": found.pop("name"), **found}


def facts(contents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the files say of the whole run: "measured", first to last date, and of the first that has them
    "model", "data", "settings" and "versions".
    """
    first = {key: value for content in reversed(contents) for key, value in content.items() if value}
    dates = sorted({str(content["measured"]) for content in contents if content.get("measured")})
    return {
        **{key: str(first.get(key, NOT_NAMED)) for key in ("model", "data")},
        **{key: first[key] if isinstance(first.get(key), dict) else {} for key in ("settings", "versions")},
        "measured": " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else None,
    }


def damaged(path: Path, why: str) -> InputError:
    """Return the error for a file of measurements that cannot be used."""
    return InputError(f"{path} is damaged: {why}; delete it and measure again")
