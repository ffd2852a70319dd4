"""Single files of measurements: what `trtlab bench --output` wrote, and what `trtlab parse-log` made of a log.

    bench        {"engine", "rows": [timings and images_per_s by name and batch]}
    parsed log   {"format", "precision", "batch", "gpu", "latency": {"mean_ms", …}, "images_per_s", "queries", …}

The summary.json of a run is of the first form, and so one file is enough to take a run to another machine.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.report.folder import complete
from trtlab.report.records import damaged, facts, read, read_engine, records, shortened
from trtlab.report.results import NOT_NAMED, Results
from trtlab.report.table import TIMES, with_speedups

_STREAMS = re.compile(r"--(?:infStreams|streams)[= ](\d{1,4})\b")


def load_file(path: str | Path, device: str | None = None) -> Results:
    """Read a bench JSON or a parsed log, told apart by content.

    Args:
        device: what a log ran on that does not name its GPU.

    Raises:
        InputError: the file is neither, or is damaged.
    """
    path = Path(path)
    try:
        content = read(path, "file of measurements")
    except InputError as error:
        raise InputError(f"{error}; a log of trtexec is read by trtlab parse-log first") from error
    if isinstance(content, dict) and "rows" in content:
        return _bench(path, content)
    if isinstance(content, dict) and "format" in content and "latency" in content:
        return _parsed(path, content, device)
    profile = isinstance(content, dict) and "layers" in content
    raise InputError(
        f"{path} is no JSON of trtlab bench --output, nor what trtlab parse-log makes of a log or an exportTimes"
        + (": it has the times of layers" if profile else "")
        + "; write one of these first, or give a run's folder"
    )


def _bench(path: Path, content: dict[str, Any]) -> Results:
    engine = read_engine(path, content)
    if any("batch" not in row or "layer" in row for row in content["rows"]):
        raise InputError(f"{path} has rows that are no times by engine and batch; give the folder that it lies in")
    rows = [complete(_counted(row), engine) for row in records(path, content["rows"], ["batch"])]
    if not rows:
        raise InputError(f"{path} has no rows; measure first: trtlab bench --output {path}")
    _refuse_twins(path, rows)
    named = {key: str(content.get(key) or NOT_NAMED) for key in ("model", "data")}
    return _results(engine, rows, **named, **facts([content]))


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with as many executions as calls, where its throughput is that of the calls."""
    return {**row, "executions": row.get("executions") or row.get("iterations")}


def _refuse_twins(path: Path, rows: list[dict[str, Any]]) -> None:
    of = Counter((row["engine"], row.get("how"), row.get("source"), row["batch"]) for row in rows)
    engine, *_, batch = place = max(of, key=of.__getitem__)
    if of[place] > 1:
        raise damaged(path, f"it has two rows of {shortened(engine)} at batch {batch}")


def _parsed(path: Path, content: dict[str, Any], device: str | None) -> Results:
    if content.get("batch") is None:
        raise InputError(f"{path} does not say how many images a query had; read the log again with --batch")
    times = content["latency"] if isinstance(content["latency"], dict) else {}
    precision = content.get("precision") or content.get("logged_precision")
    values = {"batch": content["batch"], "images_per_s": content.get("images_per_s") or None}
    values |= {key: times.get(key) for key in TIMES}
    if not (values["images_per_s"] or values["median_ms"] or values["mean_ms"]):
        raise InputError(f"{path} has neither a latency nor a throughput; give the whole log to trtlab parse-log again")
    name = precision.lower() if isinstance(precision, str) else path.stem
    told = {"name": name, "precision": precision, "streams": _streams(content), "iterations": content.get("queries")}
    (row,) = records(path, [{**values, **told}], ["batch"])
    engine = _engine(path, content, device)
    calls = row.get("iterations") or _calls(row, content.get("total_host_walltime_s"))
    row |= {"iterations": calls, "executions": calls, "device": engine["device"]}
    return _results(engine, [complete(row, engine)], str(content.get("model") or NOT_NAMED), NOT_NAMED)


def _streams(content: dict[str, Any]) -> Any:
    """Return how many streams ran at once, as the JSON or trtexec's command line says, else None."""
    if content.get("streams") is not None:
        return content["streams"]
    found = _STREAMS.search(str(content.get("command") or ""))
    return int(found[1]) or None if found else None


def _calls(row: dict[str, Any], seconds: Any) -> int | None:
    """Return how many queries must have run in `seconds`; an excerpt of a log may not say it."""
    known = isinstance(seconds, (int, float)) and 0 < seconds < 1e9 and row.get("images_per_s")
    return round(row["images_per_s"] * seconds / row["batch"]) or None if known else None


def _engine(path: Path, content: dict[str, Any], device: str | None) -> dict[str, str]:
    """Return the engine as backend.describe() names one; a log of trtlab bench has the whole device as GPU."""
    version, gpu = (str(content.get(key) or "") for key in ("tensorrt_version", "gpu"))
    if ", " not in gpu and gpu:
        gpu = f"TensorRT {version}, {gpu}" if version else f"TensorRT, {gpu}"
    where = gpu or device or f"TensorRT, machine of {path.stem} (not named there; --device names it)"
    return {"name": "tensorrt" if where.startswith("TensorRT") else "cpu", "version": version, "device": where}


def _results(engine: dict[str, str], rows: list[dict[str, Any]], model: str, data: str, **about: Any) -> Results:
    there = {
        "latency": any(row.get("median_ms") or row.get("mean_ms") for row in rows),
        "throughput": any(row.get("images_per_s") for row in rows),
    }
    missing = [part for part, found in there.items() if not found] + ["accuracy", "checks", "profile"]
    rows = rows if any(row.get("speedup") for row in rows) else with_speedups(rows)
    return Results(engine, model, data, rows, missing=missing, **about)
