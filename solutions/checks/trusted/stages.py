"""Reference artifacts as stages with inputs and outputs: made once, shared by processes, never stale.

A stage's folder is named by its fingerprint: the code that makes it, the options, the fingerprints of its inputs. If
one of these changes, the artifact is made again under another name, so an old one is never used by mistake.
"""

import fcntl
import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from modulefinder import ModuleFinder
from pathlib import Path

from helpers.data.downloads import atomic_folder
from helpers.engine.backend import ENGINE
from trtcpu.errors import InputError

_PROJECT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Stage:
    """One step of making the reference: `make(reference, folder)` writes the files `makes` into an empty folder."""

    makes: tuple[str, ...]
    needs: tuple[str, ...]
    make: Callable[["Reference", Path], None]


class Reference:
    """The artifacts of some stages, under the lab's names; each is made when it is first needed.

    Args:
        root: the folder for them.
        stages: what can be made, in any order.
        options: everything else that affects the result, as text.
    """

    def __init__(self, root: Path, stages: Sequence[Stage], options: str) -> None:
        self.root, self._options = root, options
        self._stages = {name: stage for stage in stages for name in stage.makes}
        self._fingerprints: dict[str, str] = {}

    def path(self, name: str) -> Path:
        """Return the artifact's path; make it and its inputs first if needed. Safe with other processes.

        Raises:
            KeyError: no stage makes it.
            InputError: the folder cannot be made.
        """
        folder = self._folder(name)
        if not folder.is_dir():
            stage = self._stages[name]
            for need in stage.needs:
                self.path(need)
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                reason = error.strerror or error
                raise InputError(f"cannot make {self.root}: {reason}; TRT_LAB_REFERENCE names another folder") from None
            with (self.root / f".{folder.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.is_dir():
                    with atomic_folder(folder) as making:
                        stage.make(self, making)
        return folder / name

    def bytes(self, name: str) -> bytes:
        """Return the artifact's content."""
        return self.path(name).read_bytes()

    def is_made(self, name: str) -> bool:
        """Return whether the artifact exists already."""
        return self._folder(name).is_dir()

    def _folder(self, name: str) -> Path:
        return self.root / f"{self._stages[name].makes[0]}-{self._fingerprint(name)[:16]}"

    def _fingerprint(self, name: str) -> str:
        if name not in self._fingerprints:
            stage = self._stages[name]
            make = getattr(stage.make, "func", stage.make)
            parts = [
                self._options,
                *stage.makes,
                _code_digest(inspect.getfile(make)),
                *map(self._fingerprint, stage.needs),
            ]
            self._fingerprints[name] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._fingerprints[name]


@cache
def _code_digest(file: str) -> str:
    """Return a digest of a Python file and all modules of the project that it imports, at any depth."""
    finder = ModuleFinder([str(_PROJECT)])
    finder.run_script(file)
    files = {found.__file__ for found in finder.modules.values() if found.__file__}
    if ENGINE == "cpu":  # helpers.engine.backend names its package in a string
        files |= {str(path) for path in (_PROJECT / "trtcpu").rglob("*.py")}
    return hashlib.sha256(b"\0".join(Path(path).read_bytes() for path in sorted(files))).hexdigest()
