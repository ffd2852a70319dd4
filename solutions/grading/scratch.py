"""The one folder that a submission's kernel can write: made before it starts, read once after it is gone, removed."""

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path

from helpers.checks.probes.student import read_artifact
from helpers.course.steps import ARTIFACTS
from helpers.tools.files import TEMPORARIES, atomic_write, read_within
from solutions.sandbox import Limits, remove
from solutions.sandbox.scratch import mount, place
from trtcpu.errors import InputError

_MOST_FILE_BYTES = 64 << 20
_OURS = re.compile(r"trt-lab-(load-|try-|place-)?[a-z0-9_]{8}")
# No step of a student takes so long.
_OLD_S = 24 * 3600.0


class Scratch:
    """The working folder of the notebook, with `artifacts` in it, the kernel's sockets, and what the sandbox makes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.artifacts = folder, folder / "artifacts"

    @classmethod
    def made(cls, limits: Limits) -> "Scratch":
        """Make one in the folder for temporary files; in memory, where it can be mounted there."""
        scratch = cls(place() / f"trt-lab-{secrets.token_hex(4)}")
        TEMPORARIES.add(scratch.folder)  # before it exists: a signal may come between
        scratch.folder.mkdir(mode=0o700)
        mount(scratch.folder, limits)
        scratch.artifacts.mkdir()
        return scratch

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.folder)
        TEMPORARIES.discard(self.folder)

    def fill(self, notebook_folder: Path, artifacts: Path, needs: Sequence[str]) -> None:
        """Copy what was handed in beside the notebook, and the artifacts of earlier steps that this one takes."""
        for path in sorted(notebook_folder.iterdir()):
            if path.suffix != ".ipynb" and not path.name.startswith("."):
                try:
                    (self.folder / path.name).write_bytes(read_within(notebook_folder, path.name, _MOST_FILE_BYTES))
                except (InputError, OSError) as error:  # a folder or a link; a name of one of ours
                    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                    if full and not self.folder.is_mount():  # the machine's disk, and not the submission's limit
                        raise
        for name in needs:
            if (artifacts / name).is_file():
                shutil.copyfile(artifacts / name, self.artifacts / name)

    def keep(self, step: str, artifacts: Path, judged: Set[str], most: int) -> list[str]:
        """Write what the step made to the trusted folder, where files that were `judged` are, and remove the scratch.

        Its kernel must be gone. All together take no more than `most` bytes: sparse files become whole ones here.

        Returns:
            A line for each file that the submission changed after it had been judged, or that had no room.
        """
        made, notes = {}, []
        room = most - sum((artifacts / name).stat().st_size for name in judged)
        for name in (name for name, maker in ARTIFACTS.items() if maker == step):
            content = read_artifact(self.artifacts, name)
            if name in judged:
                if content != read_artifact(artifacts, name):
                    notes.append(f"{name}: changed after a test cell had judged it; what it judged counts, and is kept")
            elif content is not None and len(content) > room:
                notes.append(f"{name}: not kept, since the step's files pass its limit of {most >> 20:,} MiB")
            elif content is not None:
                made[name], room = content, room - len(content)
        self.remove()  # before anything is written: it may have filled the disk
        for name, content in made.items():
            atomic_write(artifacts / name, content)
        return notes


def remove_left_over() -> None:
    """Remove what grading that was killed left among the temporary files, a day later: nobody can use it any more."""
    for entry in os.scandir(tempfile.gettempdir()):
        with suppress(OSError):  # gone meanwhile
            about = entry.stat(follow_symlinks=False)
            ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and _OURS.fullmatch(entry.name)
            if ours and time.time() - about.st_mtime > _OLD_S:
                remove(Path(entry.path))
