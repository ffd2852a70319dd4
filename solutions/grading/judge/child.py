"""The disposable process in which what a student made is loaded: sandboxed, limited, started anew when it breaks.

Answers are remembered during a run: equal files that are loaded in the same order are loaded and run once. A file may
take over the child that loads it, and forge all later answers of that child. So a remembered answer is used only if the
judge has made exactly the same requests in the same order since it started. Then nobody's files can change an answer
about the files of somebody else.
"""

import hashlib
import math
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from helpers.checks.probes.channel import ChannelError
from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from helpers.checks.probes.loads import LoadError, answered, asked, elsewhere
from helpers.tools.files import atomic_write
from solutions.grading.layout import ROOT
from solutions.sandbox import Limits, Room, Watch, command

LIMITS = Limits(memory_bytes=6 << 30, processes=32, scratch_bytes=1 << 30, seconds=math.inf)  # each call has its own

_TRTLAB = ROOT / "trtlab"  # how engines are run; the child sees nothing of solutions/

_LARGE, _LARGEST = 1 << 20, 64 << 20
# Large answers share 256 places, so that the folder does not grow with the class.
_SLOTS_HEX = 2


class Memory:
    """The answers that one judge may use again.

    Args:
        folder: where answers are kept, which only judges can write; None: nothing is remembered.
        device: the engine and its device, so that no answer of another one is used.
    """

    def __init__(self, folder: Path | None = None, device: str = "") -> None:
        self._folder = folder
        self._asked = hashlib.sha256(device.encode())

    def ask(self, request: bytes) -> str:
        """Note the child's next request; return the name of its answer."""
        self._asked.update(hashlib.sha256(request).digest())
        return self._asked.hexdigest()

    def known(self, name: str) -> list[Any]:
        """Return a list with the remembered answer, or an empty list."""
        for place in (name, name[:_SLOTS_HEX]) if self._folder else ():
            with suppress(OSError, NotPlainDataError):
                kept, value = unpack((self._folder / place).read_bytes())
                if kept == name:
                    return [value]
        return []

    def keep(self, name: str, value: Any) -> None:
        """Remember an answer, unless it is too large."""
        if self._folder is None:
            return
        with suppress(OSError, NotPlainDataError):  # then it is asked for again
            content = pack([name, value])
            if len(content) <= _LARGEST:
                atomic_write(self._folder / (name if len(content) < _LARGE else name[:_SLOTS_HEX]), content)


class LoadingChild:
    """Runs the functions of helpers.checks.probes.loads in a sandboxed child; used as a context manager.

    Args:
        sandbox: the name of the sandbox.
        scratch: an empty folder for it.
        gpu: whether the child needs the GPU.
        memory: the remembered answers.
    """

    def __init__(self, sandbox: str, scratch: Path, gpu: bool, memory: Memory | None = None) -> None:
        self._sandbox, self._memory = sandbox, memory or Memory()
        self._room = Room(scratch.resolve(), reads=(_TRTLAB,), gpu=gpu)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LoadingChild":
        elsewhere(self.run)
        return self

    def __exit__(self, *_: object) -> None:
        elsewhere(None)
        self._end()

    def run(self, module: str, name: str, given: tuple[Any, ...], seconds: float, repeatable: bool = False) -> Any:
        """Run a function in the child within `seconds`; use a remembered answer if the call is `repeatable`.

        Raises:
            LabError: the function raised it; LoadError if the child broke or passed a limit.
            SystemExit: the machine's disk or memory is full, so that this judge can decide nothing more.
        """
        try:
            request = asked(module, name, given)
            answer = self._memory.ask(request)
            if repeatable and (known := self._memory.known(answer)):
                return known[0]
            if self._process is None:
                self._start()
            value = answered(self._channel, time.monotonic() + seconds, request)
        except (ChannelError, NotPlainDataError) as error:
            started = self._process is not None
            self._end()
            if started and self._watch.machine_full:
                raise SystemExit(self._watch.ended_by) from error
            ended_by = self._watch.ended_by if started else ""
            reason = ended_by or f"it broke the process that loads it, or took over {seconds:g} s"
            raise LoadError(f"{name} of the file: {reason} ({error})") from error
        if repeatable:
            self._memory.keep(answer, value)
        return value

    def _start(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        argv, environment = command(
            self._sandbox,
            [sys.executable, "-m", "helpers.checks.probes.loads", f"trtlab={_TRTLAB}"],
            self._room,
            LIMITS,
        )
        with theirs:
            self._process = subprocess.Popen(
                argv,
                env=environment,
                cwd=self._room.scratch,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._watch = Watch(self._process.pid, self._room, LIMITS)

    def _end(self) -> None:
        if self._process is not None:
            self._channel.close()
            self._watch.stop()
            self._process.wait()
            self._process = None
