"""What a report must hold, computed from the files it is about, and what a picture file really is."""

import io
import json
import math
from typing import Any

import numpy as np
from PIL import Image

from helpers.missed import Missed
from helpers.probes.measurements import BASELINE, ENGINE_FILES, ONNX_FILE, memory_sizes

__all__ = ["CHARTS", "MEASUREMENTS", "SOURCES", "check_picture", "differences", "expected_report", "parsed"]

CHARTS = ("latency.png", "throughput.png", "speedup.png", "accuracy.png")
MEASUREMENTS = ("latency.json", "throughput.json", "accuracy.json")
SOURCES = (*MEASUREMENTS, ONNX_FILE, *ENGINE_FILES.values())
"""The files that a report is about."""

_LEAST_PIXELS, _MOST_PIXELS = (300, 200), 8000
_LEAST_INK = 0.001


def parsed(content: bytes | None, name: str) -> Any:
    """Return a JSON file's content; raise Missed where it is missing or not JSON."""
    if content is None:
        raise Missed(f"{name}", "no such file", f"write {name} into output_folder")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Missed(f"{name} to be JSON", f"{error}", "write it with json.dumps") from error


def expected_report(files: dict[str, bytes]) -> dict[str, Any]:
    """Return report.json's content for the files of SOURCES; `memory_bytes` holds a set of right values an engine.

    `accuracy_loss` is in percentage points of top-1 below the FP32 engine, `speedup` the ratio of throughputs to
    PyTorch FP32 at the same batch.
    """
    latency, throughput, accuracy = (json.loads(files[name]) for name in MEASUREMENTS)
    rates = _by_batch(throughput["rows"], "images_per_s")
    scores = {row["name"]: {"top1": row["top1"], "top5": row["top5"]} for row in accuracy["rows"]}
    engines = {name: files[file] for name, file in ENGINE_FILES.items()}
    return {
        "engine": latency["engine"],
        "model": latency["model"],
        "sizes_bytes": {"onnx": len(files[ONNX_FILE]), **{name: len(plan) for name, plan in engines.items()}},
        "memory_bytes": {name: memory_sizes(plan) for name, plan in engines.items()},
        "latency_ms": _by_batch(latency["rows"], "median_ms"),
        "throughput": rates,
        "speedup": {
            name: {batch: rate / rates[BASELINE][batch] for batch, rate in series.items()}
            for name, series in rates.items()
        },
        "accuracy": scores,
        "accuracy_loss": {name: scores["fp32"]["top1"] - score["top1"] for name, score in scores.items()},
    }


def _by_batch(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["name"], {})[str(row["batch"])] = row[key]
    return found


def differences(found: Any, expected: Any, where: str, optional: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    """Return (place, expected, found) for every value that is missing or differs; keys that nobody asked for are free.

    Numbers may be rounded to three decimals. A set holds values of which any is right. Keys named in `optional` may be
    left out, but must be right where they are there.
    """
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [(where, f"a dictionary of {', '.join(expected)}", _short(found))]
        lines = []
        for key, value in expected.items():
            if key in found:
                lines += differences(found[key], value, f"{where}[{key!r}]", optional)
            elif key not in optional:
                lines.append((f"{where}[{key!r}]", _short(value), "nothing"))
        return lines
    if isinstance(expected, set):
        right = any(_equal(found, value) for value in expected)
        return [] if right else [(where, " or ".join(_short(value) for value in expected), _short(found))]
    if _equal(found, expected):
        return []
    should, was = _short(expected), _short(found)
    # Two numbers that differ beyond what is usually shown are shown in full.
    return [(where, should, was) if should != was else (where, repr(expected), repr(found))]


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, str) or isinstance(found, (str, bool)) or not isinstance(found, (int, float)):
        return found == expected
    return math.isclose(found, expected, rel_tol=1e-6, abs_tol=6e-4)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"a dictionary of {', '.join(map(str, value))[:60]}" if isinstance(value, dict) else repr(value)[:80]


def check_picture(content: bytes | None, name: str) -> str:
    """Return width × height; raise Missed where the file is missing, no PNG, of no sane size, or blank."""
    if content is None:
        raise Missed(name, "no such file", f"save the figure as {name} into output_folder")
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            width, height = picture.size
            if not (_LEAST_PIXELS[0] <= width <= _MOST_PIXELS and _LEAST_PIXELS[1] <= height <= _MOST_PIXELS):
                raise Missed(
                    f"{name} of {_LEAST_PIXELS[0]} × {_LEAST_PIXELS[1]} to {_MOST_PIXELS} × {_MOST_PIXELS} pixels",
                    f"{width} × {height}",
                    "choose figsize and dpi so that it can be read on a screen",
                )
            gray = np.asarray(picture.convert("RGBA").convert("L"))
    except Missed:
        raise
    except Exception as error:  # PIL has many ways to say that a file is no picture
        raise Missed(f"{name} to open as a PNG", f"{len(content):,} bytes: {error}", "save it with savefig") from error
    ink = 1 - np.bincount(gray.ravel(), minlength=256).max() / gray.size
    if ink < _LEAST_INK:
        raise Missed(f"{name} to show something", "a blank picture", "save the figure before it is closed or shown")
    return f"{name} {width} × {height}"
