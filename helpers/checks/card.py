"""The card that shows a check's verified and missed points: HTML in Jupyter, plain text elsewhere."""

import html
import sys
from dataclasses import dataclass, field

from helpers.checks.missed import Missed

_NOTE = "opacity:.75"  # keeps the text's colour, which the theme chooses
_MARKS = {True: "✓", False: "✗", None: "○"}
_COLOURS = {True: "var(--jp-success-color1, #388e3c)", False: "var(--jp-error-color1, #e53935)", None: "inherit"}
"""In JupyterLab its theme's colours for success and error; elsewhere colours that show on light and dark pages."""


@dataclass(frozen=True)
class Line:
    """One point: verified (`ok` is True), missed (False), or not decided yet (None).

    `note` is the evidence, `points` a text such as "1.5 of 2", `link` the address behind the title.
    """

    ok: bool | None
    title: str
    note: str = ""
    missed: Missed | None = None
    points: str = ""
    link: str = ""


@dataclass
class Card:
    """A check's result: a title and its lines. `_repr_html_` is Jupyter's hook, `str()` the plain form."""

    title: str
    lines: list[Line] = field(default_factory=list)
    footer: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether all lines are verified, and there is at least one; None if some are not decided."""
        marks = {line.ok for line in self.lines}
        return None if None in marks else marks == {True}

    def __str__(self) -> str:
        rows = [f"{_MARKS[self.ok]} {self.title}"]
        for line in self.lines:
            points = f"  [{line.points}]" if line.points else ""
            note = f": {line.note}" if line.note else ""
            rows.append(f"  {_MARKS[line.ok]} {line.title}{note}{points}")
            rows += [f"      {name:<9} {text}" for name, text in _details(line)]
        return "\n".join([*rows, self.footer] if self.footer else rows)

    def _repr_html_(self) -> str:
        rows = "".join(_html_line(line) for line in self.lines)
        footer = f'<div style="margin-top:4px;{_NOTE}">{html.escape(self.footer)}</div>' if self.footer else ""
        return (
            f'<div style="border-left:4px solid {_COLOURS[self.ok]};padding:6px 12px;margin:4px 0">'
            f"<b>{html.escape(self.title)}</b>{rows}{footer}</div>"
        )


def _details(line: Line) -> list[tuple[str, str]]:
    missed = line.missed
    return [("expected", missed.expected), ("found", missed.found), ("try", missed.try_this)] if missed else []


def _html_line(line: Line) -> str:
    mark = f'<b style="color:{_COLOURS[line.ok]}">{_MARKS[line.ok]}</b>'
    title = html.escape(line.title)
    linked = f'<a href="{html.escape(line.link)}">{title}</a>' if line.link else title
    note = f' <span style="{_NOTE}">{html.escape(line.note)}</span>' if line.note else ""
    points = f' <span style="{_NOTE}">[{html.escape(line.points)}]</span>' if line.points else ""
    details = "".join(
        f'<div style="margin-left:24px"><i>{name}</i> {html.escape(text)}</div>' for name, text in _details(line)
    )
    return f"<div>{mark} {linked}{note}{points}{details}</div>"


def show(card: Card) -> None:
    """Display the card: HTML in a notebook, plain text in a terminal or a script."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is not None and getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display(card)
    else:
        print(card)
