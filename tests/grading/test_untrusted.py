"""What a stranger's notebook may be and show: its size, its outputs and texts, and the pages made of them."""

import html
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from helpers.checks.card import Card, Line
from helpers.checks.missed import Missed
from solutions.grading.course import Course
from solutions.grading.grade import grade_class
from solutions.grading.grades import grades_of
from solutions.grading.submissions import Submission
from solutions.grading.untrusted import limits
from solutions.grading.untrusted.limits import check_notebook_file
from solutions.grading.untrusted.output_room import OutputRoom
from solutions.grading.untrusted.pages import set_policy
from solutions.grading.untrusted.sanitise import clean_html, safe_notebook
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP, code_of, solved
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's and nbformat's own

ATTACKS = {
    "a script": "<script>alert(1)</script>",
    "a handler": '<img src="x.png" onerror="alert(1)">',
    "a frame": '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "a link": '<a href="java&#115;cript:alert(1)">x</a>',
    "a page in a link": '<a href="data:text/html,<script>alert(1)</script>">x</a>',
    "an SVG": "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "an address": '<img src="http://example.org/seen.png"><link rel=stylesheet href=//example.org/x.css>',
    "a form": '<form action="/api/shutdown" method=post><input name=x></form>',
    "a foreign object": "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "formgrader's button": '<button class="full-credit" id="export_model">x</button>',
    "a style": '<p style="position:fixed;top:0;background-image:url(//example.org/x)">x</p>',
    "a negative margin": '<p style="margin-top: -90px">x</p>',
}
ACTS = re.compile(
    r"<(script|iframe|svg|form|button|link|style|math)|\son\w+=|javascript:|data:text|example\.org|url\(|fixed"
    r"|full-credit|\sid=|-90px",
    re.IGNORECASE,
)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_html_that_acts_is_taken_out(attack: str) -> None:
    assert ACTS.search(html.unescape(attack)) and not ACTS.search(clean_html(f"<p>before</p>{attack}"))


def test_a_card_stays_as_it_is() -> None:
    lines = [Line(True, "kept", "0.5 < 1"), Line(False, "lost", "", Missed("a", "<b>", "c"), "1 of 2 points")]
    card = Card("Export: 1 of 2", lines, "footer")._repr_html_()
    assert clean_html(card) == card


def test_a_table_of_pandas_stays_a_table() -> None:
    table = '<table border="1" class="dataframe"><thead><tr style="text-align:right"><th>ms</th></tr></thead></table>'
    assert clean_html(f"<div><style scoped>td {{color: red}}</style>{table}</div>") == f"<div>{table}</div>"


def test_an_output_keeps_what_is_known_of_it_and_nothing_else() -> None:
    data = {"image/png": "AAAA", "application/javascript": "alert(1)", "text/plain": "a picture"}
    sizes = {"image/png": {"width": "1 onerror=alert(1)", "height": 9, "alt": "x"}, "text/html": {"isolated": True}}
    script = new_output("display_data", {"application/javascript": "alert(1)"})
    newer = NotebookNode(output_type=False, data={"text/html": "<b>x</b>"})  # as a newer nbformat may have them
    shown = new_code_cell("1", outputs=[new_output("display_data", data, metadata=sizes), script])
    shown.metadata.update({"tags": ["a", '"><script>'], "transient": {"remove_source": True}, "nbgrader": {"grade": 1}})
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = new_notebook(cells=[shown], metadata={"widgets": {"x": 1}, "kernelspec": kernel})
    notebook.cells[0].outputs.append(newer)
    safe_notebook(notebook, {})
    kept, dropped, unknown = notebook.cells[0].outputs
    assert kept.data == {"image/png": "AAAA", "text/plain": "a picture"} and kept.metadata == {
        "image/png": {"height": 9}
    }
    assert dropped.data == {"text/plain": "[not shown: application/javascript]"}
    assert unknown.data == {"text/plain": "[not shown: of an unknown kind]"}
    assert notebook.cells[0].metadata == {"tags": ["a"], "nbgrader": {"grade": 1}}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


EVERYWHERE = """def cube(x):
    return x ** 3
from IPython.display import HTML, Javascript, display
display(HTML("<script>alert('out')</script><b onclick=alert(1)>bold</b>"), Javascript("alert('js')"))
display({"image/png": "AAAA"}, raw=True, metadata={"image/png": {"width": "1 onerror=alert('w')"}})"""
WRITTEN = "# Mine <script>alert('md')</script>\n\n[link](javascript:alert) ![x](attachment:gone) `a < b`"


@pytest.mark.slow
def test_the_pages_of_a_submission_run_nothing_of_it(course: Course, lab: NotebookNode) -> None:
    notebook = code_of(solved(lab), "cube", EVERYWHERE)
    notebook.cells += [new_markdown_cell(WRITTEN), new_markdown_cell("*fine* <u onclick=alert(1)>under</u> $x<y$")]
    hand_in(course, "html", notebook)
    grade_class(course, [Submission("html", [STEP])], [STEP], lambda *line: None)
    page = (course.root / "feedback" / "html" / STEP / f"{STEP}.html").read_text()
    head, body = page.split("</head>")
    assert "Content-Security-Policy" in head and "default-src 'none'" in head and "<script" not in page
    assert "<b>bold</b>" in body and "<em>fine</em> <u>under</u>" in body
    assert not re.search(r"<[^>]*\s(on\w+|href=.javascript)", body)
    kept = nbformat.read(course.autograded("html") / STEP / f"{STEP}.ipynb", as_version=4)
    outputs = json.dumps([cell.outputs for cell in kept.cells if cell.cell_type == "code"])
    assert "bold" in outputs and "<script" not in outputs and "onerror" not in outputs and "alert('js')" not in outputs
    assert "Export to ONNX: 3 of 3 points" in body and "border-left:4px solid" in body


def _cells(number: int) -> dict:
    return {"cells": [{"cell_type": "raw", "metadata": {}, "source": ""}] * number, "nbformat": 4}


TOO_MUCH = {
    "cells": (_cells(limits.MOST_CELLS + 1), r"has 1,001 cells; at most 1,000 are graded"),
    "old cells": ({"worksheets": [_cells(limits.MOST_CELLS), _cells(1)]}, r"has 1,001 cells"),
    "text": ({"cells": [{"source": ["x" * 150_000] * 2}]}, r"300,008 bytes in the source of cell 1; at most 200,000"),
    "metadata": ({"metadata": {"x": "y" * 5_000_000}}, r"in its metadata; at most 5,000,000"),
    "cell's metadata": ({"cells": [{"metadata": {"x": "y" * 100_000}}]}, r"in the metadata of cell 1"),
    "values": ([[]] * (limits.MOST_VALUES + 1), r"about 1,000,0\d\d values, at most 500,000"),
    "names": ({str(number): "x" for number in range(limits.MOST_VALUES)}, r"values, at most 500,000"),
}


@pytest.mark.parametrize(("content", "said"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_notebook_beyond_a_limit_is_refused_with_both_numbers(tmp_path: Path, content: object, said: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=said):
        check_notebook_file(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 1_000_000, "1,000,001 values"),
        (b"[" * 9_000, r"9,000 deep, at most 100"),
        (b'{"a": "' + b'\\"' * 3_000_000, "not JSON"),
        (b"1" * 10_000, "10,000 digits"),
        (b'{"cells": [{"source": "\\ud800"}]}', "half of a character"),
        (b"\xff", "UTF-8"),
        (b"{", "not JSON"),
        (b"7", "holds a int"),
    ],
)
def test_a_notebook_that_costs_to_read_is_refused_before(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(data)
    with pytest.raises(InputError, match=said):
        check_notebook_file(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.symlink_to(__file__), "a link"),
        (os.mkfifo, "is no plain file"),
        (lambda path: path.mkdir(), "Is a directory|no plain file"),
        (lambda path: path.open("wb").truncate(60 << 20), "62,914,560 bytes; at most 52,428,800"),
    ],
    ids=["link", "pipe", "folder", "sparse"],
)
def test_only_an_ordinary_file_of_a_notebook_s_size_is_opened(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    make(tmp_path / "a.ipynb")
    with pytest.raises(InputError, match=said):
        check_notebook_file(tmp_path / "a.ipynb")


def test_plain_autograde_refuses_the_same(course: Course, lab: NotebookNode) -> None:
    hand_in(course, "many", json.dumps({**lab, "cells": [lab.cells[0]] * 20_000}))
    with pytest.raises(InputError, match=r"could not be graded: .*has 20,000 cells; at most 1,000"):
        course.autograde("many", STEP)


def _message(kind: str, text: str) -> dict:
    content = {"name": "stdout", "text": text} if kind == "stream" else {"data": {"text/plain": text}}
    return {"msg_type": kind, "header": {"msg_type": kind}, "content": content}


def test_updates_of_a_display_count_as_often_as_they_are_shown() -> None:
    room = OutputRoom(10_000)
    room.next_cell()
    assert room.admit(_message("update_display_data", "x" * 900), places=9)
    assert "the rest was dropped" in room.admit(_message("update_display_data", "x" * 900), places=9)["content"]["text"]
    assert room.admit(_message("update_display_data", "x")) is None
    assert room.admit({"msg_type": "status", "content": {}}) and room.admit({"msg_type": "comm_msg"}) is None


def test_many_small_outputs_are_too_much_too_and_so_are_many_full_cells() -> None:
    room = OutputRoom(10_000)
    passed = 0
    for _ in range(30):
        room.next_cell()
        passed += sum(room.admit(_message("display_data", "x")) is not None for _ in range(200))
    assert 950 < passed < 1_050


@pytest.mark.parametrize(("host", "own"), [("host", "host/formgrader/static/"), ("[::1]:8888", "'self'")])
def test_a_formgrader_page_runs_its_own_inline_scripts_only(host: str, own: str) -> None:
    headers: dict[str, str] = {}
    handler = SimpleNamespace(request=SimpleNamespace(host=host), base_url="", set_header=headers.__setitem__)
    set_policy(handler, '<script src="/a.js"></script><script>var a = 1;</script><b onclick="toggle(true);">x</b>')
    scripts = re.search(r"script-src ([^;]*);", headers["Content-Security-Policy"])[1].split()
    assert scripts[:2] == [own, "'unsafe-hashes'"] and len(scripts) == 4 and "'unsafe-inline'" not in scripts


def test_a_notebook_s_own_metadata_choose_neither_kernel_nor_points(course: Course, lab: NotebookNode) -> None:
    notebook = solved(lab, "cube")
    kernel = {"name": "no-such-kernel", "display_name": "x", "language": "bash"}
    language = {"name": "bash", "pygments_lexer": "no-such-lexer"}
    notebook.metadata |= {
        "kernelspec": kernel,
        "language_info": language,
        "nbgrader": {"points": 9},
        "title": "</title>",
    }
    hand_in(course, "edited", notebook)
    course.autograde("edited", STEP)
    with course.gradebook() as gradebook:
        assert grades_of(gradebook, "edited", [STEP], [STEP]).total == 2
    kept = nbformat.read(course.autograded("edited") / STEP / f"{STEP}.ipynb", as_version=4)
    assert (kept.metadata.kernelspec.name, kept.metadata.language_info.name) == ("python3", "python")
    assert set(kept.metadata) == {"kernelspec", "language_info"}
