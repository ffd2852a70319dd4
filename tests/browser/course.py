"""A course in a folder of its own: the repository's steps, their hand-out, and graded submissions of one step."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook

ROOT = Path(__file__).resolve().parents[2]
STEPS = "[0-9][0-9]_*/"
START = "labs/00_start.ipynb"

STEP = "02_fp16"
TODO = "build_engine_fp16"
CHECK = "fp16_engine"


def lab_environment() -> dict[str, str]:
    """Return the variables for every process of the lab: a small network, few iterations."""
    return {"PYTHONPATH": str(ROOT), "TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1"}


def student_page_config() -> str:
    """Return what `make setup` in the student bundle writes to labconfig/page_config.json."""
    makefile = (ROOT / "solutions" / "grading" / "student" / "Makefile").read_text()
    found = re.search(r"echo '(\{.+\})' > \.venv/etc/jupyter/labconfig/page_config\.json", makefile)
    assert found is not None, "the student's Makefile writes no page_config.json as it did"
    return found[1]


@dataclass(frozen=True)
class Course:
    """The folder of a course."""

    root: Path
    artifacts: Path
    """A student's, after step 1."""

    @classmethod
    def create(cls, root: Path, artifacts: Path) -> "Course":
        """Lay out the repository's configuration, sources and hand-out in `root`."""
        course = cls(root, artifacts)
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "nbgrader_config.py", root)
        for folder in ("solutions", "labs"):
            for step in sorted((ROOT / folder).glob(STEPS)):
                shutil.copytree(step, root / folder / step.name)
        shutil.copy(ROOT / START, root / START)
        return course

    def solution(self) -> str:
        """Return the solution's text of the cell TODO, without nbgrader's marks."""
        notebook = json.loads((self.root / "solutions" / STEP / f"{STEP}.ipynb").read_text())
        lines = "".join(_cell(notebook, TODO)["source"]).splitlines()
        return "\n".join(line for line in lines if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION"))

    def hand_out(self, folder: str) -> Path:
        """Copy the student's notebook of the step to `folder` and return its path."""
        target = self.root / folder / STEP
        shutil.copytree(self.root / "labs" / STEP, target)
        if not (beside := target.with_name("artifacts")).exists():
            beside.symlink_to(self.artifacts)
        return target / f"{STEP}.ipynb"

    def submit(self, student: str, first_name: str, last_name: str, *, replace: dict[str, str] | None) -> None:
        """Put a student into the class list and hand in their notebook of the step.

        Args:
            replace: what of the solution's text the student wrote otherwise; None: the notebook as handed out.
        """
        roster = self.root / "students.csv"
        known = roster.read_text() if roster.exists() else "id,first_name,last_name\n"
        roster.write_text(f"{known}{student},{first_name},{last_name}\n")
        path = self.hand_out(f"submitted/{student}")
        (path.parent / "timestamp.txt").write_text("2026-03-02 10:00:00 UTC")
        if replace is not None:
            text = self.solution()
            for right, wrong in replace.items():
                assert right in text, f"the solution of {TODO} has no {right!r} to change"
                text = text.replace(right, wrong)
            notebook = json.loads(path.read_text())
            _cell(notebook, TODO)["source"] = text
            path.write_text(json.dumps(notebook))

    def grade(self) -> None:
        """Grade what was handed in, as `make grade` does."""
        self._run("solutions.grading", "--course", str(self.root), "--steps", STEP)

    def scores(self) -> dict[str, tuple[float, float]]:
        """Return each student's points in the gradebook, and how many there are."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}") as gradebook:
            submissions = gradebook.assignment_submissions(STEP)
            return {one.student_id: (one.score, one.max_score) for one in submissions}

    def _run(self, module: str, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.root,
            env={**os.environ, **lab_environment()},
            capture_output=True,
            text=True,
        )
        said = f"{done.stdout}\n{done.stderr}"[-3000:]
        assert done.returncode == 0, f"{module} {' '.join(arguments)} ended with {done.returncode}:\n{said}"


def _cell(notebook: dict, grade_id: str) -> dict:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)
