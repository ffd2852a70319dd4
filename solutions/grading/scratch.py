"""The one folder that a submission's kernel can write: made before it starts, read once after it is gone, removed."""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from helpers.errors import InputError
from helpers.files import atomic_write, read_within
from helpers.lab import ARTIFACTS
from helpers.probes.student import read_artifact
from solutions.sandbox import remove

__all__ = ["Scratch"]

_MOST_FILE_BYTES = 64 << 20


class Scratch:
    """The working folder of the notebook, with `artifacts` in it, the kernel's sockets, and what the sandbox makes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.artifacts = folder, folder / "artifacts"

    @classmethod
    def made(cls) -> "Scratch":
        """Make one in the folder for temporary files."""
        scratch = cls(Path(tempfile.mkdtemp(prefix="trt-lab-")).resolve())
        scratch.artifacts.mkdir()
        return scratch

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.folder)

    def fill(self, notebook_folder: Path, artifacts: Path, needs: Sequence[str]) -> None:
        """Copy what was handed in beside the notebook, and the artifacts of earlier steps that this one takes."""
        for path in sorted(notebook_folder.iterdir()):
            if path.suffix != ".ipynb" and not path.name.startswith("."):
                with suppress(InputError, OSError):  # a folder or a link; a name of one of ours
                    (self.folder / path.name).write_bytes(read_within(notebook_folder, path.name, _MOST_FILE_BYTES))
        for name in needs:
            if (artifacts / name).is_file():
                shutil.copyfile(artifacts / name, self.artifacts / name)

    def keep(self, step: str, artifacts: Path) -> None:
        """Write what the step made to the trusted folder; its kernel must be gone."""
        for name in (name for name, maker in ARTIFACTS.items() if maker == step):
            content = read_artifact(self.artifacts, name)
            if content is not None:
                atomic_write(artifacts / name, content)
