"""Notebooks and outputs that are too large, too many, too deep or not what they say."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.grading.tiny import STEP
from tests.hostile.attack import Attack, Trial
from tests.hostile.goals import ended, grader_memory, size, traceback

_UPDATES = """
from IPython.display import HTML, display
shown = display(HTML("<p>small</p>"), display_id="one")
shown.update(HTML("<p>" + "y" * 3_000_000 + "</p>"))
"""
_LATER = """
from IPython.display import HTML, display
handles = [display(HTML("<p>small</p>"), display_id=str(number)) for number in range(30)]
for handle in handles:
    handle.update(HTML("<p>" + "y" * 150_000 + "</p>"))
"""
_MANY = """
import sys, time
from IPython.display import display
for number in range(3000):
    display({"text/plain": "x"}, raw=True)
"""
_METADATA = (
    "from IPython.display import display\ndisplay({'text/plain': 'x'}, raw=True, metadata={'big': 'y' * 3_000_000})"
)
_ERROR = "class Long(Exception):\n    pass\nraise Long('y' * 3_000_000)"
_RAW = """
import json, os, select, socket, stat, time
name = f"kernel-{json.load(open('kernel.json'))['iopub_port']}"
time.sleep(0.5)
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        found = os.fstat(number)
        iopub = stat.S_ISSOCK(found.st_mode) and socket.socket(fileno=os.dup(number))
        iopub.getpeername()
        if not iopub.getsockname().endswith(name):
            continue
    except (AttributeError, OSError):
        continue
    for part in FRAMES:
        left = memoryview(part)
        while left:
            select.select([], [iopub], [])
            try:
                left = left[iopub.send(left):]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                break
time.sleep(3)
"""
_LONG = "bytes([2]) + (1200 << 20).to_bytes(8, 'big'), *[b'y' * (4 << 20)] * 300"  # of ZMTP: a long frame
_ENDLESS = "bytes([3]) + (4 << 20).to_bytes(8, 'big') + b'y' * (4 << 20) for _ in range(400)"  # and more follow


def _cells(notebook: NotebookNode) -> None:
    notebook.cells += [new_markdown_cell("x") for _ in range(5000)]


def _codes(notebook: NotebookNode) -> None:
    notebook.cells += [new_code_cell("1") for _ in range(1500)]


def _source(notebook: NotebookNode) -> None:
    notebook.cells.append(new_markdown_cell("x " * 4_000_000))


def _metadata(notebook: NotebookNode) -> None:
    notebook.metadata["big"] = "y" * 20_000_000


def _attachment(notebook: NotebookNode) -> None:
    cell = new_markdown_cell("![a](attachment:a.png)")
    cell["attachments"] = {"a.png": {"image/png": "A" * 12_000_000}}
    notebook.cells.append(cell)


def _text(content: bytes) -> Callable[[Path, str], None]:
    def place(course: Path, student: str) -> None:
        (course / "submitted" / student / STEP / f"{STEP}.ipynb").write_bytes(content)

    return place


def _unclear(trial: Trial) -> bool:
    """The class ends, or the line is a Python exception's."""
    return ended(trial) or traceback(trial)


def _sparse(course: Path, student: str) -> None:
    with (course / "submitted" / student / STEP / f"{STEP}.ipynb").open("wb") as file:
        file.truncate(150 << 20)


_DEEP = (
    b'{"cells": [], "metadata": {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b'}, "nbformat": 4, "nbformat_minor": 5}'
)
_LIST = b"[1, 2, 3]"
_CELLS = b'{"cells": {"a": 1}, "metadata": [], "nbformat": 4, "nbformat_minor": 5}'
_TYPES = (
    b'{"cells": [{"cell_type": 3, "source": {}, "metadata": 7, "id": []}], '
    b'"metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
)

_attack = partial(Attack, group="limits")
_message = partial(_attack, goal=grader_memory(1400), guards=("messages",), alone=True, apart=True)
ATTACKS = [
    _attack(
        "update_of_3_megabytes",
        about="An update of a display passes the limit of outputs.",
        code=_UPDATES,
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _attack(
        "update_of_an_earlier_cell",
        about="Many displays, each updated below the limit.",
        code=_LATER,
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _attack(
        "outputs_in_thousands",
        about="3,000 outputs of one cell.",
        code=_MANY,
        goal=size("outputs", 2000),
        guards=("outputs",),
    ),
    _attack(
        "output_metadata",
        about="3 MB in the metadata of an output.",
        code=_METADATA,
        goal=size("notebook", 2_500_000),
        guards=("outputs", "sanitise"),
    ),
    _attack(
        "error_text",
        about="An exception whose text has 3 MB.",
        code=_ERROR,
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _message(
        "message_of_a_gigabyte",
        about="One output of 1.2 GB, which the grader would read whole.",
        code=_RAW.replace("FRAMES", f"({_LONG})"),
        says="a message larger than",
    ),
    _message(
        "message_without_end",
        about="1.6 GB in the parts of one message, which the grader would wait for.",
        code=_RAW.replace("FRAMES", f"({_ENDLESS})"),
        says="more than can be read",
    ),
    _attack(
        "cells_in_thousands",
        about="5,000 text cells.",
        notebook=_cells,
        goal=size("cells", 4000),
        guards=("reader",),
        says="cells",
    ),
    _attack(
        "code_cells_in_thousands",
        about="1,500 cells to run.",
        notebook=_codes,
        goal=size("cells", 1400),
        guards=("reader",),
        says="cells",
    ),
    _attack(
        "cell_of_8_megabytes",
        about="A text cell of 8 MB.",
        notebook=_source,
        goal=size("page", 7_000_000),
        guards=("reader",),
        says="MB|characters|bytes",
    ),
    _attack(
        "metadata_of_20_megabytes",
        about="20 MB of metadata.",
        notebook=_metadata,
        goal=size("notebook", 19_000_000),
        guards=("reader", "sanitise"),
        says="MB|characters|bytes",
    ),
    _attack(
        "attachment_of_12_megabytes",
        about="12 MB attached to a text cell.",
        notebook=_attachment,
        goal=size("page", 11_000_000),
        guards=("reader",),
        says="MB|characters|bytes",
    ),
    _attack(
        "notebook_of_150_megabytes",
        about="A sparse file as notebook.",
        place=_sparse,
        goal=grader_memory(800),
        alone=True,
        apart=True,
        guards=("reader",),
        says="MB|bytes",
    ),
    _attack(
        "json_deep", about="200,000 lists in lists.", place=_text(_DEEP), goal=_unclear, alone=True, guards=("reader",)
    ),
    _attack(
        "json_list",
        about="A list in the place of a notebook.",
        place=_text(_LIST),
        goal=_unclear,
        alone=True,
        guards=("reader",),
    ),
    _attack(
        "json_cells",
        about="Cells that are no list.",
        place=_text(_CELLS),
        goal=_unclear,
        alone=True,
        guards=("reader",),
    ),
    _attack(
        "json_types",
        about="Texts that are numbers.",
        place=_text(_TYPES),
        goal=_unclear,
        alone=True,
        guards=("reader",),
    ),
]
