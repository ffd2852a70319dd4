"""Reading what trtexec exports as JSON: `--exportTimes` (one entry a query) and `--exportProfile` (one a layer)."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from trtcpu.errors import InputError

_OLDER = {"startInMs": "startH2dMs", "endInMs": "endH2dMs", "inMs": "h2dMs", "startOutMs": "startD2hMs"}
_OLDER |= {"endOutMs": "endD2hMs", "outMs": "d2hMs"}
_TIMES = {"latency": "latencyMs", "h2d": "h2dMs", "compute": "computeMs", "d2h": "d2hMs"}
_SPANS = {
    "enqueue": ("startEnqMs", "endEnqMs"),
    "h2d": ("startH2dMs", "endH2dMs"),
    "compute": ("startComputeMs", "endComputeMs"),
    "d2h": ("startD2hMs", "endD2hMs"),
}


def summarise_export(value: Any, source: str = "the JSON file") -> dict[str, Any]:
    """Tell an exportTimes from an exportProfile by its content and summarise it.

    Returns:
        {"format": "trtexec exportTimes", "queries", "throughput_qps", "walltime_s", "latency": {…_ms}, …} or
        {"format": "trtexec exportProfile", "iterations", "total_ms", "layers": [{"name", "time_ms", …}]}.

    Raises:
        InputError: neither of the two, or a figure in it is missing or no number.
    """
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        if "latencyMs" in value[0] or "startComputeMs" in value[0]:
            return _times([{_OLDER.get(key, key): entry[key] for key in entry} for entry in value], source)
        if "count" in value[0]:
            return _profile(value, source)
    raise InputError(
        f"{source} is JSON, but neither an exportTimes (a list of queries with 'latencyMs') nor an exportProfile "
        "(a list that starts with 'count'); give one that trtexec --exportTimes or --exportProfile wrote"
    )


_MOST = 1e15
"""No figure of an export is so large: in milliseconds it is 30,000 years. Its square can still be summed."""


def _number(entry: dict[str, Any], key: str, source: str) -> float:
    found = entry.get(key)
    try:
        number = float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else math.nan
    except OverflowError:
        number = math.nan
    if not abs(number) < _MOST:
        raise InputError(f"{source}: {key!r} should be a number, found {str(found)[:60]!r}; export it again")
    return number


def _times(entries: Sequence[dict[str, Any]], source: str) -> dict[str, Any]:
    ends = [_number(entry, "endD2hMs", source) for entry in entries]
    walltime_ms = max(ends) - min(_number(entry, "startH2dMs", source) for entry in entries)
    if walltime_ms <= 0:
        raise InputError(f"{source}: the last query ends before the first starts; let trtexec write the file again")
    durations = {name: _durations(entries, name, source) for name in ("latency", "h2d", "compute", "d2h")}
    found = {name: _statistics(times) for name, times in durations.items()}
    enqueue = _durations(entries, "enqueue", source) if "startEnqMs" in entries[0] else []
    step = _step_ms(ends)
    told = bool(enqueue) and statistics.median(enqueue) >= _STEPS * step
    return {
        "format": "trtexec exportTimes",
        "queries": len(entries),
        "throughput_qps": len(entries) * 1000 / walltime_ms,
        "walltime_s": walltime_ms / 1000,
        **found,
        "enqueue": _statistics(enqueue) if told else None,
        "notes": [_TOO_COARSE.format(step)] if enqueue and not told else [],
    }


_DIGITS = 6
_STEPS = 10
_TOO_COARSE = "enqueue times are left out: the file has them in steps of {:g} ms only"


def _step_ms(times_ms: list[float]) -> float:
    """Return how far apart the last of the times can be told: trtexec prints six digits; 0 where there are more."""
    if any(float(f"{time:.{_DIGITS}g}") != time for time in times_ms):
        return 0.0
    return 10.0 ** (math.floor(math.log10(max(1e-9, *times_ms))) + 1 - _DIGITS)


def _durations(entries: Sequence[dict[str, Any]], name: str, source: str) -> list[float]:
    if name in _TIMES and all(_TIMES[name] in entry for entry in entries):
        times = [_number(entry, _TIMES[name], source) for entry in entries]
    elif name == "latency":
        parts = [_durations(entries, part, source) for part in ("h2d", "compute", "d2h")]
        times = [sum(part) for part in zip(*parts, strict=True)]
    else:
        start, end = _SPANS[name]
        times = [_number(entry, end, source) - _number(entry, start, source) for entry in entries]
    if min(times) < 0:
        raise InputError(f"{source}: a query's {name} time is negative; let trtexec write the file again")
    return times


def _statistics(times_ms: list[float]) -> dict[str, float]:
    from trtlab.stats import LatencyStats

    stats = LatencyStats.from_ms(times_ms)
    return {key: value for key, value in vars(stats).items() if key != "count"}


def _profile(entries: Sequence[dict[str, Any]], source: str) -> dict[str, Any]:
    iterations = int(_number(entries[0], "count", source))
    layers = [_layer(entry, source) for entry in entries[1:]]
    if not layers:
        raise InputError(f"{source} is an exportProfile without layers; export it again with trtexec --exportProfile")
    return {
        "format": "trtexec exportProfile",
        "iterations": iterations,
        "total_ms": sum(layer["time_ms"] for layer in layers),
        "average_ms": sum(layer["average_ms"] for layer in layers),
        "layers": layers,
        "notes": [],
    }


def _layer(entry: dict[str, Any], source: str) -> dict[str, Any]:
    name = entry.get("name")
    if not isinstance(name, str):
        raise InputError(f"{source}: a layer has no name; let trtexec write the file again")
    layer: dict[str, Any] = {"name": name, "time_ms": _number(entry, "timeMs", source)}
    layer["average_ms"] = _number(entry, "averageMs", source)
    if "medianMs" in entry:
        layer["median_ms"] = _number(entry, "medianMs", source)
    layer["percent"] = _number(entry, "percentage", source)
    return layer
