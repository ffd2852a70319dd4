"""Makes a stranger's text, such as a file name, safe to show in a terminal, on a page and in a spreadsheet."""

import re
import unicodedata

_FORMULA = re.compile(r"""(^|;)(?=[\s"]*[=+\-@＝＋－＠])""")


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped, so that it stays one line and controls no terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def single_line(text: str) -> str:
    """Return the text with an escape for each control character, line end and lone surrogate.

    What real names have stays: the joiners of Persian and Hindi, and no-break spaces.
    """
    ends = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(ascii(letter)[1:-1] if unicodedata.category(letter) in ends else letter for letter in text)


def text_cell(text: str) -> str:
    """Return a cell's text in which no spreadsheet sees a formula, even if it splits cells at semicolons."""
    return _FORMULA.sub(r"\1'", re.sub(r"[\t\r\n]", " ", text))
