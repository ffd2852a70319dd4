"""What the course in this folder teaches, what it is worth and when it is due: course.toml, all of it optional."""

import datetime
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trtcpu.errors import SettingError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "course.toml"
ENGINE_CHOICES = ("auto", "tensorrt", "cpu")
MODELS = ("resnet18", "resnet50")
"""Those with weights for the lab's digits."""

_FORMS = 'lines are written as  percent_per_day = 10,  01_export = 2026-12-01 23:59:00,  model = "resnet18"'


@dataclass(frozen=True)
class Late:
    """What being late costs.

    Attributes:
        percent_per_day: of a step's points, for each day that has begun since the deadline.
        free_minutes: how late a step may be without a penalty.
    """

    percent_per_day: float = 0.0
    free_minutes: float = 0.0


@dataclass(frozen=True)
class Term:
    """The settings of course.toml.

    Attributes:
        steps: the notebooks that the course has; empty: all.
        points: what graded cells are worth, by grade_id, if not what the lab says.
        total: what the points of all steps that are not optional have to sum to; 0: anything.
        deadlines: by step, in UTC.
        model: the model of grading, empty: the lab's.
        engine: "cpu" or "tensorrt", empty: TensorRT if it is here.
    """

    steps: tuple[str, ...] = ()
    points: Mapping[str, float] = field(default_factory=dict)
    total: float = 0.0
    deadlines: Mapping[str, datetime.datetime] = field(default_factory=dict)
    late: Late = Late()
    model: str = ""
    engine: str = ""


def read_term(path: Path) -> Term:
    """Return the settings in a file; the lab's own if there is none.

    Raises:
        SettingError: it is not TOML, or a setting is unknown or of another type; the message names it.
    """
    if not path.is_file():
        return Term()
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"{path} is not TOML: {error}; {_FORMS}") from error
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}; let this user read it") from error
    _check(path, "", found, {one.name for one in fields(Term)})
    _check(path, "late.", late := _table(path, found, "late"), {one.name for one in fields(Late)})
    deadlines = {step: _utc(path, step, when) for step, when in _table(path, found, "deadlines").items()}
    points = {cell: _number(path, f"points.{cell}", value) for cell, value in _table(path, found, "points").items()}
    rule = Late(**{name: _number(path, f"late.{name}", value) for name, value in late.items()})
    names = found.get("steps", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingError(f'{path}: steps is {names!r}, expected a list such as ["01_export", "02_fp16"]')
    total = _number(path, "total", found.get("total", 0))
    model, engine = (_one_of(path, found, *known) for known in (("model", MODELS), ("engine", ENGINE_CHOICES)))
    return Term(tuple(names), points, total, deadlines, rule, model, engine)


def _check(path: Path, above: str, found: Mapping[str, Any], known: set[str]) -> None:
    if unknown := [name for name in found if name not in known]:
        raise SettingError(f"{path}: there is no setting {above}{unknown[0]}; there are {', '.join(sorted(known))}")


def _table(path: Path, found: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = found.get(name, {})
    if not isinstance(table, dict):
        raise SettingError(f"{path}: {name} is {table!r}, expected a table that begins with the line [{name}]")
    return table


def _number(path: Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise SettingError(f"{path}: {name} is {value!r}, expected a number of at least 0")
    return float(value)


def _one_of(path: Path, found: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    if (value := found.get(name, "")) not in ("", *known):
        raise SettingError(f"{path}: {name} is {value!r}, expected one of {', '.join(known)}")
    return value


def _utc(path: Path, step: str, when: Any) -> datetime.datetime:
    """Return a deadline in UTC without a zone, as nbgrader has it. A date alone is its last second here."""
    if isinstance(when, datetime.date) and not isinstance(when, datetime.datetime):
        when = datetime.datetime.combine(when, datetime.time(23, 59, 59))
    try:
        return when.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    except (AttributeError, OverflowError, ValueError) as error:  # no time, or in the year 0 or 10,000 elsewhere
        expected = "expected a time such as 2026-12-01 23:59:00+01:00"
        raise SettingError(f"{path}: deadlines.{step} is {str(when)!r}, {expected}") from error


TERM = read_term(Path(__file__).resolve().parents[2] / FILE)
