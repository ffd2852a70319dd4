"""What a submission needs, started ahead and used once: a scratch folder, a judge and a kernel.

The scratch is the only folder that the kernel can write. It is read once after the kernel has gone, then removed.
"""

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_core.utils import run_sync

from helpers.checks.probes.student import read_artifact
from helpers.course.steps import ARTIFACTS
from helpers.tools.files import TEMPORARIES, atomic_write, read_within
from solutions.grading.faults import CourseError
from solutions.grading.judge.handle import Process
from solutions.grading.layout import judge_environment, kernel_environment
from solutions.sandbox import Limits, Room, remove
from solutions.sandbox.provisioner import SandboxedKernelManager
from solutions.sandbox.scratch import mount, place
from trtcpu.errors import InputError

_WARM_S = 120
# How an import fails when files are missing; a GPU that is full for the moment raises something else.
_NOT_THERE = ("ImportError", "ModuleNotFoundError", "PermissionError", "FileNotFoundError", "OSError")
_MOST_FILE_BYTES = 64 << 20
_OURS = re.compile(r"trt-lab-(load-|try-|place-)?[a-z0-9_]{8}")
# No student's step takes this long.
_OLD_S = 24 * 3600.0


class Scratch:
    """The notebook's working folder, with its `artifacts`, the kernel's sockets and what the sandbox needs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.artifacts = folder, folder / "artifacts"

    @classmethod
    def made(cls, limits: Limits) -> "Scratch":
        """Make one in the folder for temporary files, in memory if it can be mounted there."""
        scratch = cls(place() / f"trt-lab-{secrets.token_hex(4)}")
        TEMPORARIES.add(scratch.folder)  # before it exists: a signal may come between
        scratch.folder.mkdir(mode=0o700)
        mount(scratch.folder, limits)
        scratch.artifacts.mkdir()
        return scratch

    def remove(self) -> None:
        """Remove it with everything in it."""
        remove(self.folder)
        TEMPORARIES.discard(self.folder)

    def fill(self, notebook_folder: Path, artifacts: Path, needs: Sequence[str]) -> None:
        """Copy the files handed in beside the notebook, and the artifacts of earlier steps that this one uses."""
        for path in sorted(notebook_folder.iterdir()):
            if path.suffix != ".ipynb" and not path.name.startswith("."):
                try:
                    (self.folder / path.name).write_bytes(read_within(notebook_folder, path.name, _MOST_FILE_BYTES))
                except (InputError, OSError) as error:  # a folder, a link, or a name of ours
                    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                    if full and not self.folder.is_mount():  # the machine's disk, not the submission's limit
                        raise
        for name in needs:
            if (artifacts / name).is_file():
                shutil.copyfile(artifacts / name, self.artifacts / name)

    def keep(self, step: str, artifacts: Path, judged: Set[str], most: int) -> list[str]:
        """Write the step's artifacts to the trusted folder, where those that were `judged` are, and remove the scratch.

        The kernel must be gone. The files may take `most` bytes together, since sparse files become whole ones here.

        Returns:
            A line for each file that the submission changed after it was judged, or that did not fit.
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
        self.remove()  # before writing: it may have filled the disk
        for name, content in made.items():
            atomic_write(artifacts / name, content)
        return notes


class Ahead:
    """A scratch with its judge and its kernel, which `start` starts; otherwise each is started when it is asked for.

    Args:
        judge: the judge's module.
        sandbox: the name of the sandbox.
        limits: the kernel's limits.
        arguments: the kernel's command-line arguments.
        imports: code that the kernel runs first, in a namespace of its own, so that notebooks find no names in theirs.
    """

    def __init__(self, judge: str, sandbox: str, limits: Limits, arguments: list[str], imports: str) -> None:
        self._judge, self._sandbox, self._limits, self._arguments = judge, sandbox, limits, arguments
        self._imports = imports
        self._process: Process | None = None
        self._kernel: SandboxedKernelManager | None = None
        self._room: Room | None = None
        self.scratch = Scratch.made(limits)

    def close(self) -> None:
        """End what was started but not used, and remove the scratch."""
        if self._process is not None:
            self._process.end()
        if self._kernel is not None:
            with suppress(Exception):  # it may have ended
                run_sync(self._kernel.shutdown_kernel)(now=True)
        self.scratch.remove()

    def start(self, *, copied: bool = False) -> None:
        """Start the judge and the kernel, and let the kernel do the imports.

        With `copied`, this process has imported the judge, and the judge starts as a copy of it.

        Raises:
            CourseError: the imports fail in the sandbox, so that nobody could earn a point.
        """
        self._process = Process(self._judge, judge_environment(), copied=copied)
        offers = self._process.offers
        self._kernel = SandboxedKernelManager(kernel_name="python3")
        self._room, self._since = self._made_room(offers["environment"], offers["gpu"]), time.monotonic()
        run_sync(self._warmed)()

    def judge(self) -> Process:
        """Return the judge's process for the first call, a new one for later calls."""
        process, self._process = self._process, None
        return process or Process(self._judge, judge_environment())

    def kernel(self, offered: Mapping[str, str], gpu: bool) -> tuple[SandboxedKernelManager | None, dict[str, Any]]:
        """Return the kernel that was started, if it has just what is `offered`, and the arguments to start another."""
        room, kernel = self._made_room(offered, gpu), None
        if self._kernel is not None and room == self._room and run_sync(self._kernel.is_alive)():
            kernel, self._kernel = self._kernel, None
            kernel.watch.grant(time.monotonic() - self._since)
        return kernel, {"kind": self._sandbox, "room": room, "limits": self._limits}

    def _made_room(self, offered: Mapping[str, str], gpu: bool) -> Room:
        reads = tuple(path for path in map(Path, offered.values()) if path.is_file())
        environment = kernel_environment(offered)
        return Room(self.scratch.folder, reads=reads, environment=environment, gpu=gpu)

    async def _warmed(self) -> None:
        await self._kernel.start_kernel(
            extra_arguments=self._arguments, kind=self._sandbox, room=self._room, limits=self._limits
        )
        client = self._kernel.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=_WARM_S)
            code = f"exec({self._imports!r}, {{}})"
            reply = await client.execute_interactive(
                code,
                silent=True,
                store_history=False,
                timeout=_WARM_S,
                output_hook=lambda message: None,  # nobody's
            )
        finally:
            client.stop_channels()
        if (name := reply["content"].get("ename")) in _NOT_THERE:
            said = f"{name}: {reply['content']['evalue']}"
            raise CourseError(
                f"notebooks cannot import what they need (sandbox: {self._sandbox}): {said}; "
                "install the project into a Python of its own whose packages are no links to files elsewhere"
            )


def remove_left_over() -> None:
    """Remove temporary files that a killed run left more than a day ago: nobody can be using them."""
    for entry in os.scandir(tempfile.gettempdir()):
        with suppress(OSError):  # gone meanwhile
            about = entry.stat(follow_symlinks=False)
            ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and _OURS.fullmatch(entry.name)
            if ours and time.time() - about.st_mtime > _OLD_S:
                remove(Path(entry.path))
