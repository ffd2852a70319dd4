"""Starts Jupyter kernels in the sandbox: nbgrader's Execute, plain or from formgrader, takes this kernel manager.

The kernel talks over Unix sockets in its scratch folder, since it has no network. Whoever starts it may name the room:

    manager = SandboxedKernelManager(kernel_name="python3")
    await manager.start_kernel(room=Room(scratch), limits=Limits(), kind=chosen())
    manager.watch.ended_by
"""

import asyncio
import signal
from contextlib import ExitStack
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from traitlets import Instance

from solutions.sandbox.choice import chosen, command
from solutions.sandbox.processes import end, interrupt
from solutions.sandbox.room import STANDARD, Room
from solutions.sandbox.scratch import temporary
from solutions.sandbox.watch import Watch
from trtcpu.errors import LabError

# Characters of a Unix socket's path: the system takes 107, and the port is appended.
_LONGEST = 100


class SandboxProvisioner(LocalProvisioner):
    """Starts the kernel in a sandbox, watches its limits, and ends all that it started."""

    watch: Watch | None = None
    _stack = Instance(ExitStack, ())  # it removes a scratch that nobody named

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Return what starts the kernel; takes `room`, `limits` and `kind` of `kwargs`, and drops env and cwd."""
        self._limits = kwargs.pop("limits", None) or STANDARD
        kind = kwargs.pop("kind", None) or chosen()
        room = kwargs.pop("room", None)
        if room is None:
            room = Room(self._stack.enter_context(temporary(self._limits)))
        self._room = room
        room.scratch.mkdir(parents=True, exist_ok=True)
        socket = str(room.scratch / "kernel")
        if len(socket) > _LONGEST:
            raise LabError(
                f"a kernel's sockets need a folder with a shorter path than {room.scratch}; TMPDIR names one"
            )
        self.parent.transport, self.parent.ip = "ipc", socket
        self.parent.connection_file = str(room.scratch / "kernel.json")
        kwargs = await super().pre_launch(**{name: kwargs[name] for name in kwargs if name not in ("env", "cwd")})
        line, environment = command(kind, kwargs.pop("cmd"), room, self._limits)
        return {**kwargs, "cmd": line, "env": environment, "cwd": str(room.scratch)}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel and its watch."""
        info = await super().launch_kernel(cmd, **kwargs)
        self.watch = Watch(self.pid, self._room, self._limits, kernel=True)
        return info

    async def send_signal(self, signum: int) -> None:
        """Interrupt the kernel, or end it with all that it started: of other signals it would die half."""
        if self.process is not None and signum:
            await asyncio.to_thread(interrupt if signum == signal.SIGINT else end, self.pid)

    async def cleanup(self, restart: bool = False) -> None:
        """End what is left, and remove the scratch if nobody named one."""
        if self.watch is not None:
            await asyncio.to_thread(self.watch.stop)
        self._stack.close()
        await super().cleanup(restart)


class SandboxedKernelManager(AsyncKernelManager):
    """A kernel manager whose kernels run in the sandbox."""

    @property
    def watch(self) -> Watch | None:
        """The watch on the kernel: its `ended_by`; None before it is started."""
        return getattr(self.provisioner, "watch", None)

    async def _async_pre_start_kernel(self, **kwargs: Any) -> tuple[list[str], dict[str, Any]]:
        if self.provisioner is None:
            self.provisioner = SandboxProvisioner(kernel_id="", kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**kwargs)

    pre_start_kernel = _async_pre_start_kernel
