"""What notebooks and outputs hold.

A browser would run or fetch it when the feedback or formgrader shows a submission, or it is endless to show; or it is
too large, too many, too deep or not what it says.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.hostile.attack import MARK, Attack
from tests.hostile.course import NOTEBOOK
from tests.hostile.goals import ended, peak, rendered, size, traceback

_ON_ERROR = f"<img src=x onerror={MARK}>"


def _shows(kind: str, content: str) -> str:
    return f"from IPython.display import display\ndisplay({{{kind!r}: {content!r}}}, raw=True)"


def _text(notebook: NotebookNode, source: str, number: int = 1, **cell: Any) -> None:
    """Put text cells before all others."""
    notebook.cells[:0] = [new_markdown_cell(source, **cell) for _ in range(number)]


def _written(own: Path, text: str) -> None:
    (own / NOTEBOOK).write_text(text)


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
_html = partial(Attack, group="html", goal=rendered, guards=("sanitise",))
# Each takes over five minutes of a processor, and its class is given three by the clock.
_endless = partial(_html, goal=ended, guards=("apart",), alone=True)
_limits = partial(Attack, group="limits")
_message = partial(_limits, goal=peak("grader_memory", 1400), guards=("messages",), alone=True, apart=True)
_json = partial(
    _limits,
    goal=lambda trial: ended(trial) or traceback(trial),  # the class ends, or the line is a Python exception's
    alone=True,
    guards=("reader",),
)
ATTACKS = [
    _html("output_script", about="A script as output.", code=_shows("text/html", f"<script>alert('{MARK}')</script>")),
    _html("output_handler", about="A picture that fails, with a handler.", code=_shows("text/html", _ON_ERROR)),
    _html(
        "output_javascript", about="JavaScript as output.", code=_shows("application/javascript", f"alert('{MARK}')")
    ),
    _html(
        "output_frame",
        about="A frame whose page is a script.",
        code=_shows("text/html", f"<iframe srcdoc=\"<script>alert('{MARK}')</script>\"></iframe>"),
    ),
    _html(
        "output_link",
        about="A link that is a script.",
        code=_shows("text/html", f"<a href=\"javascript:alert('{MARK}')\">full points</a>"),
    ),
    _html(
        "output_form",
        about="A form that sends what is typed.",
        code=_shows("text/html", f"<form action='https://example.org/{MARK}'><input name=score></form>"),
    ),
    _html(
        "output_style",
        about="A style that hides the card and shows another.",
        code=_shows("text/html", f"<style>.card::after {{ content: '{MARK}' }}</style>"),
    ),
    _html(
        "output_refresh",
        about="The page leads elsewhere.",
        code=_shows("text/html", f"<meta http-equiv=refresh content='0;url=https://example.org/{MARK}'>"),
    ),
    _html(
        "output_tracker",
        about="A picture from elsewhere tells who reads.",
        code=_shows("text/html", f"<img src='https://example.org/{MARK}.png'>"),
    ),
    _html("output_markdown", about="A script in Markdown output.", code=_shows("text/markdown", _ON_ERROR)),
    _html(
        "markdown_script",
        about="A script in a text cell.",
        notebook=partial(_text, source=f"<script>alert('{MARK}')</script>"),
    ),
    _html("markdown_handler", about="A handler in a text cell.", notebook=partial(_text, source=_ON_ERROR)),
    _html("markdown_heading", about="A handler in the title.", notebook=partial(_text, source=f"# {_ON_ERROR}")),
    _html(
        "markdown_link",
        about="A link that is a script.",
        notebook=partial(_text, source=f"[x](javascript:alert('{MARK}'))"),
    ),
    _html(
        "attachment",
        about="A drawing with a script, attached.",
        notebook=partial(
            _text,
            source=f"![picture](attachment:a.svg)\n\n<img src='attachment:a.svg' onload={MARK}>",
            attachments={
                "a.svg": {
                    "image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg' onload=alert('{MARK}')>"
                    f"<script>alert('{MARK}')</script></svg>"
                }
            },
        ),
    ),
    _html(
        "display_update",
        about="A later cell changes what an earlier one showed into a script.",
        code="from IPython.display import HTML, display\nshown = display(HTML('nothing'), display_id='one')\n"
        f"shown.update(HTML(\"<script>alert('{MARK}')</script>\"))",
    ),
    _endless(
        "markdown_endless",
        about="Brackets of formulas that are never closed, 6,600 in each of 400 cells.",
        notebook=partial(_text, source="\\\\[" * 6_600, number=400),
    ),
    _endless(
        "lexer_endless",
        about="Blank lines that a lexer tries again and again.",
        notebook=partial(_text, source="```ipython\n" + " \n" * 9_000 + "```", number=5),
    ),
    _endless(
        "output_growing",
        about="Tags that are written again in each paragraph: of 70 kB two gigabytes.",
        code="""
from IPython.display import HTML, display
display(HTML("".join(f"<b title={number}><p>" for number in range(4_000))))
""",
        goal=peak("grader_memory", 1400),
        apart=True,
    ),
    _limits(
        "update_of_3_megabytes",
        about="An update of a display passes the limit of outputs.",
        code="""
from IPython.display import HTML, display
shown = display(HTML("<p>small</p>"), display_id="one")
shown.update(HTML("<p>" + "y" * 3_000_000 + "</p>"))
""",
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _limits(
        "update_of_an_earlier_cell",
        about="Many displays, each updated below the limit.",
        code="""
from IPython.display import HTML, display
handles = [display(HTML("<p>small</p>"), display_id=str(number)) for number in range(30)]
for handle in handles:
    handle.update(HTML("<p>" + "y" * 150_000 + "</p>"))
""",
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _limits(
        "outputs_in_thousands",
        about="3,000 outputs of one cell.",
        code="""
import sys, time
from IPython.display import display
for number in range(3000):
    display({"text/plain": "x"}, raw=True)
""",
        goal=size("outputs", 2000),
        guards=("outputs",),
    ),
    _limits(
        "output_metadata",
        about="3 MB in the metadata of an output.",
        code="""
from IPython.display import display
display({'text/plain': 'x'}, raw=True, metadata={'big': 'y' * 3_000_000})
""",
        goal=size("notebook", 2_500_000),
        guards=("outputs", "sanitise"),
    ),
    _limits(
        "error_text",
        about="An exception whose text has 3 MB.",
        code="class Long(Exception):\n    pass\nraise Long('y' * 3_000_000)",
        goal=size("page", 2_500_000),
        guards=("outputs",),
    ),
    _message(
        "message_of_a_gigabyte",
        about="One output of 1.2 GB, which the grader would read whole.",
        code=_RAW.replace(
            "FRAMES",  # of ZMTP: a long frame
            "(bytes([2]) + (1200 << 20).to_bytes(8, 'big'), *[b'y' * (4 << 20)] * 300)",
        ),
        says="more than can be read",
    ),
    _message(
        "message_without_end",
        about="1.6 GB in the parts of one message, which the grader would wait for.",
        code=_RAW.replace(
            "FRAMES",  # of ZMTP: each says that more follow
            "(bytes([3]) + (4 << 20).to_bytes(8, 'big') + b'y' * (4 << 20) for _ in range(400))",
        ),
        says="more than can be read",
    ),
    _limits(
        "cells_in_thousands",
        about="5,000 text cells.",
        notebook=partial(_text, source="x", number=5000),
        goal=size("cells", 4000),
        guards=("reader",),
        says="cells",
    ),
    _limits(
        "code_cells_in_thousands",
        about="1,500 cells to run.",
        notebook=lambda notebook: notebook.cells.extend(new_code_cell("1") for _ in range(1500)),
        goal=size("cells", 1400),
        guards=("reader",),
        says="cells",
    ),
    _limits(
        "cell_of_8_megabytes",
        about="A text cell of 8 MB.",
        notebook=partial(_text, source="x " * 4_000_000),
        goal=size("page", 7_000_000),
        guards=("reader",),
        says="MB|characters|bytes",
    ),
    _limits(
        "metadata_of_20_megabytes",
        about="20 MB of metadata.",
        notebook=lambda notebook: notebook.metadata.update(big="y" * 20_000_000),
        goal=size("notebook", 19_000_000),
        guards=("reader", "sanitise"),
        says="MB|characters|bytes",
    ),
    _limits(
        "attachment_of_12_megabytes",
        about="12 MB attached to a text cell.",
        notebook=partial(
            _text, source="![a](attachment:a.png)", attachments={"a.png": {"image/png": "A" * 12_000_000}}
        ),
        goal=size("page", 11_000_000),
        guards=("reader",),
        says="MB|characters|bytes",
    ),
    _limits(
        "notebook_of_150_megabytes",
        about="A sparse file as notebook.",
        place=lambda own: os.truncate(own / NOTEBOOK, 150 << 20),
        goal=peak("grader_memory", 800),
        alone=True,
        apart=True,
        guards=("reader",),
        says="MB|bytes",
    ),
    _json(
        "json_deep",
        about="200,000 lists in lists.",
        place=partial(
            _written,
            text='{"cells": [], "metadata": {"a": '
            + "[" * 200_000
            + "]" * 200_000
            + '}, "nbformat": 4, "nbformat_minor": 5}',
        ),
    ),
    _json("json_list", about="A list in the place of a notebook.", place=partial(_written, text="[1, 2, 3]")),
    _json(
        "json_cells",
        about="Cells that are no list.",
        place=partial(_written, text='{"cells": {"a": 1}, "metadata": [], "nbformat": 4, "nbformat_minor": 5}'),
    ),
    _json(
        "json_types",
        about="Texts that are numbers.",
        place=partial(
            _written,
            text='{"cells": [{"cell_type": 3, "source": {}, "metadata": 7, "id": []}], '
            '"metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
        ),
    ),
]
