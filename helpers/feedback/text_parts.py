"""What a good analysis holds: points on which the visible and the hidden checks of step 8 agree."""

from typing import Any

from helpers.missed import Missed
from helpers.probes.quotes import candidates, count_words, matches, quotes

__all__ = ["FEWEST_QUOTES", "WORDS", "check_length", "check_quotes", "check_typed"]

WORDS = (200, 400)
FEWEST_QUOTES, FEWEST_UNITS = 5, 3


def check_length(text: Any) -> str:
    """Return the number of words of an analysis; raise Missed outside 200 to 400."""
    if not isinstance(text, str):
        raise Missed("the analysis as text", f"a {type(text).__name__}", "return the text itself")
    (words, all_words), (least, most) = count_words(text), WORDS
    if all_words < least or words > most:
        advice = "say what follows from the numbers" if all_words < least else "keep what a decision needs"
        raise Missed(f"{least} to {most} words", f"{all_words if all_words < least else words}", advice)
    return f"{words} words"


def check_quotes(text: Any, report: dict[str, Any]) -> str:
    """Return the figures that a text quotes; raise Missed where one is not the report's, or there are too few."""
    if not isinstance(text, str):
        raise Missed("the analysis as text", f"a {type(text).__name__}", "return the text itself")
    every, known = quotes(text), candidates(report)
    found = [quote for quote in every if matches(quote, known[quote.unit])]
    if strange := [quote for quote in every if quote not in found and not quote.free]:
        raise Missed(
            "every figure with a unit to be one of the report's, rounded",
            f"{strange[0].text!r} matches nothing in the report that was passed in"
            + (f", nor do {len(strange) - 1} more" if len(strange) > 1 else ""),
            "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'",
        )
    units = sorted({quote.unit for quote in found})
    if len(found) < FEWEST_QUOTES or len(units) < FEWEST_UNITS:
        raise Missed(
            f"at least {FEWEST_QUOTES} figures in at least {FEWEST_UNITS} of the units ×, ms, images/s, %, points, MB",
            f"{len(found)} figures ({', '.join(quote.text for quote in found[:8]) or 'none'})",
            "say with which numbers each conclusion stands",
        )
    return f"{len(found)} figures: {', '.join(quote.text for quote in found[:12])}"


def check_typed(texts: list[Any]) -> None:
    """Raise Missed where a figure stands in the texts about every one of several runs: it was typed, not taken.

    Free figures are left out, and 1, 0 and 100, which are true of any run somewhere (the baseline's speed-up).
    """
    found = [{quote.text: quote for quote in quotes(text)} for text in texts]
    same = [quote for written, quote in found[0].items() if all(written in other for other in found[1:])]
    typed = [quote.text for quote in same if not quote.free and abs(quote.value) not in (0, 1, 100)]
    if len(texts) > 1 and typed:
        raise Missed(
            "every figure with a unit to change with the report",
            f"{typed[0]!r} in the texts about {len(texts)} different runs",
            "take it from `report` in an f-string instead of typing it; a limit of your own reads 'at most …'",
        )
