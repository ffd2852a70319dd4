"""A chart that its reader moves, in a real browser: the arrow keys draw another picture."""

import re

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

from tests.browser.course import Course
from tests.browser.lab_page import LabPage

_CELL = """
from matplotlib import pyplot as plt

from helpers.toys.slider import show_slider

show_slider(lambda value: plt.figure(figsize=(value, 1), dpi=100), [1, 2, 3], "threshold")
"""
_KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def test_the_arrow_keys_move_the_slider_and_draw_again(student_lab: LabPage, course: Course) -> None:
    path = course.root / "moving.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(_CELL.strip())], metadata=_KERNEL), path)
    output = student_lab.open_notebook(path).run(0)
    picture, handle = output.locator("img"), output.get_by_role("slider")
    expect(picture, "the picture of the first value").to_have_js_property("naturalWidth", 100)
    handle.press("ArrowRight")
    expect(picture, "the picture of the second value").to_have_js_property("naturalWidth", 200)
    expect(output.locator(".widget-readout"), "the value chosen").to_have_text(re.compile(r"^\s*2\.00\s*$"))
