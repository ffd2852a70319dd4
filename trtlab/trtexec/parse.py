"""What `trtlab parse-log` does: turn any file that trtexec (or trtlab bench) wrote into one JSON object.

Beside logs trtexec exports JSON: `--exportTimes` (one entry a query) and `--exportProfile` (one a layer).
"""

import json
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError
from trtlab.stats import LatencyStats
from trtlab.trtexec.log import LogRun, parse_log_text, read_text

_ALWAYS = ("latency", "enqueue", "h2d", "compute", "d2h")
_OURS = ("model", "logged_batch", "given_batch", "traced")
_FULL = ("fp32", "tf32")
_LOWER = ("fp16", "bf16", "int8", "fp8", "int4")
_SOURCE = re.compile(r"--(?:onnx|deploy|uff)=(\S+)")
_NO_BATCH = "how many images a query had is not said, so images/s is open: give --batch"

_OLDER = {"startInMs": "startH2dMs", "inMs": "h2dMs", "endOutMs": "endD2hMs", "outMs": "d2hMs"}
_TIMES = {"latency": "latencyMs", "h2d": "h2dMs", "compute": "computeMs", "d2h": "d2hMs"}
_LAYER = {"time_ms": "timeMs", "average_ms": "averageMs", "median_ms": "medianMs", "percent": "percentage"}
_MOST = 1e15  # no figure is so large: in milliseconds it is 30,000 years; its square can still be summed
_DIGITS = 6  # those that trtexec prints of a time
_STEPS = 10  # an enqueue time is told if it is at least so many of the steps that the file's times have


def parse_file(
    path: str | Path,
    model: str | None = None,
    precision: str | None = None,
    batch: int | None = None,
    number: int | None = None,
) -> dict[str, Any]:
    """Read a log, an exportTimes or an exportProfile (told apart by content) and describe the run it holds.

    Of several summaries in one log the last that agrees with `batch`, `precision` and `model` is taken, or the one with
    this `number`, counted from 1; `notes` says so. What is not given is taken from the log, and None if a log does
    not say it. Without a batch images/s is None.

    Raises:
        InputError: the file cannot be read, is none of the three, or is cut off; what was given contradicts the log.
    """
    text, source = read_text(path), str(path)
    if exports := _exports(text, source):
        summary = summarise_export(_numbered(exports, number, source), source)
        notes = summary.pop("notes")
        if len(exports) > 1:
            notes.append(_one_of(exports, number or len(exports)))
        if "throughput_qps" in summary:
            summary["images_per_s"] = None if batch is None else summary["throughput_qps"] * batch
            notes += [] if batch else [_NO_BATCH]
        return {"source": source, "model": model, "precision": precision, "batch": batch, **summary, "notes": notes}
    runs = parse_log_text(text, source)
    run = _chosen(runs, model, precision, batch) if number is None else _numbered(runs, number, source)
    _check(run, source, precision, batch)
    taken, notes = batch or run.batch, list(run.warnings)
    if len(runs) > 1:
        found = [run.said["model"], run.said["logged_precision"], f"batch {run.batch}" if run.batch else None]
        what = ", ".join(part for part in found if part) or "no model, precision or batch is logged"
        place = next(place for place, each in enumerate(runs, 1) if each is run)
        notes.append(_one_of(runs, place, f": {what}"))
    return {
        "source": source,
        "model": model or _model(run),
        "precision": precision or _as_precision(_allowed(run)),
        "batch": taken,
        "format": "trtexec log",
        **{key: value for key, value in run.said.items() if key not in _OURS},
        "queries": run.said["traced"] and run.said["traced"] // (run.implicit_batch or 1),
        "images_per_s": taken and run.said["throughput_qps"] * (1 if run.implicit_batch else taken),
        **dict.fromkeys(_ALWAYS),
        **run.metrics,
        "notes": notes + _about_the_batch(run, batch),
    }


def _exports(text: str, source: str) -> list[Any]:
    """Return the JSON of each run in the text; none when it is no JSON (a log's lines start with `[` as well)."""
    found, rest = [], text.lstrip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError) as error:
            if not found:
                return []
            raise InputError(f"{source}: JSON of {len(found)} runs, and then {rest[:40]!r}; export it again") from error
        found.append(value)
        rest = rest[end:].lstrip()
    return found


def _numbered(runs: list[Any], number: int | None, source: str) -> Any:
    """Return the run with this number, counted from 1; else the last."""
    if number is not None and not 1 <= number <= len(runs):
        raise InputError(f"--run {number}: {source} holds {len(runs)} runs; give 1 to {len(runs)}")
    return runs[(number or len(runs)) - 1]


def _one_of(runs: list[Any], number: int, what: str = "") -> str:
    return f"the file holds {len(runs)} runs; this is number {number}{what} (--run takes another)"


def _chosen(runs: list[LogRun], model: str | None, precision: str | None, batch: int | None) -> LogRun:
    """Return the last run that agrees best: first by its batch, then by its precision, then by its model."""

    def agreement(run: LogRun) -> tuple[bool, bool, bool]:
        return (
            batch is None or run.batch in (None, batch),
            precision is None or "+".join(_allowed(run)) == precision.lower(),
            model is None or model in (run.said["model"] or ""),
        )

    return max(reversed(runs), key=agreement)


def _about_the_batch(run: LogRun, given: int | None) -> list[str]:
    """Say what was taken as the batch if a first dimension may not be one."""
    inputs = ", ".join(f"{name} {shape}" for name, shape in run.shapes.items())
    if given is None and run.batch is None:
        return [f"{_NO_BATCH} (inputs: {inputs})" if inputs else _NO_BATCH]
    if run.is_sure_of_its_batch or run.batch == given:
        return []
    return [f"batch {given or run.batch} {'was given' if given else 'is the first dimension'}; inputs: {inputs}"]


def _check(run: LogRun, source: str, precision: str | None, batch: int | None) -> None:
    """Raise InputError if the batch or the precision that was given is not the log's."""
    if batch is not None and run.batch not in (None, batch) and run.is_sure_of_its_batch:
        raise InputError(f"--batch {batch} contradicts {source}: batch {run.batch} ran there; leave out --batch")
    allowed = _allowed(run)
    if precision is None or not allowed:
        return
    asked = precision.lower().split("+")
    lower, full = set(asked) - {*_FULL}, set(allowed) <= {*_FULL}
    if lower <= {*_LOWER} and (not lower <= {*allowed} or not lower and not full):
        raise InputError(
            f"--precision {precision} contradicts {source}: it says {'+'.join(allowed).upper()}; leave out --precision"
        )


def _allowed(run: LogRun) -> list[str]:
    """Return the precisions that the build was allowed, as logged or asked for by flags; none if neither says it.

    A run that loads an engine logs defaults, which say nothing.
    """
    command, logged = run.said["command"] or "", run.said["logged_precision"]
    if "--loadEngine" in command:
        return []
    flags = [name for name in _LOWER if re.search(rf"--{name}(?!\S)", command)]
    return logged.lower().split("+") if logged else ["fp32", *flags] if flags else []


def _as_precision(allowed: list[str]) -> str | None:
    """Return fp32 and fp16 as our own names say it: "fp16"."""
    lower = sorted((name for name in allowed if name not in _FULL), key=lambda name: name != "int8")
    return "+".join(lower or allowed) or None


def _model(run: LogRun) -> str | None:
    given = _SOURCE.search(run.said["command"] or "")
    model = run.said["model"] or (given[1].strip("'\"") if given else None)
    return Path(model).stem if model else None


def summarise_export(value: Any, source: str = "the JSON file") -> dict[str, Any]:
    """Tell an exportTimes from an exportProfile by its content and summarise it.

    Returns:
        {"format": "trtexec exportTimes", "queries", "throughput_qps", "walltime_s", "latency": {…_ms}, …} or
        {"format": "trtexec exportProfile", "iterations", "total_ms", "layers": [{"name", "time_ms", …}]}.

    Raises:
        InputError: neither of the two, or a figure in it is missing or no number.
    """
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        if "latencyMs" in value[0]:
            return _times([{_OLDER.get(key, key): entry[key] for key in entry} for entry in value], source)
        if "count" in value[0]:
            return _profile(value, source)
    raise InputError(
        f"{source} is JSON, but neither an exportTimes (a list of queries with 'latencyMs') nor an exportProfile "
        "(a list that starts with 'count'); give one that trtexec --exportTimes or --exportProfile wrote"
    )


def _number(entry: dict[str, Any], key: str, source: str) -> float:
    found = entry.get(key)
    if type(found) not in (int, float) or not abs(found) < _MOST:
        raise InputError(f"{source}: {key!r} should be a number, found {str(found)[:60]!r}; export it again")
    return float(found)


def _times(entries: Sequence[dict[str, Any]], source: str) -> dict[str, Any]:
    enqueued = ("startEnqMs", "endEnqMs") if "startEnqMs" in entries[0] else ()
    keys = (*_TIMES.values(), "startH2dMs", "endD2hMs", *enqueued)
    columns = {key: [_number(entry, key, source) for entry in entries] for key in keys}
    enqueue = [end - start for start, end in zip(*(columns[key] for key in enqueued), strict=True)]
    walltime_ms = max(columns["endD2hMs"]) - min(columns["startH2dMs"])
    if walltime_ms <= 0 or min(*enqueue, *(min(columns[key]) for key in _TIMES.values())) < 0:
        raise InputError(f"{source}: a query ends before it starts; let trtexec write the file again")
    step = _step_ms(columns["endD2hMs"])
    is_told = bool(enqueue) and statistics.median(enqueue) >= _STEPS * step
    note = f"enqueue times are left out: the file has them in steps of {step:g} ms only"
    return {
        "format": "trtexec exportTimes",
        "queries": len(entries),
        "throughput_qps": len(entries) * 1000 / walltime_ms,
        "walltime_s": walltime_ms / 1000,
        **{name: _statistics(columns[key]) for name, key in _TIMES.items()},
        "enqueue": _statistics(enqueue) if is_told else None,
        "notes": [note] if enqueue and not is_told else [],
    }


def _step_ms(times_ms: list[float]) -> float:
    """Return how far apart the last of the times can be told; 0 if there are more digits than trtexec prints."""
    if any(float(f"{time:.{_DIGITS}g}") != time for time in times_ms):
        return 0.0
    return 10.0 ** (math.floor(math.log10(max(1e-9, *times_ms))) + 1 - _DIGITS)


def _statistics(times_ms: list[float]) -> dict[str, float]:
    return {key: value for key, value in vars(LatencyStats.from_ms(times_ms)).items() if key != "count"}


def _profile(entries: Sequence[dict[str, Any]], source: str) -> dict[str, Any]:
    first, *layers = entries
    if not layers or not all(isinstance(layer.get("name"), str) for layer in layers):
        raise InputError(f"{source} is an exportProfile without layers' names; export it again with --exportProfile")
    rows = []
    for layer in layers:
        there = {name: key for name, key in _LAYER.items() if key in layer or key != "medianMs"}
        rows.append({"name": layer["name"], **{name: _number(layer, key, source) for name, key in there.items()}})
    return {
        "format": "trtexec exportProfile",
        "iterations": int(_number(first, "count", source)),
        "total_ms": sum(row["time_ms"] for row in rows),
        "average_ms": sum(row["average_ms"] for row in rows),
        "layers": rows,
        "notes": [],
    }
