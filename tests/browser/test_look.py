"""What looks at the pages sees a fault where there is one, and none where there is none."""

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.browser.look import Fault, look, small

GREY = "background: #888; color: #999"


@pytest.mark.parametrize(
    ("fault", "page_with_it", "page_without", "said"),
    [
        ("unreadable", '<p style="color: #777">grey</p>', '<p style="color: #767676">grey</p>', "4.48"),
        ("unreadable", '<p style="color: #949494">grey</p>', '<h1 style="color: #949494">grey</h1>', "contrast 3.03"),
        (
            "unreadable",
            f'<div style="{GREY}"><p>on grey</p></div>',
            f'<div style="{GREY}"><p hidden>x</p></div>',
            "1.2",
        ),
        ("unreadable", '<p style="opacity: .4">pale</p>', '<p style="opacity: .7">pale</p>', "contrast 2"),
        (
            "unreadable",
            '<svg><rect width="90" height="90" fill="#333"/><text x="20" y="40">dark</text></svg>',
            '<svg><rect width="90" height="90" fill="#eee"/><text x="20" y="40">dark</text></svg>',
            "rgb(51,51,51)",
        ),
        (
            "cut",
            '<div style="width: 90px; overflow: hidden"><pre>a line that is long</pre></div>',
            '<div style="width: 90px; overflow: auto"><pre>a line that is long</pre></div>',
            "hides a part",
        ),
        ("cut", '<div style="width: 3000px">wide</div>', '<div style="width: 300px">wide</div>', "3008"),
        (
            "cut",
            '<div style="width: 90px; overflow: auto"><svg width="200"></svg></div>',
            '<div style="width: 290px; overflow: auto"><svg width="200"></svg></div>',
            "<svg",
        ),
        (
            "wide",
            '<div style="width: 90px; overflow: auto"><table><td>alongwordwithoutabreak</td></table></div>',
            '<div style="width: 90px; overflow: auto"><table><td>a long line of words</td></table></div>',
            "too wide",
        ),
        (
            "missing",
            '<img src="data:image/png;base64,AAAA">',
            "<img src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>\">",
            "data:image",
        ),
        ("unknown", "<p>feedback/<student>/x</p>", "<p>feedback/&lt;student&gt;/x</p>", "<student>"),
        (
            "overlapping",
            '<svg width="200"><text y="30">one</text><text x="9" y="35">two</text></svg>',
            '<svg width="200"><text y="30">one</text><text x="9" y="55">two</text></svg>',
            '"one" and "two" overlap',
        ),
        (
            "overlapping",
            '<svg width="60"><text y="30">a text that is long</text></svg>',
            '<svg width="260"><text y="30">a text that is long</text></svg>',
            "leaves the picture",
        ),
    ],
)
def test_each_fault_is_seen_where_it_is_and_only_there(
    page: Page, fault: Fault, page_with_it: str, page_without: str, said: str
) -> None:
    page.set_content(page_with_it)
    (found,) = look(page.locator("body"), fault) if fault != "overlapping" else look(page.locator("svg"), fault)
    assert said in found

    page.set_content(page_without)
    assert look(page.locator("body" if fault != "overlapping" else "svg"), fault) == []


def test_letters_of_a_picture_are_too_small_where_it_has_shrunk(page: Page, tmp_path: Path) -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="720" height="90" font-size="12"><text>a</text></svg>'
    (tmp_path / "drawing.svg").write_text(drawing)
    Image.new("RGB", (1000, 100)).save(tmp_path / "chart.png", dpi=(100, 100))
    Image.new("RGB", (1000, 100)).save(tmp_path / "photo.png")
    for width, said in (
        (390, ["drawing.svg has letters of 6.5 pixels", "chart.png has letters of 4.9 pixels"]),
        (720, []),
    ):
        pictures = [f'<img src="{name}" width="{width}">' for name in ("drawing.svg", "chart.png", "photo.png")]
        (tmp_path / "page.html").write_text("".join(pictures))
        page.goto((tmp_path / "page.html").as_uri())
        assert small(page.locator("body")) == said
