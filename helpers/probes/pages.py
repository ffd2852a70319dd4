"""Reads a web page: what a visitor sees of its text, its pictures and its tables."""

from html.parser import HTMLParser

__all__ = ["Page"]


class Page(HTMLParser):
    """A web page's visible text, the sources of its pictures, and its tables: rows of cells, each cell its text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.tables: list[list[list[str]]] = []
        self._in_cell = False
        self._parts: list[str] = []
        self._hidden = 0
        self.feed(source)
        self.close()

    @property
    def text(self) -> str:
        """The visible text, white space as single spaces."""
        return " ".join(" ".join(self._parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        if tag in ("td", "th") and self.tables and self.tables[-1]:
            self.tables[-1][-1].append("")
        # A cell need not be closed in HTML: the next tag of a table ends it.
        self._in_cell = tag in ("td", "th") or (self._in_cell and tag not in ("table", "tr"))
        found = dict(attrs)
        if tag in ("img", "embed", "object", "a", "source"):
            self.pictures += [found[key] or "" for key in ("src", "data", "href") if key in found]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script") and self._hidden > 0
        self._in_cell = self._in_cell and tag not in ("td", "th", "tr", "table")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self._parts.append(data)
        if self._in_cell and self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data
