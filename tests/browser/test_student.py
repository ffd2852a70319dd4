"""A student's way through a step, in a real browser: write, run, see the answer, validate."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from helpers.course.handout import read_notebook
from helpers.course.steps import NOTEBOOKS, STEPS
from helpers.engine.backend import DEVICE
from tests.browser.course import CHECK, START, TODO, Course
from tests.browser.lab_page import LabPage
from tests.browser.look import look

_GREEN = "rgb(56, 142, 60)"  # of JupyterLab's light theme


def test_validate_says_what_is_missing_in_an_untouched_notebook(
    student_lab: LabPage, course: Course, picture: Callable[[str], None]
) -> None:
    notebook = student_lab.open_notebook(course.hand_out("untouched"))

    said = notebook.validate()

    picture("validate-untouched")
    assert re.search(r"The following (\d+ cells|cell) failed", said), said
    assert f"{CHECK}({TODO})" in said and "the TODO is still there" in said, said


def test_a_solved_task_gets_its_tick_light_and_dark_and_validates(
    student_lab: LabPage, page: Page, course: Course, picture: Callable[[str], None]
) -> None:
    notebook = student_lab.open_notebook(course.hand_out("solved"))
    todo, check = notebook.number(TODO), notebook.number(CHECK)
    assert "NotImplementedError" in notebook.source(todo)

    notebook.write(todo, course.solution())
    output = notebook.run_up_to(check)

    card = output.locator(".jp-RenderedHTMLCommon > div").filter(has_text="FP16 engine")
    expect(card, "the check's card under its cell").to_be_visible()
    expect(card, "the card's green edge").to_have_css("border-left-color", _GREEN)
    shown = notebook.panel.locator(".jp-MarkdownOutput, .jp-OutputArea")
    lines = card.locator("> div").all_inner_texts()
    assert len(lines) >= 4 and all(line.startswith("✓") for line in lines), lines
    card.scroll_into_view_if_needed()
    picture("card")
    assert look(shown, "unreadable") == []
    student_lab.show_theme("dark")
    picture("card-dark")
    assert look(shown, "unreadable") == []

    notebook.save()
    said = notebook.validate()
    picture("validate-solved")
    assert "Success! Your notebook passes all the tests." in said, said


def test_the_start_page_names_the_engine_and_leads_to_the_steps(
    student_lab: LabPage, page: Page, course: Course, picture: Callable[[str], None]
) -> None:
    cells = [cell.id for cell in read_notebook(course.root / START).cells]
    start = student_lab.open_notebook(course.root / START)

    output = start.run(cells.index("start-progress"))

    expect(output, "the engine in use").to_contain_text(DEVICE)
    worth = re.findall(r"\[([\d.]+) points\]", output.inner_text())
    assert sum(map(float, worth)) == 100, "of the notebooks without a bonus"
    links = output.get_by_role("link")
    expect(links, "a link for each notebook").to_have_count(len(NOTEBOOKS))
    picture("start")
    expect(page.get_by_text("Create Assignment"), "nothing that is an instructor's").to_have_count(0)
    links.nth(1).click()
    tab = page.locator(".lm-TabBar-tab.jp-mod-current")
    expect(tab.filter(has_text=f"{STEPS[1]}.ipynb"), "the notebook of step 2").to_be_visible(timeout=60_000)
