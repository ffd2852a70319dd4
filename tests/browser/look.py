"""What an eye finds wrong on a page: too little contrast, cut content, texts on top of each other. look.js looks."""

from pathlib import Path
from typing import Literal

from playwright.sync_api import Locator

Fault = Literal["unreadable", "cut", "wide", "missing", "unknown", "overlapping"]

_SCRIPT = Path(__file__).with_suffix(".js").read_text()


def look(at: Locator, *faults: Fault) -> list[str]:
    """Return a sentence for each of these faults in what a locator names; what is folded is not seen.

    unreadable: text with a contrast below WCAG's 4.5 (3 for large text and signs); cut: content that nobody can see
    whole; wide: tables and printed lines that have to be scrolled sideways; missing: pictures that did not load;
    unknown: text that was taken for an HTML element; overlapping: texts of an SVG on each other, or outside of it.
    """
    looks = "return roots.flatMap(root => names.flatMap(name => eye[name](root)))"
    return at.evaluate_all(f"(roots, names) => {{ const eye = {_SCRIPT}; {looks} }}", list(faults))
