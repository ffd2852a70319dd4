"""Reading what trtexec exports as JSON: `--exportTimes` (one entry a query) and `--exportProfile` (one a layer)."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from trtcpu.errors import InputError
from trtlab.stats import LatencyStats

_OLDER = {"startInMs": "startH2dMs", "inMs": "h2dMs", "endOutMs": "endD2hMs", "outMs": "d2hMs"}
_TIMES = {"latency": "latencyMs", "h2d": "h2dMs", "compute": "computeMs", "d2h": "d2hMs"}
_LAYER = {"time_ms": "timeMs", "average_ms": "averageMs", "median_ms": "medianMs", "percent": "percentage"}
_MOST = 1e15  # no figure is so large: in milliseconds it is 30,000 years; its square can still be summed
_DIGITS = 6  # those that trtexec prints of a time
_STEPS = 10  # an enqueue time is told where it is at least so many of the steps that the file's times have


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
    keys = [*_TIMES.values(), "startH2dMs", "endD2hMs"]
    if "startEnqMs" in entries[0]:
        keys += ["startEnqMs", "endEnqMs"]
    columns = {key: [_number(entry, key, source) for entry in entries] for key in keys}
    spans = zip(columns.get("startEnqMs", ()), columns.get("endEnqMs", ()), strict=True)
    enqueue = [end - start for start, end in spans]
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
    """Return how far apart the last of the times can be told; 0 where there are more digits than trtexec prints."""
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
