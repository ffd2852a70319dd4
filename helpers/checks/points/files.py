"""Reads files that a student made, in the place where untrusted files are loaded."""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.probes.loads import loads
from trtcpu.bounded_json import loads as loads_json
from trtcpu.errors import InputError, LabError

_MOST_JSON_BYTES = 4 << 20  # the lab's own files have about 20 kB


def needed(case: Case, name: str, try_this: str) -> bytes:
    """Return an artifact's bytes; raise Missed if it is missing or empty."""
    content = case.artifact(name)
    if not content:
        raise Missed(f"the file {name}", "an empty file" if content == b"" else "no such file", try_this)
    return content


def json_of(case: Case, name: str, try_this: str) -> Any:
    """Return an artifact's JSON content; raise Missed if it is missing or not JSON."""
    try:
        return parsed(needed(case, name, try_this))
    except LabError as error:
        raise Missed(f"valid JSON in {name}", str(error)[:120], try_this) from error


def rows_of(
    case: Case, name: str, numbers: Sequence[str], try_this: str, by: Sequence[str] = ("name",)
) -> tuple[dict[str, Any], dict[Any, dict[str, float]]]:
    """Return a JSON artifact {"rows": [...]}, and its rows' `numbers` by name, or by a tuple of the keys `by`.

    Raises:
        Missed: the file is missing, a row lacks a key, or a value is not a finite number.
    """
    content = json_of(case, name, try_this)
    try:
        rows = {tuple(row[key] for key in by): {key: _finite(row[key]) for key in numbers} for row in content["rows"]}
    except (KeyError, TypeError, ValueError) as error:
        keys = ", ".join([*by, *numbers])
        found = f"{type(error).__name__}: {str(error)[:100]}"
        raise Missed(f'{name} to hold "rows", each with {keys}', found, try_this) from error
    return content, {key[0] if len(by) == 1 else key: row for key, row in rows.items()}


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


@loads
def array_of(content: bytes) -> np.ndarray:
    """Return the array in a .npy file."""
    return np.load(io.BytesIO(content), allow_pickle=False)


@loads
def parsed(content: bytes) -> Any:
    """Return the content of JSON text.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return loads_json(content, largest=_MOST_JSON_BYTES)
    except ValueError as error:
        raise InputError(f"{type(error).__name__}: {str(error)[:100]}") from error
