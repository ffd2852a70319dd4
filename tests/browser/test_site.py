"""The site and the lab's drawings as readers see them: on a wide and a narrow screen, light and dark."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.course import ROOT
from tests.browser.look import look
from website.repository import PAGES, PICTURES, Repository

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
THEMES = ("light", "dark")

_REPOSITORY = Repository.at(ROOT)
_PAGES = ["index.html", "search.html", *(str(path.with_suffix(".html")) for path in _REPOSITORY.files(PAGES))]
_DRAWINGS = [path for path in _REPOSITORY.files(PICTURES) if path.suffix == ".svg"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "website", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-3000:]
    assert str(folder / "index.html") in done.stdout
    return folder


@pytest.mark.parametrize("name", _PAGES)
def test_a_page_can_be_read_light_and_dark_on_wide_and_narrow_screens(
    page: Page, site: Path, complaints: list[str], picture: Callable[[str], None], name: str
) -> None:
    page.goto((site / name).as_uri())
    page.add_style_tag(content="* { animation: none !important; transition: none !important }")
    found = look(page.locator("article"), "missing", "unknown")
    for screen in (WIDE, NARROW):
        page.set_viewport_size(screen)
        found += [f"{screen['width']} pixels wide: {fault}" for fault in look(page.locator("article"), "cut")]
        if screen == WIDE:
            found += look(page.locator("article"), "wide")
    page.set_viewport_size(WIDE)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        picture(f"site-{name.removesuffix('.html').replace('/', '-')}-{theme}")
        found += [f"{theme}: {fault}" for fault in look(page.locator("body"), "unreadable")]
    page.evaluate("for (const folded of document.querySelectorAll('article details')) folded.open = true")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}, unfolded: {fault}" for fault in look(page.locator("article details"), "unreadable")]
    assert sorted(set(found)) + complaints == []


@pytest.mark.parametrize("drawing", _DRAWINGS, ids=str)
def test_a_drawing_has_no_text_on_another_and_can_be_read_light_and_dark(page: Page, drawing: Path) -> None:
    page.goto((ROOT / drawing).as_uri())
    found = look(page.locator("svg"), "overlapping")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}: {fault}" for fault in look(page.locator("svg"), "unreadable")]
    assert found == []


def test_a_drawing_follows_the_theme_that_a_reader_chose(page: Page, site: Path) -> None:
    page.emulate_media(color_scheme="light")
    page.goto((site / "solutions/02_fp16/02_fp16.html").as_uri())
    drawing = page.locator("article img").first

    expect(drawing).to_have_css("color-scheme", "normal")
    page.evaluate("document.body.dataset.theme = 'dark'")
    expect(drawing).to_have_css("color-scheme", "dark")


def test_a_search_finds_a_page_without_a_server(page: Page, site: Path, complaints: list[str]) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill("pageable")
    page.keyboard.press("Enter")

    expect(page.locator("#search-results").get_by_role("link", name="Step 5").first).to_be_visible()
    assert complaints == []


def test_a_step_has_answers_and_drawing_code_folded_and_opens_the_task_in_colab(page: Page, site: Path) -> None:
    page.goto((site / "solutions/04_int8/04_int8.html").as_uri())
    article = page.locator("article")

    answers = article.locator("details").filter(has=page.locator("summary", has_text="Answers"))
    expect(answers.first).not_to_have_attribute("open", "")
    code = article.locator("details.hide")
    expect(code.first.locator("pre")).to_be_hidden()
    code.first.locator("summary").click()
    expect(code.first.locator("pre")).to_be_visible()
    address = article.get_by_role("link", name="Open in Colab").get_attribute("href") or ""
    assert address.startswith("https://colab.research.google.com/github/")
    assert address.endswith("/labs/04_int8/04_int8.ipynb")
    expect(article.locator(".math svg[role=img]").first).to_be_visible()
