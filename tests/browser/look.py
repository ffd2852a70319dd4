"""What an eye finds wrong on a page: too little contrast, cut content, texts on top of each other. look.js looks."""

import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from PIL import Image
from playwright.sync_api import Locator

Fault = Literal["unreadable", "cut", "wide", "missing", "unknown", "overlapping"]

_LEAST_LETTERS = 8.5  # pixels
_CHART_LETTERS = 9 / 72  # inches: charts' labels have nine points
_SCRIPT = Path(__file__).with_suffix(".js").read_text()


def look(at: Locator, *faults: Fault) -> list[str]:
    """Return a sentence for each of these faults in what a locator names; what is folded is not seen.

    unreadable: text with a contrast below WCAG's 4.5 (3 for large text and signs); cut: content that nobody can see
    whole; wide: tables and printed lines that have to be scrolled sideways; missing: pictures that did not load;
    unknown: text that was taken for an HTML element; overlapping: texts of an SVG on each other, or outside of it.
    """
    looks = "return roots.flatMap(root => names.flatMap(name => eye[name](root)))"
    return at.evaluate_all(f"(roots, names) => {{ const eye = {_SCRIPT}; {looks} }}", list(faults))


def small(at: Locator) -> list[str]:
    """Return a sentence for each picture from a file whose letters are shown smaller than about nine pixels."""
    sizes = "all => all.map(image => [image.src, image.naturalWidth, image.getBoundingClientRect().width])"
    found = []
    for address, natural, shown in at.locator("img").evaluate_all(sizes):
        path = Path(unquote(urlsplit(address).path))
        letters = _letters(path) * shown / natural if shown else _LEAST_LETTERS
        if letters < _LEAST_LETTERS:
            found.append(f"{path.name} has letters of {letters:.1f} pixels")
    return found


def _letters(picture: Path) -> float:
    """The size of the smallest letters in a picture's own pixels; infinite where nobody can tell."""
    if picture.suffix == ".svg":
        return min(map(float, re.findall(r'font-size="([\d.]+)"', picture.read_text())), default=float("inf"))
    with Image.open(picture) as opened:
        return opened.info["dpi"][0] * _CHART_LETTERS if "dpi" in opened.info else float("inf")
