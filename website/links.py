"""Looks at a built site: every link leads to a file and an anchor that are there, and no page needs the network."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"src", "srcset", "poster", "data"}  # attributes whose address a browser fetches by itself
_LOADING_LINKS = {"stylesheet", "icon", "shortcut", "preload", "modulepreload", "prefetch", "manifest", "mask-icon"}
_CSS_ADDRESS = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')]+)""")
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.S)


@dataclass
class _Page(HTMLParser):
    """The anchors of a page, the addresses it links to, and those it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.loads += [address for name in _LOADED & given.keys() for address in _addresses(name, given[name])]
        self.loads += _css_addresses(given.get("style", ""))
        if "href" in given:
            loading = tag == "link" and _LOADING_LINKS & set(given.get("rel", "").split())
            (self.loads if loading or tag in ("image", "use") else self.links).append(given["href"])
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loads += _css_addresses(data)


def problems(site: Path) -> list[str]:
    """Return a line for each link in the pages and stylesheets of `site` that leads nowhere or loads from elsewhere."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        found += [f"{name} loads {address} from elsewhere" for address in page.loads if _is_elsewhere(address)]
        found += [f"{name}: {text}" for address in page.links + page.loads if (text := _broken(path, address, pages))]
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site)
        for address in _css_addresses(path.read_text()):
            if _is_elsewhere(address):
                found.append(f"{name} loads {address} from elsewhere")
            elif text := _broken(path.resolve(), address, pages):
                found.append(f"{name}: {text}")
    return found


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    return page


def _addresses(name: str, value: str) -> list[str]:
    """The addresses in an attribute: srcset holds several, each with a width."""
    return [part.split()[0] for part in value.split(",") if part.strip()] if name == "srcset" else [value]


def _css_addresses(text: str) -> list[str]:
    return ["".join(found) for found in _CSS_ADDRESS.findall(_CSS_COMMENT.sub("", text))]


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def _broken(page: Path, address: str, pages: dict[Path, _Page]) -> str:
    """What is wrong with an address on `page`; empty if it leads somewhere or is not the site's."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_file():
        return f"{address} leads to no file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"{address} leads to no anchor of {target.name}"
    return ""
