"""What attacks try to reach, as questions about what was seen of them."""

import csv
import re

from bs4 import BeautifulSoup

from tests.hostile.attack import BASE, MARK, SECRET, Goal, Trial

_ACTIVE = ("script", "style", "iframe", "object", "embed", "form", "base", "meta", "link", "svg", "math", "portal")
_LOADS = ("src", "srcset", "style", "formaction")


def gains(trial: Trial) -> bool:
    """More points than the notebook without the attack."""
    return trial.points > BASE


def ended(trial: Trial) -> bool:
    """The class was not graded to its end, or an honest student lost points."""
    return not trial.seen.finished


def leaks(trial: Trial) -> bool:
    """The secret came out in the notebook or the feedback."""
    return SECRET in trial.notebook or SECRET in trial.page


def survives(trial: Trial) -> bool:
    """A process outlived the grader."""
    return bool(trial.seen.survivors)


def slows(trial: Trial) -> bool:
    """Processes outside got a lower priority."""
    return trial.seen.slowed > 0


def heard(trial: Trial) -> bool:
    """Something outside received what the student's code sent."""
    return any(text.endswith(trial.student) for text in trial.seen.heard)


def traceback(trial: Trial) -> bool:
    """The instructor reads a traceback, or the name or the words of a Python exception, instead of a clear line."""
    names = r"Traceback|\b(Type|Attribute|Key|Unicode\w*|Recursion|Memory|Index)Error\b"
    words = "unsupported operand|not supported between|object is not|unhashable type|has no attribute"
    return bool(re.search(f"{names}|{words}", trial.lines)) or "Traceback" in trial.seen.said


def formula(trial: Trial) -> bool:
    """A spreadsheet that splits grades.csv at commas or at semicolons takes a cell of it for a formula."""
    rows = (row for at in ",;" for row in csv.reader(trial.seen.grades.splitlines(), delimiter=at))
    return any(cell.lstrip(' "').startswith(("=", "+", "-", "@", "\t")) for row in rows for cell in row)


def touches(pattern: str) -> Goal:
    """Return whether a file outside the attacker's folders was made, changed or removed: its path matches."""
    return lambda trial: any(re.search(pattern, path) for path in trial.seen.touched)


def peak(what: str, most: float) -> Goal:
    """Return whether a peak of the class passed `most`: megabytes, or processes and threads at once.

    It is "memory" of all students' processes together, "grader_memory" of grader or judge, one process (those started
    ahead only share pages), "processes", or "disk" of the course, the home and the temporary files.
    """
    return lambda trial: trial.seen.peaks[what] > most


def size(what: str, number: float) -> Goal:
    """Return whether the attacker's `what` ("page", "notebook", "cells", "outputs") is larger than `number`."""
    return lambda trial: trial.seen.sizes.get(f"{trial.student} {what}", 0) > number


def said(pattern: str) -> Goal:
    """Return whether the grader said something that matches."""
    return lambda trial: bool(re.search(pattern, trial.seen.said))


def rendered(trial: Trial) -> bool:
    """A browser that shows the feedback or the notebook in formgrader would run or fetch what the student wrote."""
    return bool(live_marks(trial.page))


def live_marks(page: str) -> list[str]:
    """Return what of `page` holds MARK and would be acted on: scripts, handlers, frames, forms, styles, addresses."""
    soup = BeautifulSoup(page, "html.parser", multi_valued_attributes=None)
    found = [str(tag)[:80] for tag in soup(["script", "style"]) if MARK in "".join(tag.strings)]
    for tag in soup(True):
        for name, value in tag.attrs.items():
            acts = tag.name in _ACTIVE or name.startswith("on") or name in _LOADS
            script = re.match(r"\s*(javascript|vbscript|data:text/html)", value, re.I)
            if MARK in value and (acts or script):
                found.append(f"<{tag.name} {name}={value}>")
    return found
