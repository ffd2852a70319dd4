"""Remembers what was graded from which files, so that an unchanged submission is not graded twice."""

import hashlib
import os
from functools import lru_cache

from helpers.errors import LabError
from helpers.files import read_json, sha256, write_json
from solutions.grading.course import Course
from solutions.grading.layout import ROOT

__all__ = ["Journal"]

_FILE = "graded.json"
_CODE = ("helpers", "solutions/checks", "solutions/grading", "solutions/pipeline")
_SETTINGS = ("TRT_LAB_ENGINE", "TRT_LAB_API", "TRT_LAB_MODEL")


class Journal:
    """One student's graded steps: autograded/<student>/graded.json.

    A step's key covers its notebook, those of the steps before it (their artifacts are its input), the source
    notebook, the checks' code, and the engine and model chosen.
    """

    def __init__(self, course: Course, student: str) -> None:
        self._course, self._student = course, student
        self._file = course.autograded(student) / _FILE

    def done(self, step: str) -> bool:
        """Return whether the step was graded from the files that are there now, and its notebook is still there."""
        notebook = self._course.autograded(self._student) / step / f"{step}.ipynb"
        return notebook.is_file() and self._read().get(step) == self._key(step)

    def write(self, step: str) -> None:
        """Note that the step has been graded."""
        write_json(self._file, {**self._read(), step: self._key(step)})

    def forget(self, step: str) -> None:
        """Note that the step is being graded anew."""
        kept = {name: key for name, key in self._read().items() if name != step}
        if self._file.is_file():
            write_json(self._file, kept)

    def _read(self) -> dict[str, str]:
        try:
            found = read_json(self._file)
            return found if isinstance(found, dict) else {}
        except LabError:
            return {}

    def _key(self, step: str) -> str:
        digest = hashlib.sha256(_code_digest().encode())
        for name in _SETTINGS:
            digest.update(f"{name}={os.environ.get(name, '')};".encode())
        digest.update(sha256(self._course.source(step)).encode())
        for earlier in self._course.steps[: self._course.steps.index(step) + 1]:
            path = self._course.submitted(self._student, earlier)
            digest.update((sha256(path) if path.is_file() else "-").encode())
        return digest.hexdigest()


@lru_cache(maxsize=1)
def _code_digest() -> str:
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}:{sha256(path)}\n".encode())
    return digest.hexdigest()
