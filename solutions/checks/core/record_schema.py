"""The valid content of a test cell's record: a JSON schema, and rules that a schema cannot express."""

import json
from pathlib import Path
from typing import Any, NoReturn

from helpers.tools.files import read_regular
from trtcpu.errors import InputError

LARGEST_BYTES = 1 << 20
"""Largest size of a record; real ones have a few kilobytes."""

LONGEST_TEXT = 4_000
"""Most characters of an evidence, or of a line of a message."""

_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_TEXT = {"type": "string", "maxLength": LONGEST_TEXT}
_POINTS = {"type": "number", "minimum": 0, "maximum": 100}

_MISSED = {
    "type": ["object", "null"],
    "properties": {"expected": _TEXT, "found": _TEXT, "try_this": _TEXT},
    "required": ["expected", "found", "try_this"],
    "additionalProperties": False,
}
_RESULT = {
    "type": "object",
    "properties": {
        "claim": _NAME,
        "title": _NAME,
        "points": _POINTS,
        "earned": _POINTS,
        "status": {"enum": ["kept", "partial", "lost", "error"]},
        "evidence": _TEXT,
        "missed": _MISSED,
        "seconds": {"type": "number", "minimum": 0, "maximum": 1e6},
    },
    "required": ["claim", "title", "points", "earned", "status"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What became of the claims of a test cell",
    "type": "object",
    "properties": {
        "cell": _NAME,
        "step": _NAME,
        "criterion": _NAME,
        "engine": _NAME,
        "points": _POINTS,
        "results": {"type": "array", "items": _RESULT, "maxItems": 200},
        "api": {"enum": [10, 11]},
        "sandbox": {"enum": ["bubblewrap", "landlock", "none"]},
        "earned": _POINTS,
    },
    "required": ["cell", "step", "criterion", "engine", "points", "results"],
    "additionalProperties": False,
}
_ROUNDING = 0.006


def read_checked(path: str | Path) -> dict[str, Any]:
    """Return a record's content, if it is valid.

    Raises:
        InputError: it is missing, a link, a pipe, too large, not JSON, or not valid.
    """
    found = checked_json(path, SCHEMA, "grading record", LARGEST_BYTES)
    if found["cell"] != Path(path).stem:
        _refuse(path, f"it is of the cell {found['cell']!r}")
    if (earned := sum(result["earned"] for result in found["results"])) > found["points"] + _ROUNDING:
        _refuse(path, f"its claims earned {earned:g} of {found['points']:g} points")
    return found


def checked_json(path: str | Path, schema: dict[str, Any], what: str, largest: int) -> Any:
    """Return the JSON in an untrusted file, if `schema` allows it.

    Raises:
        InputError: it is missing, a link, a pipe, larger than `largest` bytes, not JSON, or not allowed.
    """
    from jsonschema import Draft202012Validator  # not needed to write records

    data = read_regular(path, largest, what)
    try:
        found = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the {what} {path} is not JSON: {str(error)[:120]}; grade the step again") from error
    fault = next(Draft202012Validator(schema).iter_errors(found), None)
    if fault is not None:
        _refuse(path, f"{'.'.join(map(str, fault.absolute_path)) or 'it'}: {fault.message[:160]}", what)
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _refuse(path: str | Path, fault: str, what: str = "grading record") -> NoReturn:
    raise InputError(f"the {what} {path} is refused: {fault}; grade the step again")
