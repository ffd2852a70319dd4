"""Files that a student made, read where strangers' files are loaded."""

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

_MOST_JSON_BYTES = 4 << 20  # the lab's own take some 20 kB


def needed(case: Case, name: str, try_this: str) -> bytes:
    """Return an artifact's bytes; raise Missed where it is not there, or empty."""
    content = case.artifact(name)
    if not content:
        raise Missed(f"{name} among the artifacts", "an empty file" if content == b"" else "no such file", try_this)
    return content


def json_of(case: Case, name: str, try_this: str) -> Any:
    """Return what an artifact holds as JSON; raise Missed where it is not there, or is no JSON."""
    try:
        return parsed(needed(case, name, try_this))
    except LabError as error:
        raise Missed(f"{name} to be JSON", str(error)[:120], try_this) from error


def rows_of(
    case: Case, name: str, numbers: Sequence[str], try_this: str, by: Sequence[str] = ("name",)
) -> tuple[dict[str, Any], dict[Any, dict[str, float]]]:
    """Return a JSON artifact {"rows": [...]}, and its rows by name (by several keys: a tuple), each with its `numbers`.

    Raises:
        Missed: there is no such file, or a row lacks a key, or its value there is no finite number.
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
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


@loads
def array_of(content: bytes) -> np.ndarray:
    """Return the array that a .npy file holds."""
    return np.load(io.BytesIO(content), allow_pickle=False)


@loads
def parsed(content: bytes) -> Any:
    """Return what JSON text holds.

    Raises:
        InputError: it is none.
    """
    try:
        return loads_json(content, largest=_MOST_JSON_BYTES)
    except ValueError as error:
        raise InputError(f"{type(error).__name__}: {str(error)[:100]}") from error
