"""A student's way through a step, in a real browser: write, run, see the answer, validate."""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.course import CHECK, TODO, Course
from tests.browser.lab_page import LabPage

_GREEN = "rgb(46, 125, 50)"


def test_validate_says_what_is_missing_in_an_untouched_notebook(
    lab: LabPage, course: Course, picture: Callable[[str], None]
) -> None:
    notebook = lab.open_notebook(course.hand_out("untouched"))

    said = notebook.validate()

    picture("validate-untouched")
    assert re.search(r"The following (\d+ cells|cell) failed", said), said
    assert f"{CHECK}({TODO})" in said and "the TODO is still there" in said, said


def test_a_solved_task_gets_its_tick_and_validates(
    lab: LabPage, course: Course, picture: Callable[[str], None]
) -> None:
    notebook = lab.open_notebook(course.hand_out("solved"))
    todo, check = notebook.number(TODO), notebook.number(CHECK)
    assert "NotImplementedError" in notebook.source(todo)

    notebook.write(todo, course.solution())
    output = notebook.run_up_to(check)

    card = output.locator(".jp-RenderedHTMLCommon > div").filter(has_text="FP16 engine")
    expect(card, "the check's card under its cell").to_be_visible()
    expect(card, "the card's green edge").to_have_css("border-left-color", _GREEN)
    lines = card.locator("> div").all_inner_texts()
    assert len(lines) >= 4 and all(line.startswith("✓") for line in lines), lines
    card.scroll_into_view_if_needed()
    picture("card")

    notebook.save()
    said = notebook.validate()
    picture("validate-solved")
    assert "Success! Your notebook passes all the tests." in said, said
