"""What a chart's SVG shows: the picture is what a reader gets, whatever is said of the figure that it was made from.

It is a stranger's file: only its text is searched, nothing in it is run, loaded or expanded.
"""

import re
from collections.abc import Iterable
from xml.sax.saxutils import unescape

from helpers.checks.probes.loads import loads

_TEXT = re.compile(r"<text\b[^<>]*>((?:(?!<text\b).)*?)</text>", re.DOTALL)
_SHAPE = re.compile(r"<(?:path|use|g)\b[^<>]*?\bclip-path=")
_SECONDS = 20
_SYMBOLS = {r"\times": "×", r"\%": "%", r"\cdot": "·"}


@loads(seconds=_SECONDS)
def shown(svg: bytes) -> str:
    """Return all texts of a picture, one after the other, without blanks."""
    texts = _TEXT.findall(svg.decode(errors="replace"))
    return _bare("".join(unescape(re.sub(r"<[^<>]*>", "", text)) for text in texts))


def unseen(texts: Iterable[str], svg: bytes) -> list[str]:
    """Return those of `texts` that a picture does not show."""
    there = shown(svg)
    letters = _letters(there)
    return [text for text in texts if _bare(text) not in there and not (_is_math(text) and _math(text, there, letters))]


@loads(seconds=_SECONDS)
def shapes(svg: bytes) -> int:
    """Return how many lines, bars or points a picture has within its plots."""
    return len(_SHAPE.findall(svg.decode(errors="replace")))


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text)


def _is_math(text: str) -> bool:
    return "$" in text


def _math(text: str, there: str, letters: str) -> bool:
    """Return whether a text in mathematical notation is there: its symbols, and its letters in order."""
    for command, symbol in _SYMBOLS.items():
        if command in text and symbol not in there:
            return False
    return _letters(re.sub(r"\\[A-Za-z]+", "", text)) in letters


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())
