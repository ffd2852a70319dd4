"""The glossary on the site: a term's first use on a page leads to its entry, a search for it first to its step."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import dirname, relpath

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

PAGE = "docs/glossary"
ORDINARY = frozenset(
    ("engine", "plan", "kernel", "fusion", "workspace", "inspector", "scale", "zero point", "binding", "batch")
    + ("stream", "event", "saturation", "drift", "check", "claim")
)
"""Terms that are also ordinary words, or words of another subject: no text links to them."""

_ENTRY = re.compile(r"^### (?P<names>.+)\n\n(?P<text>(?:.+\n)+)", re.M)
_STEP = re.compile(r"\s*\(\[step \d+\]\(\.\./(?P<page>[^)]+)\.ipynb\)\)")
_NO_PROSE = (nodes.FixedTextElement, nodes.title, nodes.literal, nodes.reference, nodes.math, addnodes.pending_xref)


@dataclass(frozen=True)
class Entry:
    """One term: its names, definition without markup, anchor on the glossary's page, and the page that teaches it."""

    names: tuple[str, ...]
    text: str
    anchor: str
    step: str


def entries(page: str) -> Iterator[Entry]:
    """Yield what the glossary's Markdown defines.

    Raises:
        ValueError: an entry does not end with the link to its step.
    """
    for found in _ENTRY.finditer(page):
        step = _STEP.search(found["text"])
        if step is None:
            raise ValueError(f"the glossary's entry {found['names']!r} needs ([step N](../solutions/…)) at its end")
        text = " ".join(found["text"][: step.start()].replace("`", "").split())
        yield Entry(tuple(found["names"].split(", ")), text, nodes.make_id(found["names"]), step["page"])


class StepsInTheIndex(SphinxTransform):
    """A page is in the index of the search under the terms that it teaches: the best match for such a query."""

    default_priority = 880

    def apply(self, **kwargs: object) -> None:
        for entry in self.config.glossary:
            if entry.step == self.env.docname:
                terms = [("single", name, "", "main", None) for name in entry.names]
                self.document.append(addnodes.index(entries=terms))


class LinksToTerms(SphinxPostTransform):
    """The first use of each safe term in a page's prose leads to the glossary, with the definition as its title."""

    default_priority = 900  # after all links are made

    def run(self, **kwargs: object) -> None:
        terms = {name.lower(): entry for entry in self.config.glossary for name in entry.names}
        self.terms = {name: entry for name, entry in terms.items() if name not in ORDINARY}
        either = "|".join(re.escape(name) for name in sorted(self.terms, key=len, reverse=True))
        self.pattern, self.seen = re.compile(rf"(?<![\w-])({either})s?(?![\w-]|\.\d)", re.I), set()
        for text in list(self.document.findall(nodes.Text)) if self.env.docname != PAGE else ():
            if _is_prose(text):
                text.parent.replace(text, list(self._linked(text)))

    def _linked(self, text: str) -> Iterator[nodes.Node]:
        address, at = relpath(f"{PAGE}.html", dirname(self.env.docname) or "."), 0
        for found in self.pattern.finditer(text):
            entry = self.terms[found[1].lower()]
            if entry not in self.seen:
                self.seen.add(entry)
                yield nodes.Text(text[at : found.start()])
                place = {"refuri": f"{address}#{entry.anchor}", "reftitle": entry.text, "internal": True}
                yield nodes.reference("", found[0], classes=["term"], **place)
                at = found.end()
        yield nodes.Text(text[at:])


def _is_prose(text: nodes.Text) -> bool:
    """Whether a text is no heading, code, formula, link or output of a cell."""
    node = text.parent
    while node is not None:
        if isinstance(node, _NO_PROSE) or "cell_output" in node.get("classes", []):
            return False
        node = node.parent
    return True


def setup(app: Sphinx) -> None:
    """Sphinx's hook."""
    app.add_config_value("glossary", (), "env", types=[tuple])
    app.add_transform(StepsInTheIndex)
    app.add_post_transform(LinksToTerms)
