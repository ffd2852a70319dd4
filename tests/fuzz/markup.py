"""What a page's HTML consists of, read by Python's own parser."""

from html.parser import HTMLParser


class _Parts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, "", ""), *((tag, name, value or "") for name, value in attrs)]


def parts(text: str) -> list[tuple[str, str, str]]:
    """Return each tag of an HTML text as (tag, "", ""), followed by its attributes as (tag, name, value)."""
    parsed = _Parts()
    parsed.feed(text)
    parsed.close()
    return parsed.found
