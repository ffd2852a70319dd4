"""The site and the lab's drawings as readers see them: on a wide and a narrow screen, light and dark."""

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from helpers.course.steps import NOTEBOOKS
from tests.browser.course import ROOT
from tests.browser.look import look, small
from website.repository import PAGES, PICTURES, Repository

NARROW, WIDE = 390, (1366, 1440, 1600)  # pixels: a phone's screen, and those on which "On this page" is shown
THEMES = ("light", "dark")
MOMENTS = (0, 0.1, 0.25, 0.4, 0.55, 1)  # of a drawing that moves

_REPOSITORY = Repository.at(ROOT)
_PAGES = [
    "index.html",
    "names.html",
    "search.html",
    *(str(path.with_suffix(".html")) for path in _REPOSITORY.files(PAGES)),
]
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
    for width in (NARROW, *WIDE):
        page.set_viewport_size({"width": width, "height": 800})
        seen = small(page.locator("article")) + look(page.locator("article"), "cut")
        if width != NARROW:
            seen += look(page.locator(".toc-drawer"), "cut") + look(page.locator("article"), "wide")
        if more := page.evaluate("document.documentElement.scrollWidth - innerWidth"):
            seen.append(f"the page is {more} pixels too wide")
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            if width <= WIDE[0]:
                picture(f"site-{name.removesuffix('.html').replace('/', '-')}-{width}-{theme}")
            seen += [f"{theme}: {fault}" for fault in look(page.locator("body"), "unreadable")]
        found += [f"{width} pixels wide: {fault}" for fault in seen]
    page.evaluate("for (const folded of document.querySelectorAll('article details')) folded.open = true")
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}, unfolded: {fault}" for fault in look(page.locator("article details"), "unreadable")]
    assert sorted(set(found)) + complaints == []


@pytest.mark.parametrize("drawing", _DRAWINGS, ids=str)
def test_a_drawing_has_no_text_on_another_and_can_be_read_light_and_dark(page: Page, drawing: Path) -> None:
    page.goto((ROOT / drawing).as_uri())
    found = []
    for moment in MOMENTS if page.evaluate("document.getAnimations().length") else MOMENTS[-1:]:
        page.evaluate(
            "moment => document.getAnimations().forEach(part => { part.pause(); "
            "part.currentTime = moment * part.effect.getComputedTiming().duration })",
            moment,
        )
        found += look(page.locator("svg"), "overlapping")
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            found += [f"{theme}: {fault}" for fault in look(page.locator("svg"), "unreadable")]
    assert found == []


def test_a_moving_drawing_stands_still_for_a_reader_who_wants_less_motion_and_on_paper(page: Page) -> None:
    moving = [drawing for drawing in _DRAWINGS if "@keyframes" in (ROOT / drawing).read_text()]
    assert len(moving) == 4
    for drawing in moving:
        page.goto((ROOT / drawing).as_uri())
        assert page.evaluate("document.getAnimations().length") > 0
        for less in ({"reduced_motion": "reduce"}, {"reduced_motion": "no-preference", "media": "print"}):
            page.emulate_media(**less)
            assert page.evaluate("document.getAnimations().length") == 0
        page.emulate_media(media="screen")


def test_a_drawing_follows_the_theme_that_a_reader_chose(page: Page, site: Path) -> None:
    page.emulate_media(color_scheme="light")
    page.goto((site / "solutions/02_fp16/02_fp16.html").as_uri())
    drawing = page.locator("article img").first

    expect(drawing).to_have_css("color-scheme", "normal")
    page.evaluate("document.body.dataset.theme = 'dark'")
    expect(drawing).to_have_css("color-scheme", "dark")


def _search(page: Page, site: Path, words: str) -> Locator:
    """What the search of the site finds, best first."""
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").fill(words)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Search finished")).to_be_visible()
    return page.locator("#search-results li")


def test_a_search_finds_the_step_that_teaches_a_term_first_and_shows_the_place(
    page: Page, site: Path, complaints: list[str]
) -> None:
    for words, step in {"calibration cache": "Step 4", "pageable": "Step 5", "roofline": "Step 12"}.items():
        first = _search(page, site, words).first
        expect(first.get_by_role("link")).to_contain_text(step)
        expect(first.locator(".context")).to_contain_text(words, ignore_case=True)
    assert complaints == []


def test_a_search_for_a_pasted_message_finds_the_page_of_the_messages(page: Page, site: Path) -> None:
    pages = _REPOSITORY.files(("labs/messages/[0-9]*.md",))
    message = max(re.findall(r"[\w ,;:=]{60,}", (ROOT / pages[0]).read_text()), key=len)
    for pasted in (message, f"{message} (0.1234, 77)", f"✗ {message} qwertyz"):
        found = _search(page, site, pasted)
        assert f"{pages[0].stem}.html" in [address.split("/")[-1].split("#")[0] for address in _addresses(found)]


def _addresses(results: Locator) -> list[str]:
    return results.get_by_role("link").evaluate_all("all => all.map(link => link.getAttribute('href'))")


def test_the_chapters_follow_each_other(site: Path) -> None:
    for before, after in pairwise(NOTEBOOKS):
        for name, kind, other in ((before, "next", after), (after, "prev", before)):
            text = (site / f"solutions/{name}/{name}.html").read_text()
            assert f'class="{kind}-page" href="../{other}/{other}.html"' in text


def test_a_solution_is_folded_under_its_task_and_opened_by_key_click_and_on_paper(page: Page, site: Path) -> None:
    page.goto((site / "solutions/04_int8/04_int8.html").as_uri())
    solutions = page.locator("article details.hide", has=page.get_by_text("Try first, then look"))
    cells = nbformat.read(ROOT / "solutions/04_int8/04_int8.ipynb", as_version=4).cells
    assert solutions.count() == sum("### BEGIN SOLUTION" in cell.source for cell in cells) > 0
    code = solutions.first.locator("pre")
    expect(code).to_be_hidden()
    page.emulate_media(media="print")
    expect(code).to_be_visible()
    page.emulate_media(media="screen")
    expect(code).to_be_hidden()
    expect(solutions.first.locator("summary")).to_have_accessible_name("Try first, then look")
    solutions.first.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(code).to_be_visible()
    expect(page.get_by_text("feedback.check_calibration_dataset(").first).to_be_visible()


def test_the_first_use_of_a_term_leads_to_the_glossary(page: Page, site: Path) -> None:
    page.goto((site / "solutions/06_benchmark/06_benchmark.html").as_uri())
    links = page.locator("article a.term", has_text=re.compile("^throughput$", re.I))
    expect(links).to_have_count(1)
    expect(links).to_have_attribute("title", re.compile("images done per second"))
    links.click()
    expect(page.locator("section#throughput h3")).to_be_in_viewport()
    assert page.locator("article a.term").count() == 0


def test_a_step_has_answers_and_drawing_code_folded(page: Page, site: Path) -> None:
    page.goto((site / "solutions/04_int8/04_int8.html").as_uri())
    article = page.locator("article")

    answers = article.locator("details").filter(has=page.locator("summary", has_text="Answers"))
    expect(answers.first).not_to_have_attribute("open", "")
    code = article.locator("details.hide", has_text="Show the code")
    expect(code.first.locator("pre")).to_be_hidden()
    code.first.locator("summary").click()
    expect(code.first.locator("pre")).to_be_visible()
    assert article.get_by_role("link", name="Open in Colab").count() == _REPOSITORY.published
    expect(article.locator(".math svg[role=img]").first).to_be_visible()
