"""What attacks try to reach, as questions about what was seen of them."""

import csv
import re
from collections.abc import Callable
from html.parser import HTMLParser

from tests.hostile.attack import BASE, MARK, SECRET, Trial


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


def touches(pattern: str) -> Callable[[Trial], bool]:
    """Return whether a file outside the attacker's folders was made, changed or removed: its path matches."""
    return lambda trial: any(re.search(pattern, path) for path in trial.seen.touched)


def memory(megabytes: float) -> Callable[[Trial], bool]:
    """Return whether all processes together held more than `megabytes`."""
    return lambda trial: trial.seen.peak_memory_mb > megabytes


def grader_memory(megabytes: float) -> Callable[[Trial], bool]:
    """Return whether grader or judge, one process, held more than `megabytes`; those started ahead only share pages."""
    return lambda trial: trial.seen.peak_grader_mb > megabytes


def processes(number: int) -> Callable[[Trial], bool]:
    """Return whether there were more than `number` processes and threads at once."""
    return lambda trial: trial.seen.peak_processes > number


def disk(megabytes: float) -> Callable[[Trial], bool]:
    """Return whether the course, the home and the temporary files came to hold more than `megabytes`."""
    return lambda trial: trial.seen.peak_disk_mb > megabytes


def size(what: str, number: float) -> Callable[[Trial], bool]:
    """Return whether the attacker's `what` ("page", "notebook", "cells", "outputs") is larger than `number`."""
    return lambda trial: trial.seen.sizes.get(f"{trial.student} {what}", 0) > number


def said(pattern: str) -> Callable[[Trial], bool]:
    """Return whether the grader said something that matches."""
    return lambda trial: bool(re.search(pattern, trial.seen.said))


def rendered(trial: Trial) -> bool:
    """A browser that shows the feedback or the notebook in formgrader would run or fetch what the student wrote."""
    return bool(live_marks(trial.page))


class _Live(HTMLParser):
    """Finds what a browser would act on: scripts, handlers, frames, forms, styles and addresses that hold MARK."""

    _ACTIVE = ("script", "style", "iframe", "object", "embed", "form", "base", "meta", "link", "svg", "math", "portal")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._open.append(tag)
        for name, value in attrs:
            told = MARK in (value or "")
            acts = tag in self._ACTIVE or name.startswith("on") or name in ("src", "srcset", "style", "formaction")
            script = re.match(r"\s*(javascript|vbscript|data:text/html)", value or "", re.I)
            if told and (acts or script):
                self.found.append(f"<{tag} {name}={value}>")

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and MARK in data:
            self.found.append(f"<{self._open[-1]}>{data[:80]}")


def live_marks(page: str) -> list[str]:
    """Return what of `page` holds MARK and would be acted on by a browser."""
    parser = _Live()
    parser.feed(page)
    return parser.found
