"""An instructor's look at a graded class, in a real browser."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.course import STEP, Course
from tests.browser.lab_page import LabPage

_ALL_FP32 = {"    config.set_flag(trt.BuilderFlag.FP16)\n": ""}


def test_formgrader_lists_the_steps_and_shows_each_score(
    lab: LabPage, course: Course, picture: Callable[[str], None]
) -> None:
    course.submit("ada", "Ada", "Complete", replace={})
    course.submit("ben", "Ben", "Untouched", replace=None)
    course.submit("cleo", "Cleo", "Halfway", replace=_ALL_FP32)
    course.grade()

    formgrader = lab.open_formgrader()

    row = formgrader.get_by_role("row").filter(has=formgrader.get_by_role("link", name=STEP, exact=True))
    expect(row, f"{STEP} among the assignments").to_be_visible(timeout=30_000)
    submissions = row.locator(".num-submissions a")
    expect(submissions, f"the number of submissions of {STEP}").to_have_text("3")
    picture("formgrader-assignments")
    submissions.click()
    scores = course.scores()
    (ada, out_of), (ben, _), (cleo, _) = scores["ada"], scores["ben"], scores["cleo"]
    assert ada == out_of and 0 < cleo < out_of and ben == 0, scores
    names = {"ada": "Complete, Ada", "ben": "Untouched, Ben", "cleo": "Halfway, Cleo"}
    for student, (score, _) in scores.items():
        cell = formgrader.get_by_role("row").filter(has_text=names[student]).locator(".score")
        expect(cell, f"{student}'s score").to_have_text(f"{round(score, 2):g} / {round(out_of, 2):g}")
    picture("formgrader-submissions")
