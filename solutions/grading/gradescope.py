"""Gradescope's autograder of a step: `make gradescope STEP=01_export` packs it, and `grade` is what it runs.

The zip and results.json are as https://gradescope-autograders.readthedocs.io says; they were not tried on Gradescope.
Its containers must let a sandbox work (docs/security.md): else each submission's output says that none does.
"""

import zipfile
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer

from helpers.course.steps import GRADED
from helpers.tools.files import atomic_path, write_json
from helpers.tools.signals import clean_ends
from solutions.grading.grade_one import grade_one
from solutions.grading.labs import archived
from solutions.grading.layout import ROOT
from solutions.grading.run import one_line_a_fault
from trtcpu.errors import InputError

SUBMISSION, RESULTS = Path("/autograder/submission"), Path("/autograder/results/results.json")
_FOLDERS = ("helpers", "trtcpu", "trtlab", "solutions", "datasets")
_FILES = (
    "install.py",
    "README.md",
    "pyproject.toml",
    "constraints.txt",
    "course.toml",
    "nbgrader_config.py",
    "LICENSE",
)
_TEMPLATES = Path(__file__).parent / "templates" / "gradescope"

app = typer.Typer()


def results(graded: dict[str, Any]) -> dict[str, Any]:
    """Return Gradescope's results of a graded notebook: a test for each cell that needs no person."""
    tests = [
        {
            "name": cell["title"],
            "score": cell["points"],
            "max_score": cell["maximum"],
            "output": "\n".join(map(_said, cell["lost"])) or "all checks passed",
        }
        for cell in graded["cells"]
        if cell["points"] is not None
    ]
    return {"tests": tests, "output": "\n".join(graded["notes"]), "stdout_visibility": "hidden"}


def _said(lost: dict[str, Any]) -> str:
    about = {"expected": "expected", "found": "found", "try": "try_this"}
    lines = [f"  {word}: {lost[key]}" for word, key in about.items() if lost.get(key)]
    return "\n".join([f"✗ {lost['claim']}: lost {lost['points']:g}", *lines])


@app.command()
def pack(step: Annotated[str, typer.Argument(help="The step, such as 01_export.")]) -> None:
    """Pack the autograder of a step into dist/gradescope-STEP.zip."""
    target = Path("dist") / f"gradescope-{step}.zip"
    with one_line_a_fault():
        if step not in GRADED:
            raise InputError(f"there is no step {step!r}; the steps are {', '.join(GRADED)}")
        scripts = {path.name: Template(path.read_text()).substitute(step=step) for path in _TEMPLATES.iterdir()}
        with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in scripts.items():
                about = zipfile.ZipInfo(name)
                about.external_attr = 0o755 << 16
                archive.writestr(about, text)
            for name in archived(ROOT, _FOLDERS, _FILES):
                archive.write(ROOT / name, name)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB; upload it as the assignment's autograder")


@app.command()
def grade(step: str) -> None:
    """Grade what a student has uploaded; a notebook that cannot be graded gets 0 points and the reason."""
    with one_line_a_fault():
        found = sorted(SUBMISSION.glob("*.ipynb"))
        try:
            if len(found) != 1:
                raise InputError(f"upload one notebook, {step}.ipynb; there are {len(found)}")
            said = results(grade_one(found[0], step))
        except InputError as error:
            said = {"score": 0.0, "output": str(error)}
        write_json(RESULTS, said)


if __name__ == "__main__":
    with clean_ends():
        app()
