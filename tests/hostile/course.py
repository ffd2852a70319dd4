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

TIMINGS = "timing.cache"
HONEST = ("a_honest", "z_honest")

CELL_S, GRACE_S = 25, 3
LIMITS = f"""
c.Execute.timeout = {CELL_S}
c.GradeExecute.grace = {GRACE_S}
c.GradeExecute.output_limit = 200_000
c.GradeExecute.judge = "tests.hostile.judge"
c.GradeExecute.memory_gb = 0.75
c.GradeExecute.disk_gb = 0.15
"""
"""Small limits, so that an attack on them takes seconds."""

_WRONG = "def square(x):\n    return 0\n"


def make_template(folder: Path) -> None:
    """Make the course in `folder`, its step in the gradebook, and the students' notebook in labs/."""
    (folder / "nbgrader_config.py").write_text((ROOT / "nbgrader_config.py").read_text() + CONFIG + LIMITS)
    (folder / TIMINGS).write_text("what the reference builds have timed\n")
    (folder / "solutions" / STEP).mkdir(parents=True)
    for package in ("checks", "grading", "sandbox"):
        (folder / "solutions" / package).mkdir()
    nbformat.write(source_notebook(), folder / "solutions" / STEP / f"{STEP}.ipynb")
    course = Course.at(folder)
    course.register(STEP)
    course.generate(STEP, folder / "labs")


def hand_in(template: Path, course: Path, attacks: Sequence[Attack], config: str = "") -> None:
    """Copy the template to `course`, with more lines of configuration, and hand in what everybody has."""
    shutil.copytree(template, course)
    with (course / "nbgrader_config.py").open("a") as file:
        file.write(config)
    lab = nbformat.read(course / "labs" / STEP / f"{STEP}.ipynb", as_version=4)
    for name in HONEST:
        _write(course, name, solved(lab))
    for attack in attacks:
        _write(course, attack.student, attacked(lab, attack))
        for name, content in attack.files.items():
            path = course / "submitted" / attack.student / STEP / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    for attack in filter(lambda attack: attack.place, attacks):
        attack.place(course, attack.student)


def attacked(lab: NotebookNode, attack: Attack) -> NotebookNode:
    """Return the attacker's notebook: a right cube, and the attack's code before a wrong square."""
    code = attack.code
    for name, text in {
        "MARK": MARK,
        "STUDENT": attack.student,
        "COURSE": str(STAGE / "course"),
        "HOME": str(HOME),
    }.items():
        code = code.replace(f"{{{name}}}", text)
    if not re.search(r"^(def square\(|square = )", code, re.M):
        code = f"{code.rstrip()}\n\n\n{_WRONG}"
    notebook = code_of(solved(lab, "cube"), "square", code)
    if attack.notebook:
        attack.notebook(notebook)
    return notebook


def _write(course: Path, student: str, notebook: NotebookNode) -> None:
    path = course / "submitted" / student / STEP / f"{STEP}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
