"""Writes the table of messages: what each claim, and each point of a visible check, says when it is missed.

Every message comes from an entry of the bank that was really graded; none is typed by hand.
"""

import re
from pathlib import Path
from typing import Any

from helpers.course.steps import CELLS, GRADED
from helpers.tools.files import atomic_write
from solutions.checks.core.asked import points_of

_HEAD = """# Every message a check can give

What each claim, and each point of a visible check, says when it is missed, from an entry of the bank that really
missed it. `make submissions` writes this page, with `STEP=02_fp16` that step's part of it; it needs a machine with
nothing else to do, since it measures speed.
`make slow-test` runs a part of the bank that is decided in seconds and loses every claim of its cells
(`--quick --cover`), and sees that some wrong entry loses every claim.

"""
_LONGEST = 160
_STEP = re.compile(r"^(?=## )", re.M)
_POINT = re.compile(
    r"^  ✗ (?P<title>.+?)\n +expected +(?P<expected>.*?)\n +found +(?P<found>.*?)\n +try +(?P<try_this>.*?)$", re.M
)


def messages(figures: dict[str, Any]) -> dict[str, str]:
    """Return the Markdown tables of each step that has a message, from the figures of a run of the bank."""
    found = {}
    for step in GRADED:
        hidden, visible = _hidden(step, figures["entries"]), _visible(step, figures["entries"])
        if hidden:
            parts = [f"## {step}", "", *_table("claim", hidden), ""]
            if visible:
                parts += ["What the visible checks say:", "", *_table("point", visible), ""]
            found[step] = "\n".join(parts)
    return found


def claims_without_message(figures: dict[str, Any]) -> list[str]:
    """Return the claims of the steps that ran which no wrong entry loses: checks that were never seen to fail."""
    lost = {name for row in figures["entries"] if row["kind"] == "wrong" for name in row["lost"]}
    ran = {row["step"] for row in figures["entries"]}
    cells = [cell for cell, about in CELLS.items() if about.step in ran]
    return [claim.name for cell in cells for claim in points_of(cell) if claim.name not in lost]


def write_messages(document: str | Path, figures: dict[str, Any]) -> None:
    """Write the page of messages to `document`; steps that did not run keep what stands there."""
    parts = _parts_of(Path(document)) | messages(figures)
    atomic_write(document, _HEAD + "\n".join(parts[step] for step in GRADED if step in parts))


def _parts_of(document: Path) -> dict[str, str]:
    """Return a page's part of each step, as `messages` gives them."""
    text = document.read_text() if document.is_file() else ""
    return {part[3:].split("\n", 1)[0]: part.rstrip("\n") + "\n" for part in _STEP.split(text)[1:]}


def _hidden(step: str, rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row["step"] == step and row["kind"] == "wrong":
            for claim, missed in row["lost"].items():
                if missed and claim not in found and claim not in row["lost_wrongly"]:
                    found[claim] = (
                        f"`{claim}`",
                        row["name"],
                        *(missed[key] for key in ("expected", "found", "try_this")),
                    )
    return list(found.values())


def _visible(step: str, rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if row["step"] == step and row["kind"] == "wrong":
            for text in row["visible"].values():
                for match in _POINT.finditer(text):
                    found.setdefault(match["title"], (match["title"], row["name"], *match.group(2, 3, 4)))
    return list(found.values())


def _table(first: str, rows: list[tuple[str, ...]]) -> list[str]:
    head = [f"| {first} | entry | expected | found | try |", "|---|---|---|---|---|"]
    return head + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(value: str) -> str:
    """Return a value as one table cell: on one line, shortened, without the folders of the machine it ran on."""
    text = re.sub(r"/tmp/[\w./-]*/", "…/", " ".join(value.split())).replace("|", "\\|")
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return re.sub(r"<(?=[a-z/!])", r"\\<", text)  # a tag that is written about is no tag of the page
