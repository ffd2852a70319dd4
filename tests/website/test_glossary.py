"""The glossary's entries, and what on a page leads to them."""

import re
from pathlib import Path

import pytest
from sphinx.cmd.build import main as sphinx

from helpers.course.steps import NOTEBOOKS
from website.glossary import ORDINARY, entries

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PAGE = """\
# Warm-up of FP16

Code such as `INT8` and [a link on latency](https://example.org/) stay. The plan is to run events, at zero points.

Two **Calibration caches** and a calibration cache, an INT8-only device; p99.9 is no p99, a calibrator calibrates.
"""
CONF = """\
from pathlib import Path
from website.glossary import entries

extensions = ["myst_parser", "website.glossary"]
glossary = tuple(entries(Path("{glossary}").read_text()))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page above, as Sphinx writes it."""
    folder = tmp_path_factory.mktemp("site")
    texts = {"conf.py": CONF.format(glossary=ROOT / "docs" / "glossary.md"), "index.md": PAGE}
    for name, text in texts.items():
        (folder / name).write_text(text)
    assert sphinx(["-q", "-b", "html", str(folder), str(folder / "out")]) == 0
    return (folder / "out" / "index.html").read_text()


def test_every_entry_has_a_definition_of_a_sentence_or_more_and_the_page_of_its_step() -> None:
    found = list(entries(GLOSSARY))
    assert len(found) == GLOSSARY.count("\n### ") > 40
    for entry in found:
        assert entry.text.endswith(".") and "`" not in entry.text and "[" not in entry.text
        assert Path(entry.step).name in NOTEBOOKS and (ROOT / f"{entry.step}.ipynb").is_file()
    assert {name.lower() for entry in found for name in entry.names} >= ORDINARY


def test_an_entry_without_its_step_is_named() -> None:
    with pytest.raises(ValueError, match="'Plan' needs"):
        list(entries("### Plan\n\nA serialized engine.\n"))


def test_the_first_use_of_a_term_is_linked_with_its_definition_and_no_other_word(page: str) -> None:
    linked = re.findall(r'<a class="term reference internal" href="([^"]+)" title="([^"]+)">([^<]+)</a>', page)
    assert [(address, word) for address, _, word in linked] == [
        ("docs/glossary.html#calibration-cache", "Calibration caches"),
        ("docs/glossary.html#p99", "p99"),
        ("docs/glossary.html#calibrator", "calibrator"),
    ]
    assert linked[0][1].startswith("The file that keeps the scales")
