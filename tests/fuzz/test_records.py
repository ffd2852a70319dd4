"""Records: a record that can be shown, or InputError."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solutions.checks.core.record import read_record
from solutions.grading.outcome import decided_outputs
from solutions.grading.untrusted.sanitise import clean_html
from tests.fuzz import JSON, cases, spoilt
from tests.fuzz.changes import changed
from tests.fuzz.markup import parts
from trtcpu.errors import InputError

_RESULT = {"claim": "square.two", "title": "two", "points": 2.0, "earned": 1.0, "status": "partial", "evidence": "4"}
_MISSED = {"expected": "9", "found": "<b>8</b>", "try_this": "multiply"}
GOOD = {
    "cell": "export_model",
    "step": "01_export",
    "criterion": "correctness",
    "engine": "cpu",
    "points": 3.0,
    "results": [_RESULT, {**_RESULT, "claim": "square.three", "points": 1.0, "earned": 0.0, "missed": _MISSED}],
}
MARKUP = st.sampled_from(
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "]]>", "&lt;", "\x00", "\u202e", "'\""]
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records") / "export_model.json"


def _reads(place: Path, data: bytes) -> None:
    place.write_bytes(data)
    try:
        record = read_record(place)
    except InputError as error:
        assert str(error)
        record = None
    outputs = decided_outputs(place, 3.0, None)
    assert 0 <= float(outputs[-1].data["text/plain"]) <= 3
    if record is not None:
        card = record.card()._repr_html_()
        assert parts(clean_html(card)) == parts(card)
        assert {tag for tag, _, _ in parts(card)} <= {"b", "div", "i", "span"}


@given(data=spoilt(json.dumps(GOOD).encode()))
@cases(80)
def test_spoilt_bytes(place: Path, data: bytes) -> None:
    _reads(place, data)


@given(value=changed(GOOD, JSON | MARKUP))
@cases(120)
def test_a_record_that_says_something_else(place: Path, value: Any) -> None:
    _reads(place, json.dumps(value).encode())
