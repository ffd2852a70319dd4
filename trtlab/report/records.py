"""Rows of a JSON file, checked; a value of the wrong type or size is one clear error and not a strange chart."""

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.report.table import COUNTS, SCORES, TIMES

MOST = 1e15
LEAST = 1e-9
"""No time, rate, size or count that was measured is larger, no time or rate smaller; an error can be of any size."""
_ABOVE_0 = ("mean_ms", "median_ms", "images_per_s")
_OF_ANY_SIZE = ("value", "limit")
_LONGEST_NAME = 200

_WORDS = ["name", "source", "how", "device", "elsewhere", "machine", "precision", "ran_in", "what", "message"]
_WORDS += ["layer", "layer_type", "bound", "profile", "layer_precisions", "calibration"]
_FLOATS = [*TIMES, "images_per_s", "speedup", *SCORES, *_OF_ANY_SIZE]
_FLOATS += ["time_ms", "share_percent", "intensity", "roof_percent", "seconds"]
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_WORDS, (str,)),
    **dict.fromkeys(_FLOATS, (int, float)),
    **dict.fromkeys([*COUNTS, "layers"], (int,)),
    "passed": (bool,),
}
"""Every key of a row that is read, with its types; other keys are left out."""


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
    name = found.pop("name")
    for key, value in {"name": name, **found}.items():
        if not _fits(key, value):
            raise ValueError(f"{key} is {shortened(value)} in the row of {shortened(name)}")
    if not (name.isprintable() and 0 < len(name.strip()) <= _LONGEST_NAME):
        raise ValueError(f"a name should be printable and at most {_LONGEST_NAME} long, found {shortened(name)}")
    return {"engine": name, **found}


def _fits(key: str, value: Any) -> bool:
    """Say whether a value is of its key's types and can have been measured."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return type(value) in FIELDS[key]
    least = LEAST if key in _ABOVE_0 else 1 if key == "batch" else 0
    most = sys.float_info.max if key in _OF_ANY_SIZE else MOST
    size = abs(value) if key.startswith("loss") else value
    return type(value) in FIELDS[key] and least <= size <= most


def shortened(value: Any) -> str:
    """Return how Python writes the value, with its end left out where that is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(text)} characters)"


def facts(contents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return "settings", "versions" (each from the first file that has them) and "measured", first to last date."""
    contents = list(contents)
    found = {key: [content[key] for content in contents if content.get(key)] for key in ("settings", "versions")}
    dates = sorted({str(content["measured"]) for content in contents if content.get("measured")})
    return {
        **{key: values[0] if values and isinstance(values[0], dict) else {} for key, values in found.items()},
        "measured": " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else None,
    }


def damaged(path: Path, why: str) -> InputError:
    """Return the error for a file of measurements that cannot be used."""
    return InputError(f"{path} is damaged: {why}; delete it and measure again")
