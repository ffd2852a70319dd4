"""What a stranger's notebook may be and show: its size, its outputs and texts, and the pages made of them.

What a text can make endless is given up at a limit: the page is a plain one, with points and reasons. A submission that
never ends, or talks without end, costs itself its points and nobody else's.
"""

import html
import json
import os
import re
import signal
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from helpers.checks.card import Card, Line
from helpers.checks.missed import Missed
from solutions.grading.course import Course
from solutions.grading.execute import GradeExecute
from solutions.grading.layout import ROOT, course_config
from solutions.grading.step_record import StepRecord
from solutions.grading.untrusted import apart as child
from solutions.grading.untrusted import limits
from solutions.grading.untrusted.apart import apart
from solutions.grading.untrusted.limits import OutputRoom, check_notebook_file
from solutions.grading.untrusted.pages import PageExporter, graded_page, set_policy
from solutions.grading.untrusted.sanitise import clean_html, safe_notebook
from tests.grading.conftest import feedback_of, hand_in
from tests.grading.tiny import STEP, code_of, index_of, label, solved
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


CARD = Card(
    "Export: 1 of 2",
    [Line(True, "kept", "0.5 < 1"), Line(False, "lost", "", Missed("a", "<b>", "c"), "1 of 2 points")],
    "footer",
)._repr_html_()
TABLE = '<table border="1" class="dataframe"><thead><tr style="text-align:right"><th>ms</th></tr></thead></table>'
PANDAS = f"<div><style scoped>td {{color: red}}</style>{TABLE}</div>"


@pytest.mark.parametrize(("text", "kept"), [(CARD, CARD), (PANDAS, f"<div>{TABLE}</div>")], ids=["card", "table"])
def test_a_card_and_a_table_of_pandas_stay_as_they_are(text: str, kept: str) -> None:
    assert clean_html(text) == kept


def test_an_output_keeps_what_is_known_of_it_and_nothing_else() -> None:
    data = {"image/png": "AAAA", "application/javascript": "alert(1)", "text/plain": "a picture"}
    sizes = {"image/png": {"width": "1 onerror=alert(1)", "height": 9, "alt": "x"}, "text/html": {"isolated": True}}
    script = new_output("display_data", {"application/javascript": "alert(1)"})
    newer = NotebookNode(output_type=False, data={"text/html": "<b>x</b>"})  # as a newer nbformat may have them
    about = {"tags": ["a", '"><script>'], "transient": {"remove_source": True}, "nbgrader": {"grade": 1}}
    metadata = {"widgets": {"x": 1}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = new_notebook(cells=[new_code_cell("1", metadata=about)], metadata=metadata)
    notebook.cells[0].outputs = [new_output("display_data", data, metadata=sizes), script, newer]
    safe_notebook(notebook, {})
    assert [(output.data, output.metadata) for output in notebook.cells[0].outputs] == [
        ({"image/png": "AAAA", "text/plain": "a picture"}, {"image/png": {"height": 9}}),
        ({"text/plain": "[not shown: application/javascript]"}, {}),
        ({"text/plain": "[not shown: of an unknown kind]"}, {}),
    ]
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
    head, body = feedback_of(course, "html", notebook).split("</head>")
    assert "Content-Security-Policy" in head and "default-src 'none'" in head and "<script" not in head + body
    assert "<b>bold</b>" in body and "<em>fine</em> <u>under</u>" in body
    assert not re.search(r"<[^>]*\s(on\w+|href=.javascript)", body)
    kept = nbformat.read(course.autograded("html") / STEP / f"{STEP}.ipynb", as_version=4)
    outputs = json.dumps([cell.outputs for cell in kept.cells if cell.cell_type == "code"])
    assert "bold" in outputs and "<script" not in outputs and "onerror" not in outputs and "alert('js')" not in outputs
    assert "Export to ONNX: 3 of 3 points" in body and "border-left:4px solid" in body


# Each paragraph opens again what is open: of 400 kB more than 2 GiB are made.
GROWING = "".join(f"<b title={number}><p>" for number in range(20_000))


@pytest.mark.parametrize(
    ("length", "why"),
    [(8_000, []), pytest.param(None, ["could not be cleaned: it took more than"], marks=pytest.mark.slow)],
    ids=["many times what was written", "without end"],
)
def test_html_that_grows_is_not_kept_and_the_rest_is(length: int | None, why: list[str]) -> None:
    shown = new_output("display_data", {"text/html": GROWING[:length], "text/plain": "in short"})
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[shown]), new_markdown_cell("*mine*")])
    safe_notebook(notebook, {})
    *notes, code, text = notebook.cells
    assert [said in note.source for said, note in zip(why, notes, strict=True)] == [True] * len(why)
    assert code.outputs[0].data == {"text/plain": "in short"} and text.source == "*mine*"


# The lexer's time grows with the third power of the lines: two minutes of a processor.
ENDLESS = "```ipython\n" + " \n" * 9_000 + "```"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that an attack passes soon."""
    monkeypatch.setattr(child, "SECONDS", 2)


def _exporter() -> Config:
    return Config({"HTMLExporter": course_config(ROOT).HTMLExporter})


def test_a_page_is_what_nbconvert_makes_of_the_notebook() -> None:
    table = new_output("display_data", {"text/html": "<table><tr><td onclick=x>1</td></tr></table>"})
    cells = [new_markdown_cell("# A *title* $x<y$"), new_code_cell("x = 1  # why", outputs=[table])]
    notebook = new_notebook(cells=cells)
    expected, _ = HTMLExporter(config=_exporter()).from_notebook_node(notebook)
    page, resources = PageExporter(config=_exporter()).from_notebook_node(notebook)
    assert page == expected and "<em>title</em>" in page and resources["output_extension"] == ".html"


def test_formgrader_shows_a_plain_page_of_a_notebook_that_cannot_be_rendered(hurried: None, tmp_path: Path) -> None:
    config = _exporter()
    config.HTMLExporter.update(template_name="formgrade", extra_template_basedirs=[handlers.template_path])
    handler, headers = _handler("localhost")
    handler.settings = {"nbgrader_exporter": HTMLExporter(config=config)}
    said = new_output("stream", text="No points: of a test")
    cells = [
        new_markdown_cell(f"nobody's\n{ENDLESS}"),
        new_markdown_cell("my *answer*", metadata=label("answer", solution=True)),
        new_code_cell("def write_analysis(): ...", metadata=label("analysis", points=6, solution=True), outputs=[said]),
        new_code_cell("check()", metadata=label("report_numbers", points=2), outputs=[said]),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "08_report.ipynb")
    names = ("assignment_id", "notebook_id", "submission_id", "base_url", "student", "last_name", "first_name")
    resources = {**dict.fromkeys((*names, "notebook_path"), "x"), "index": 0, "total": 1}
    page, _ = graded_page(handler, str(tmp_path / "08_report.ipynb"), resources)
    assert "could not be rendered: it took more than 2 s of a processor" in page and "nobody's" not in page
    assert "my *answer*" in page and "write_analysis" in page and page.count("No points: of a test") == 1
    assert 'class="score' in page and "Content-Security-Policy" in headers


@pytest.mark.slow
def test_feedback_of_a_notebook_that_cannot_be_rendered_has_points_and_what_was_lost(
    course: Course, lab: NotebookNode, hurried: None
) -> None:
    notebook = code_of(solved(lab, "cube"), "square", "def square(x):\n    return 2 * x")
    notebook.cells.append(new_markdown_cell(ENDLESS))
    page = feedback_of(course, "endless", notebook)
    assert "could not be rendered: it took more than 2 s of a processor" in page
    assert "Two functions: 4 of 5 points" in page and "square.three: lost 1" in page and "<i>expected</i> 9" in page
    assert "return 2 * x" in page.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("function", "given", "why"),
    [
        (bytes, (child.MEMORY_BYTES,), "it took more than 2 GiB of memory"),
        (os._exit, (3,), r"it took more than 2 GiB of memory, or crashed \(3\)"),
        (int, ("x",), "it ended with ValueError"),
    ],
)
def test_a_limit_is_named_and_the_next_request_is_answered(function: Callable, given: tuple, why: str) -> None:
    with pytest.raises(InputError, match=f"^{why}$"):
        apart(function, *given)
    assert apart(str.upper, "é") == "É"


@pytest.mark.slow
def test_a_child_that_somebody_kills_is_replaced_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_WARM", [])
    assert apart(_killed_once, str(tmp_path / "seen")) == "done"
    process, _ = child._WARM[-1]
    process.kill()
    process.wait()
    assert apart(str.upper, "b") == "B"
    with pytest.raises(InputError, match="killed from outside"):
        apart(signal.raise_signal, signal.SIGKILL)


def _killed_once(path: str) -> str:
    if not os.path.exists(path):
        os.mkdir(path)
        signal.raise_signal(signal.SIGKILL)
    return "done"


def _cells(number: int) -> dict:
    return {"cells": [{"cell_type": "raw", "metadata": {}, "source": ""}] * number, "nbformat": 4}


TOO_MUCH = {
    "cells": (_cells(limits.MOST_CELLS + 1), r"has 1,001 cells; at most 1,000 are read"),
    "old cells": ({"worksheets": [_cells(limits.MOST_CELLS), _cells(1)]}, r"has 1,001 cells"),
    "text": ({"cells": [{"source": ["x" * 150_000] * 2}]}, r"300,008 bytes in the source of cell 1; at most 200,000"),
    "metadata": ({"metadata": {"x": "y" * 5_000_000}}, r"in its metadata; at most 5,000,000"),
    "cell's metadata": ({"cells": [{"metadata": {"x": "y" * 100_000}}]}, r"in the metadata of cell 1"),
    "values": ([[]] * (limits.MOST_VALUES + 1), r"about 1,000,0\d\d values, at most 500,000"),
    "names": ({str(number): "x" for number in range(limits.MOST_VALUES)}, r"values, at most 500,000"),
    "lists": (b"[" * 1_000_000, "1,000,001 values"),
    "depth": (b"[" * 9_000, r"9,000 deep, at most 100"),
    "open string": (b'{"a": "' + b'\\"' * 3_000_000, "not JSON"),
    "digits": (b"1" * 10_000, "10,000 digits"),
    "half of a character": (b'{"cells": [{"source": "\\ud800"}]}', "half of a character"),
    "encoding": (b"\xff", "UTF-8"),
    "open object": (b"{", "not JSON"),
    "number": (b"7", "notebook must be object, not int"),
}


def _holding(content: object) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        *((_holding(content), said) for content, said in TOO_MUCH.values()),
        (lambda path: path.symlink_to(__file__), "a link"),
        (os.mkfifo, "is no plain file"),
        (lambda path: path.mkdir(), "Is a directory|no plain file"),
        (lambda path: path.open("wb").truncate(60 << 20), "62,914,560 bytes; at most 52,428,800"),
    ],
    ids=[*TOO_MUCH, "link", "pipe", "folder", "sparse"],
)
def test_a_notebook_that_costs_too_much_or_is_no_ordinary_file_is_refused_before_it_is_read(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    make(tmp_path / "a.ipynb")
    with pytest.raises(InputError, match=said):
        check_notebook_file(tmp_path / "a.ipynb")


def test_plain_autograde_refuses_the_same(course: Course, lab: NotebookNode) -> None:
    hand_in(course, "many", json.dumps({**lab, "cells": [lab.cells[0]] * 20_000}))
    with pytest.raises(InputError, match=r"could not be graded: .*has 20,000 cells; at most 1,000"):
        course.autograde("many", STEP)


def _message(kind: str, said: str, **more: object) -> dict:
    return {"msg_type": kind, "header": {"msg_type": kind}, "content": {"data": {"text/plain": said}, **more}}


@pytest.mark.parametrize(("text", "more"), [("", {"text": ["x" * 20_000]}), ("x" * 20_000, {"text": ""})])
def test_text_counts_in_full_in_a_list_and_beside_data(text: str, more: dict) -> None:
    assert "the rest was dropped" in OutputRoom(10_000).admit(_message("stream", text, **more))["content"]["text"]


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


def _handler(host: str) -> tuple[SimpleNamespace, dict[str, str]]:
    """Return what answers with a page of formgrader, and the headers that it sets."""
    headers: dict[str, str] = {}
    return SimpleNamespace(request=SimpleNamespace(host=host), base_url="", set_header=headers.__setitem__), headers


@pytest.mark.parametrize(("host", "own"), [("host", "host/formgrader/static/"), ("[::1]:8888", "'self'")])
def test_a_formgrader_page_runs_its_own_inline_scripts_only(host: str, own: str) -> None:
    handler, headers = _handler(host)
    set_policy(handler, '<script src="/a.js"></script><script>var a = 1;</script><b onclick="toggle(true);">x</b>')
    scripts = re.search(r"script-src ([^;]*);", headers["Content-Security-Policy"])[1].split()
    assert scripts[:2] == [own, "'unsafe-hashes'"] and len(scripts) == 4 and "'unsafe-inline'" not in scripts


LOOPS = "def cube(x):\n    while True:\n        pass"
STUBBORN = """def cube(x):
    import time
    while True:
        try:
            time.sleep(1)
        except KeyboardInterrupt:
            pass"""
FLOOD = "def cube(x):\n    return x ** 3\nfor _ in range(300):\n    print('y' * 100_000)"


@pytest.fixture
def strict(course: Course) -> Course:
    limited = deepcopy(course)
    limited.config.Execute.update(timeout=15, iopub_timeout=5)
    limited.config.GradeExecute.update(grace=3, output_limit=250_000)
    return limited


def _graded(course: Course, student: str, notebook: NotebookNode) -> tuple[float, NotebookNode]:
    hand_in(course, student, notebook)
    course.autograde(student, STEP)
    points = sum(StepRecord.read(course.autograded(student), student, STEP).given.values())
    return points, nbformat.read(course.autograded(student) / STEP / f"{STEP}.ipynb", as_version=4)


def test_a_notebook_s_own_metadata_choose_neither_kernel_nor_points(course: Course, lab: NotebookNode) -> None:
    notebook = solved(lab, "cube")
    notebook.metadata |= {
        "kernelspec": {"name": "no-such-kernel", "display_name": "x", "language": "bash"},
        "language_info": {"name": "bash", "pygments_lexer": "no-such-lexer"},
        "nbgrader": {"points": 9},
        "title": "</title>",
    }
    points, kept = _graded(course, "edited", notebook)
    assert points == 2
    assert (kept.metadata.kernelspec.name, kept.metadata.language_info.name) == ("python3", "python")
    assert set(kept.metadata) == {"kernelspec", "language_info"}


@pytest.mark.slow
@pytest.mark.parametrize("code", [LOOPS, STUBBORN], ids=["interruptible", "stubborn"])
def test_an_endless_loop_loses_what_was_not_decided(strict: Course, lab: NotebookNode, code: str) -> None:
    points, notebook = _graded(strict, f"endless {len(code)}", code_of(solved(lab), "cube", code))
    assert points == 3
    text = notebook.cells[index_of(notebook, "simplify_model")].outputs[1].text
    assert text.startswith("No points for what could not be asked or is not listed above: it was stopped by the time")


@pytest.mark.slow
def test_a_notebook_has_a_limit_of_its_own(strict: Course, lab: NotebookNode) -> None:
    strict.config.GradeExecute.notebook_timeout = 0
    points, notebook = _graded(strict, "late", solved(lab))
    assert points == 0
    assert "time limit of 0 s was used up" in notebook.cells[index_of(notebook, "export_model")].outputs[0].text


@pytest.mark.slow
def test_a_flood_of_output_is_cut_and_costs_nothing(strict: Course, lab: NotebookNode) -> None:
    points, notebook = _graded(strict, "flood", code_of(solved(lab), "cube", FLOOD))
    assert points == 5
    said = "".join(output.text for output in notebook.cells[index_of(notebook, "cube_todo")].outputs)
    assert len(said) < 300_000 and "the rest was dropped" in said


def test_an_error_that_had_no_room_comes_back_short_from_the_kernels_reply() -> None:
    cell = NotebookNode(outputs=[])
    content = {"status": "error", "ename": "Long", "evalue": "y" * 3_000_000, "traceback": ["y" * 3_000_000]}
    GradeExecute().on_cell_executed(cell=cell, cell_index=0, execute_reply={"content": content})
    assert cell.outputs[0].ename == "Long" and len(str(cell.outputs)) < 5000
