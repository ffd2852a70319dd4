"""Replies have the schema that their probe names: a forged one is no answer, and breaks no claim."""

import importlib
import pkgutil
from typing import Any, TypedDict, get_args, get_type_hints, is_typeddict

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.pure import Answered
from helpers.checks.points.timed import Ran
from helpers.checks.probes import answer
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.schema import schema_of
from helpers.checks.probes.student import Student

ANYTHING = {
    *("calibrator_run", "called", "charts_drawn", "int8_and_calibrator", "random_calibrator"),
    *("report_built", "time_by_events"),
}
"""Probes whose answer, or a part of it, is whatever the student's function returns: who asks takes any plain data."""

COMPARED = (Answered, Ran)
"""Answers that pure.compare and timed take, whatever is in them."""


class Told(TypedDict):
    """A made-up probe's answer."""

    numbers: list[float]
    name: str | None


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"numbers": [1, 2.5], "name": None}, None),
        ({"numbers": [1, "2"], "name": None}, r"item 1 .* is neither float or int"),
        ({"numbers": [1]}, r'missing required key\(s\): "name"'),
        ({"numbers": [1], "name": "a", "points": 100}, r'unexpected extra key\(s\): "points"'),
        ([], "not a dict"),
        (None, "not a dict"),
    ],
)
def test_an_answer_of_another_form_is_none(monkeypatch: pytest.MonkeyPatch, given: Any, wrong: str | None) -> None:
    monkeypatch.setattr(answer, "_PROBES", dict(answer._PROBES))

    @probe
    def tell(notebook: Notebook) -> Told:
        return given

    student = Student.in_process({})
    if wrong is None:
        assert student.call(tell).value == given
        return
    with pytest.raises(Missed, match=f"not in this lab's form.*{wrong}"):
        student.call(tell)


def test_every_probe_names_the_schema_of_its_answers() -> None:
    for room in ("helpers.checks.probes", "helpers.checks.points"):
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            importlib.import_module(module.name)
    ours = {name: found for name, found in answer._PROBES.items() if found.__module__.startswith("helpers.")}
    assert len(ours) > 40
    assert {name for name, found in ours.items() if _vague(schema_of(found))} == ANYTHING


def _vague(schema: Any) -> bool:
    """Return whether a schema, or a part of it, may be anything."""
    if schema in COMPARED:
        return False
    if is_typeddict(schema):
        return any(map(_vague, get_type_hints(schema).values()))
    return schema in (Any, object, dict, list, tuple) or any(map(_vague, get_args(schema)))
