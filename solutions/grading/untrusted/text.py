"""Text of a stranger's, such as a file's name, as a terminal, a page and a spreadsheet may show it."""

import re
import unicodedata

_FORMULA = re.compile(r"""(^|;)(?=[\s"]*[=+\-@＝＋－＠])""")


def printable(text: str) -> str:
    """Return the text with an escape for each character that is none to print: no terminal obeys it, no line ends."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def single_line(text: str) -> str:
    """Return the text with an escape for each control character, line end and half of a character.

    What names hold stays: the joiners of Persian and Hindi, and spaces that do not break.
    """
    ends = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(ascii(letter)[1:-1] if unicodedata.category(letter) in ends else letter for letter in text)


def text_cell(text: str) -> str:
    """Return a cell's text such that a spreadsheet takes no part of it for a formula, split at commas or semicolons."""
    return _FORMULA.sub(r"\1'", re.sub(r"[\t\r\n]", " ", text))
