"""Rows of a JSON file as data classes; a value of the wrong type or size is one clear error and not a strange chart."""

import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.report.results import CheckRow, Row

MOST = 1e15
LEAST = 1e-9
"""No time, rate, size or count that was measured is larger, no time or rate smaller; an error can be of any size."""
_ABOVE_0 = ("mean_ms", "median_ms", "images_per_s")
_LONGEST_NAME = 200

Kind = TypeVar("Kind")


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


def records(path: Path, rows: Iterable[dict[str, Any]], kind: type[Kind]) -> list[Kind]:
    """Return the rows as `kind`; keys that it does not know are left out.

    Raises:
        InputError: a value is missing, of the wrong type, or no number that can have been measured.
    """
    names = {item.name for item in dataclasses.fields(kind)}
    try:
        return [checked(kind(**{key: row[key] for key in row if key in names})) for row in rows]
    except (TypeError, ValueError) as error:
        raise damaged(path, str(error)) from error


def checked(row: Kind) -> Kind:
    """Return the row.

    Raises:
        ValueError: a value is of the wrong type or out of bounds; it names the field.
    """
    for item in dataclasses.fields(row):
        value = getattr(row, item.name)
        limits = (LEAST if item.name in _ABOVE_0 else 0.0, sys.float_info.max if isinstance(row, CheckRow) else MOST)
        if not _fits(value, get_args(item.type) or (item.type,), limits, signed=item.name.startswith("loss")):
            raise ValueError(f"{item.name} is {shortened(value)} in the row of {shortened(row.name)}")
    if not (row.name.isprintable() and 0 < len(row.name.strip()) <= _LONGEST_NAME):
        raise ValueError(f"a name should be printable and at most {_LONGEST_NAME} long, found {shortened(row.name)}")
    if isinstance(row, Row) and row.batch < 1:
        raise ValueError(f"batch is {row.batch!r} in the row of {shortened(row.name)}")
    return row


def _fits(value: Any, kinds: tuple[type, ...], limits: tuple[float, float], signed: bool) -> bool:
    """Say whether `value` is of one of `kinds` and can have been measured; a float may be written as an integer."""
    if isinstance(value, bool):
        return bool in kinds
    if not isinstance(value, (int, float)):
        return isinstance(value, kinds)
    if not (isinstance(value, kinds) or (float in kinds and isinstance(value, int))):
        return False
    least, most = limits
    return least <= (abs(value) if signed else value) <= most


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
