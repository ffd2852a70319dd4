"""What was taken from a step's download last: downloaded/<step>/collected.json.

What somebody put into submitted/ since, a timestamp or another notebook, stays as long as the download has nothing new.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from helpers.tools.files import sha256, write_json
from solutions.grading.roster import ROSTER

_FILE = "collected.json"


@dataclass
class Collected:
    """Digests: of the whole download with the class list, empty where something was left out, and of each notebook."""

    whole: str = ""
    students: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Collected":
        """Return what `write` put into downloaded/<step>; nothing where there is nothing of use."""
        try:
            return cls(**json.loads((folder / _FILE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Keep it in downloaded/<step>."""
        write_json(folder / _FILE, asdict(self))

    def has(self, student: str, file: Path, submission: Path) -> bool:
        """Return whether a student's file was taken before, or is what lies in submitted/ anyway."""
        return submission.is_file() and sha256(file) in (self.students.get(student), sha256(submission))


def digest_of(archive: Path, course_folder: Path) -> str:
    """Return a digest of the names and contents in a download's folder, and of the class list."""
    digest = hashlib.sha256()
    for path in [*sorted(archive.rglob("*")), course_folder / ROSTER]:
        content = os.readlink(path) if path.is_symlink() else sha256(path) if path.is_file() else ""
        digest.update(f"{path.relative_to(course_folder)}:{content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
