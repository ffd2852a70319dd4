"""What a submission needs and can be started before it is there: scratch, judge and sandboxed kernel, used once."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_core.utils import run_sync

from solutions.grading.faults import CourseError
from solutions.grading.judge.handle import Process
from solutions.grading.layout import judge_environment, kernel_environment
from solutions.grading.scratch import Scratch
from solutions.sandbox import Limits, Room
from solutions.sandbox.provisioner import SandboxedKernelManager

_WARM_S = 120
# What an import ends with where files are missing; that a GPU is full for now is none of these.
_NOT_THERE = ("ImportError", "ModuleNotFoundError", "PermissionError", "FileNotFoundError", "OSError")


class Ahead:
    """A scratch, and what is started for it: at once by `start`, else when it is first asked for.

    Args:
        judge: the module that is the judge.
        sandbox: the name of the sandbox.
        limits: the kernel's.
        arguments: the kernel's own.
        imports: what notebooks import first. The kernel does so in a namespace of its own, so that no notebook finds a
            name that it has not made itself.
    """

    def __init__(self, judge: str, sandbox: str, limits: Limits, arguments: list[str], imports: str) -> None:
        self._judge, self._sandbox, self._limits, self._arguments = judge, sandbox, limits, arguments
        self._imports = imports
        self._process: Process | None = None
        self._kernel: SandboxedKernelManager | None = None
        self._room: Room | None = None
        self.scratch = Scratch.made(limits)

    def close(self) -> None:
        """End what was started and not taken, and remove the scratch."""
        if self._process is not None:
            self._process.end()
        if self._kernel is not None:
            with suppress(Exception):  # one that has ended
                run_sync(self._kernel.shutdown_kernel)(now=True)
        self.scratch.remove()

    def start(self, *, copied: bool = False) -> None:
        """Start the judge and the kernel, and let the kernel import what notebooks import.

        The judge begins as a copy of this process where that has imported it (`copied`).

        Raises:
            CourseError: what notebooks import cannot be read in the sandbox, so that nobody could earn a point.
        """
        self._process = Process(self._judge, judge_environment(), copied=copied)
        offers = self._process.offers
        self._kernel = SandboxedKernelManager(kernel_name="python3")
        self._room, self._since = self._made_room(offers["environment"], offers["gpu"]), time.monotonic()
        run_sync(self._warmed)()

    def judge(self) -> Process:
        """Return the judge's process, for the one who asks first; later a new one."""
        process, self._process = self._process, None
        return process or Process(self._judge, judge_environment())

    def kernel(self, offered: Mapping[str, str], gpu: bool) -> tuple[SandboxedKernelManager | None, dict[str, Any]]:
        """Return the kernel that was started where it was for just this, and what another one is started with."""
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
                code, silent=True, store_history=False, timeout=_WARM_S, output_hook=lambda message: None
            )
        finally:
            client.stop_channels()
        if (name := reply["content"].get("ename")) in _NOT_THERE:
            said = f"{name}: {reply['content']['evalue']}"
            raise CourseError(
                f"notebooks cannot import what they need (sandbox: {self._sandbox}): {said}; "
                "install the project into a Python of its own whose packages are no links to files elsewhere"
            )
