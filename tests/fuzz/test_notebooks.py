"""Notebooks: one that can be graded and shown, or InputError."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from helpers.course.handout import read_notebook
from solutions.grading.restore import restore
from solutions.grading.untrusted import sanitise
from solutions.grading.untrusted.limits import check_notebook_file
from solutions.grading.untrusted.sanitise import clean_html, markdown_html, safe_notebook
from tests.fuzz import cases, spoilt
from tests.fuzz.changes import changed
from tests.fuzz.markup import parts
from tests.grading.tiny import source_notebook
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbformat's own

_SOURCE = source_notebook()
_GOOD = json.loads(nbformat.writes(source_notebook()))
_OUTPUT = {"output_type": "display_data", "data": {"text/html": "<b>x</b>", "image/png": "AAAA"}, "metadata": {}}
_GOOD["cells"][1]["outputs"] = [_OUTPUT, {"output_type": "stream", "name": "stdout", "text": ["a"]}]
_GOOD["cells"][0]["attachments"] = {"a.png": {"image/png": "AAAA"}}
_EXPECTED = ["export_model", "simplify_model"]
_PIECES = (
    "< > <script> </script> <img src= onerror=alert(1) javascript: <svg/onload=x> <style> </style> <!-- --> ` ``` $ $$ "
    "[ ](x) ![a](attachment:b) ** <math> <mtext> <table> <a href= \" ' &#106; \\ \n | # > - 1. <details> "
    "<p style= position:fixed id=x <b> </b> &lt;"
)
PIECES = st.sampled_from([" ", *_PIECES.split(" ")])
HTML = st.lists(PIECES | st.text(max_size=4), max_size=14).map("".join)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks") / "01_export.ipynb"


def _takes(place: Path, data: bytes) -> None:
    """Take a submission as grading does, and make what a page is made of."""
    place.write_bytes(data)
    try:
        check_notebook_file(place)
        notebook = read_notebook(place)
        shown = read_notebook(place)
        notes = restore(notebook, _SOURCE)
    except InputError as error:
        assert str(error)
        return
    assert all(type(note) is str for note in notes)
    graded = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert sorted(cell.metadata.nbgrader.grade_id for cell in graded) == _EXPECTED
    assert sum(cell.metadata.nbgrader.points for cell in graded) == 5
    nbformat.validate(notebook)
    assert nbformat.writes(notebook).encode()
    if nbformat.validator.isvalid(shown):
        safe_notebook(shown, {})
        nbformat.validate(shown)


@given(data=spoilt(json.dumps(_GOOD).encode()))
@cases(60)
def test_spoilt_bytes(place: Path, data: bytes) -> None:
    _takes(place, data)


@given(value=changed(_GOOD))
@cases(60)
def test_a_notebook_that_says_something_else(place: Path, value: Any) -> None:
    _takes(place, json.dumps(value).encode())


def _assert_harmless(text: str) -> None:
    assert clean_html(text) == text
    for tag, name, value in parts(text):
        assert tag in sanitise._TAGS and name in {"", "class", "rel", *sanitise._ATTRIBUTES[tag]}
        assert not value.lower().strip().startswith(("javascript", "vbscript", "data:text")) and "fixed" not in value


@given(text=HTML)
@cases(60)
def test_html_is_harmless_when_it_was_cleaned_and_stays_as_it_is_when_cleaned_again(text: str) -> None:
    _assert_harmless(clean_html(text))


@given(text=HTML)
@cases(60)
def test_markdown_is_harmless_as_a_page_shows_it(text: str) -> None:
    context = Environment().from_string("").new_context({"cell": {"attachments": {"b": {"image/png": "AAAA"}}}})
    shown = markdown_html(context, text)
    assert shown.startswith("<pre>") or clean_html(shown) == shown
    _assert_harmless(clean_html(shown))
