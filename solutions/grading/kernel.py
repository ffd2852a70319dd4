"""A submission's kernel in its sandbox: how a kernel manager starts it, and what holds its limits."""

import sys
from types import TracebackType
from typing import Any

from solutions.grading.scratch import Scratch
from solutions.sandbox import Limits, Room, Watch, command

__all__ = ["SandboxedKernel"]

_KERNEL = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]


class SandboxedKernel:
    """Prepares a kernel manager, and watches the kernel that it starts; used as a context manager.

    Kernel and grader talk over Unix sockets in the scratch. It is interrupted by a message: a signal would reach only
    what stands between.
    """

    def __init__(self, sandbox: str, scratch: Scratch, room: Room, limits: Limits) -> None:
        self._sandbox, self._scratch, self._room, self._limits = sandbox, scratch, room, limits
        self._watch: Watch | None = None

    def __enter__(self) -> "SandboxedKernel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def ended_by(self) -> str:
        """The limit that ended it, as a clause that begins with "it"; empty where none did."""
        return self._watch.ended_by if self._watch else ""

    def settle(self, manager: Any) -> None:
        """Tell a kernel manager what to start, and where the two talk."""
        argv, self._environment = command(self._sandbox, _KERNEL, self._room, self._limits)
        manager.transport, manager.connection_file = "ipc", str(self._scratch.connection_file)
        manager.kernel_spec.argv, manager.kernel_spec.interrupt_mode = argv, "message"

    def started_with(self) -> dict[str, Any]:
        """Return the arguments of the manager's start."""
        return {"env": self._environment, "cwd": str(self._scratch.folder)}

    def watch(self, manager: Any) -> None:
        """Hold the limits of the kernel that the manager has started."""
        self._watch = Watch(manager.provisioner.pid, self._room, self._limits)
        self._watch.__enter__()

    def end(self) -> None:
        """End the kernel and all that it started; nothing of it is left."""
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
