"""A course in a folder of its own: the steps' sources, the hand-out, and graded submissions."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECK", "STEP", "TODO", "Course", "lab_environment"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(os.environ.get("TRT_LAB_BROWSER_SOURCES", ROOT / "solutions"))

STEP = "02_fp16"
TODO = "build_engine_fp16"
CHECK = "fp16_engine"

_CONFIG = """c = get_config()
c.CourseDirectory.course_id = "trt-lab"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
c.Exchange.root = {exchange!r}
"""


def lab_environment(artifacts: Path) -> dict[str, str]:
    """Return the variables for the lab's processes: a small network, few iterations, and a folder of artifacts.

    This Python's programs come first on the path: nbgrader starts `alembic` by its bare name.
    """
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TRT_LAB_MODEL": "resnet18",
        "TRT_LAB_QUICK": "1",
        "TRT_LAB_ARTIFACTS": str(artifacts),
        "PYTHONPATH": str(ROOT),
    }


@dataclass(frozen=True)
class Course:
    """The folder of a course, and the folder of artifacts that its kernels share."""

    root: Path
    artifacts: Path

    @classmethod
    def create(cls, root: Path, artifacts: Path) -> "Course":
        """Lay out sources and hand-out in `root`; kernels find the earlier step's work in `artifacts`."""
        course = cls(root, artifacts)
        exchange = root / ".exchange"
        exchange.mkdir(parents=True)
        exchange.chmod(0o777)
        (root / "nbgrader_config.py").write_text(_CONFIG.format(exchange=str(exchange)))
        for notebook in sorted(SOURCES.glob("0*/0*.ipynb")):
            target = root / "solutions" / notebook.parent.name
            shutil.copytree(notebook.parent, target)
        course.nbgrader("generate_assignment", "--assignment", STEP, "--create")
        return course

    def solution(self, grade_id: str = TODO) -> str:
        """Return the solution's text of a cell, without nbgrader's marks."""
        notebook = json.loads((SOURCES / STEP / f"{STEP}.ipynb").read_text())
        cell = next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)
        lines = "".join(cell["source"]).splitlines()
        return "\n".join(line for line in lines if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION"))

    def hand_out(self, folder: str) -> Path:
        """Copy the student's notebook of the step to `folder` and return its path."""
        target = self.root / folder / STEP
        shutil.copytree(self.root / "labs" / STEP, target)
        return target / f"{STEP}.ipynb"

    def submit(self, student: str, first_name: str, last_name: str, *, solved: bool) -> None:
        """Enrol a student and hand in their notebook of the step, untouched or with the task solved."""
        self.nbgrader("db", "student", "add", student, f"--first-name={first_name}", f"--last-name={last_name}")
        path = self.hand_out(f"submitted/{student}")
        (path.parent / "timestamp.txt").write_text("2026-03-02 10:00:00 UTC")
        if solved:
            notebook = json.loads(path.read_text())
            for cell in notebook["cells"]:
                if cell["metadata"].get("nbgrader", {}).get("grade_id") == TODO:
                    cell["source"] = self.solution().splitlines(keepends=True)
            path.write_text(json.dumps(notebook))

    def grade(self) -> None:
        """Grade what was handed in."""
        self.nbgrader("autograde", "--assignment", STEP, "--create")

    def nbgrader(self, *arguments: str) -> None:
        """Run `nbgrader …` here."""
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.root,
            env={**os.environ, **lab_environment(self.artifacts)},
            capture_output=True,
            text=True,
        )
        said = f"nbgrader {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        assert done.returncode == 0, said
