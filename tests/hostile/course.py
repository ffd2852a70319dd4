"""The fixture course: one step of seconds (tests/grading/tiny.py), two honest students, and attackers between them."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from tests.grading.tiny import CONFIG, STEP, code_of, solved, source_notebook
from tests.hostile.attack import MARK, Attack
from tests.hostile.outer import HOME, STAGE

NOTEBOOK, TIMINGS = f"{STEP}.ipynb", "timing.cache"
HONEST = ("a_honest", "z_honest")

_LIMITS = """
c.Execute.timeout = 25
c.GradeExecute.grace = 3
c.GradeExecute.output_limit = 200_000
c.GradeExecute.judge = "tests.hostile.judge"
c.GradeExecute.memory_gb = 0.75
c.GradeExecute.disk_gb = 0.15
"""
"""Small limits, so that an attack on them takes seconds."""

_WRONG = "def square(x):\n    return 0\n"


def make_template(folder: Path) -> None:
    """Make the course in `folder`, its step in the gradebook, and the students' notebook in labs/."""
    (folder / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text() + CONFIG + _LIMITS)
    (folder / TIMINGS).write_text("what the reference builds have timed\n")
    (folder / "solutions" / STEP).mkdir(parents=True)
    for package in ("checks", "grading", "sandbox"):
        (folder / "solutions" / package).mkdir()
    nbformat.write(source_notebook(), folder / "solutions" / STEP / NOTEBOOK)
    course = Course.at(folder)
    course.register(STEP)
    course.generate(STEP, folder / "labs")


def hand_in(template: Path, course: Path, attacks: Sequence[Attack], config: str = "") -> None:
    """Copy the template to `course`, with more lines of configuration, and hand in what everybody has."""
    shutil.copytree(template, course)
    with (course / "nbgrader_config.py").open("a") as file:
        file.write(config)
    lab = nbformat.read(course / "labs" / STEP / NOTEBOOK, as_version=4)
    notebooks = dict.fromkeys(HONEST, solved(lab)) | {attack.student: attacked(lab, attack) for attack in attacks}
    for student, notebook in notebooks.items():
        submit(course, student, notebook)
    for attack in filter(lambda attack: attack.place, attacks):
        attack.place(course / "submitted" / attack.student / STEP)


def attacked(lab: NotebookNode, attack: Attack) -> NotebookNode:
    """Return the attacker's notebook: a right cube, and the attack's code before a wrong square."""
    code, known = attack.code, {"MARK": MARK, "STUDENT": attack.student, "COURSE": STAGE / "course", "HOME": HOME}
    for name, text in known.items():
        code = code.replace(f"{{{name}}}", str(text))
    if not re.search(r"^(def square\(|square = )", code, re.M):
        code = f"{code.rstrip()}\n\n\n{_WRONG}"
    notebook = code_of(solved(lab, "cube"), "square", code)
    if attack.notebook:
        attack.notebook(notebook)
    return notebook


def submit(course: Path, student: str, notebook: NotebookNode) -> None:
    """Hand in a notebook."""
    own = course / "submitted" / student / STEP
    own.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, own / NOTEBOOK)
