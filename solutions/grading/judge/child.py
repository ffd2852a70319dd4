"""The disposable process in which what a student made is loaded: sandboxed, limited, started anew when it breaks."""

import math
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.checks.probes.channel import ChannelError
from helpers.checks.probes.codec import NotPlainDataError
from helpers.checks.probes.loads import LoadError, answered, asked, elsewhere
from solutions.grading.judge.memory import Memory
from solutions.grading.layout import ROOT
from solutions.sandbox import Limits, Room, Watch, command

LIMITS = Limits(memory_bytes=6 << 30, processes=32, scratch_bytes=1 << 30, seconds=math.inf)  # each call has its own

_TRTLAB = ROOT / "trtlab"  # how engines are run; the child sees nothing of solutions/


class LoadingChild:
    """Runs the functions of helpers.checks.probes.loads in a sandboxed child; used as a context manager.

    Args:
        sandbox: the name of the sandbox.
        scratch: an empty folder for it.
        gpu: whether the child needs the GPU.
        memory: the answers that are known.
    """

    def __init__(self, sandbox: str, scratch: Path, gpu: bool, memory: Memory | None = None) -> None:
        self._sandbox, self._memory = sandbox, memory or Memory()
        self._room = Room(scratch.resolve(), reads=(_TRTLAB,), gpu=gpu)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LoadingChild":
        elsewhere(self.run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        elsewhere(None)
        self._end()

    def run(self, module: str, name: str, given: tuple[Any, ...], seconds: float, repeatable: bool = False) -> Any:
        """Run a function in the child, within so many seconds; what is `repeatable` and known is not run again.

        Raises:
            LabError: as the function raised it; LoadError where the child broke or passed a limit.
            SystemExit: the machine's disk or memory is full: this judge can decide nothing more.
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
