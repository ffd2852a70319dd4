"""An instructor's look at a graded class, in a real browser."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.course import STEP, Course
from tests.browser.lab_page import LabPage


def test_formgrader_lists_the_steps_and_shows_each_score(
    lab: LabPage, course: Course, picture: Callable[[str], None]
) -> None:
    course.submit("ada", "Ada", "Complete", solved=True)
    course.submit("ben", "Ben", "Untouched", solved=False)
    course.grade()

    formgrader = lab.open_formgrader()

    expect(formgrader.get_by_role("link", name=STEP), f"{STEP} among the assignments").to_be_visible(timeout=30_000)
    picture("formgrader-assignments")
    row = formgrader.get_by_role("row").filter(has_text=STEP)
    row.locator(".num-submissions a").click()
    scores = {"ada": "6 / 6", "ben": "0 / 6"}
    for student, score in scores.items():
        cell = formgrader.get_by_role("row").filter(has_text=student).locator(".score")
        expect(cell, f"{student}'s score").to_have_text(score)
    picture("formgrader-submissions")
