"""The report as a reader sees it: light and dark, on a wide screen and on a phone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.look import look
from tests.trtlab.sample_results import write_folder
from trtlab.report.pages import make_report

WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of made-up numbers."""
    folder: Path = tmp_path_factory.mktemp("report") / "results"
    return make_report(write_folder(folder)).html.as_uri()


def test_the_report_can_be_read_light_and_dark_on_wide_and_narrow_screens(
    page: Page, report: str, complaints: list[str], picture: Callable[[str], None]
) -> None:
    page.goto(report)
    body, found = page.locator("body"), []
    for screen in (WIDE, PHONE):
        page.set_viewport_size(screen)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_function("[...document.images].every(image => image.complete)")
            picture(f"report-{theme}-{screen['width']}")
            found += [f"{screen['width']} {theme}: {fault}" for fault in look(body, "unreadable", "cut", "missing")]
    assert found + complaints == []


def test_a_dark_page_has_charts_on_its_own_ground(page: Page, report: str) -> None:
    page.goto(report)
    corner = """image => {
        const canvas = new OffscreenCanvas(1, 1), pen = canvas.getContext("2d");
        pen.drawImage(image, -5, -5);
        return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }"""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function("[...document.images].every(image => image.complete)")
        for chart in page.locator("figure img").all():
            card = chart.evaluate("image => getComputedStyle(image).backgroundColor")
            assert f"rgb({', '.join(map(str, chart.evaluate(corner)))})" == card, theme


def test_on_a_phone_the_first_column_stays_while_the_table_scrolls(page: Page, report: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(report)
    table = page.locator(".scroll").first
    first, second = (table.locator("tbody tr").first.locator("td").nth(place) for place in (0, 1))
    before = first.bounding_box()["x"], second.bounding_box()["x"]
    table.evaluate("frame => frame.scrollLeft = 200")
    after = first.bounding_box()["x"], second.bounding_box()["x"]
    assert after[0] == pytest.approx(before[0], abs=1) and after[1] == pytest.approx(before[1] - 200, abs=1)
