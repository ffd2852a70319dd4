"""A broken link, and what would be loaded from the network, is found in a built site; nothing else is."""

from pathlib import Path

import pytest

from website.links import problems


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b c.html").write_text("<h2 id='part-1'>Part</h2><a href='../a.html'>back</a>")
    (tmp_path / "picture.svg").write_text("<svg/>")
    (tmp_path / "look.css").write_text("/* @import 'gone.css' */ p { background: url(picture.svg) }")
    return tmp_path


def test_links_to_files_anchors_and_other_sites_are_right(site: Path) -> None:
    (site / "a.html").write_text(
        "<link rel='stylesheet' href='look.css'><link rel='canonical' href='https://example.org/a.html'>"
        "<h1 id='top'>A</h1><a href='#top'>up</a><a href='docs/b%20c.html#part-1'>part</a>"
        "<a href='https://example.org/x'>elsewhere</a><a href='mailto:a@example.org'>post</a>"
        "<img src='picture.svg' srcset='picture.svg 2x'><img src='data:image/gif;base64,AA'>"
    )
    assert problems(site) == []


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ("<a href='docs/gone.html'>x</a>", "a.html: docs/gone.html leads to no file"),
        ("<a href='docs/'>a folder</a>", "a.html: docs/ leads to no file"),
        ("<a href='docs/b%20c.html#part-2'>x</a>", "a.html: docs/b%20c.html#part-2 leads to no anchor of b c.html"),
        ("<a href='#nowhere'>x</a>", "a.html: #nowhere leads to no anchor of a.html"),
        ("<img src='gone.png'>", "a.html: gone.png leads to no file"),
        ("<img src='https://example.org/x.png'>", "a.html loads https://example.org/x.png from elsewhere"),
        ("<script src='//example.org/x.js'></script>", "a.html loads //example.org/x.js from elsewhere"),
        ("<link rel='icon' href='https://example.org/i'>", "a.html loads https://example.org/i from elsewhere"),
        ("<p style='background: url(https://example.org/i)'>", "a.html loads https://example.org/i from elsewhere"),
        ("<style>@import 'https://example.org/s'</style>", "a.html loads https://example.org/s from elsewhere"),
    ],
)
def test_each_wrong_address_is_named_with_its_page(site: Path, element: str, said: str) -> None:
    (site / "a.html").write_text(element)
    assert problems(site) == [said]


def test_a_stylesheet_that_loads_what_is_not_there_is_named(site: Path) -> None:
    (site / "a.html").write_text("")
    (site / "look.css").write_text("p { background: url('gone.svg') } @import \"https://example.org/s.css\"")
    assert problems(site) == [
        "look.css: gone.svg leads to no file",
        "look.css loads https://example.org/s.css from elsewhere",
    ]
