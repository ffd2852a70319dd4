"""Signals as clean ends: what is half-written goes, one line says so, exit code 128 + n.

They are SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGQUIT.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from helpers.tools.files import remove_temporaries

GRACE_S = 5.0
"""For how long the main thread may go on with a call that does not look for signals, such as a build in TensorRT."""

_CLEANING_S = 60.0  # then what cleans up hangs
_LOOK_S = 0.1

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # Windows has neither of the last two


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end; everything that cleans up after Ctrl-C cleans up after this."""


class _Ender:
    """The signal that ended the process, and the message that says so once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.lost = False  # raised where Python drops exceptions: in a destructor, in a callback of the collector
        self.heard = threading.Event()
        self.ended = threading.Event()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise in the main thread for the first signal; a second one must not break the cleaning up."""
        if self.number is None or self.lost:
            self.number, self.lost = number, False
            self.heard.set()
            raise Stopped(signal.Signals(number).name)

    def exit_code(self, number: int) -> int:
        """Say on stderr that the process was stopped; return its exit code."""
        with contextlib.suppress(OSError):  # after a SIGHUP the terminal may be gone
            name = signal.Signals(number).name
            sys.stderr.write(f"interrupted by {name}; run the same command again to go on\n")
            sys.stderr.flush()
        return 128 + number

    def watch(self, reader: socket.socket, numbers: set[int], grace_s: float) -> None:
        """End the process if the main thread does not hear a signal within `grace_s` seconds, or hangs after it."""
        while received := reader.recv(1):
            if received[0] in numbers:
                if not (self.heard.wait(grace_s) and self._unwound(received[0])):
                    remove_temporaries()
                    os._exit(self.exit_code(received[0]))
                return

    def _unwound(self, number: int) -> bool:
        """Wait until the block has ended; send the signal again when it was lost."""
        until = time.monotonic() + _CLEANING_S
        while not self.ended.wait(_LOOK_S) and time.monotonic() < until:
            if self.lost:
                os.kill(os.getpid(), number)
        return self.ended.is_set()


@contextlib.contextmanager
def clean_ends(grace_s: float = GRACE_S) -> Iterator[None]:
    """Let a signal end the block as Ctrl-C does, and then the process with 128 + the signal's number.

    A signal that whoever started the process told it to ignore (nohup, a shell's background jobs) stays ignored. Only
    the main thread receives signals: elsewhere the block runs as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ender = _Ender()
    with _handled(ender, grace_s):
        try:
            yield
        except BaseException:
            if ender.number is None:
                raise
    if ender.number is not None:
        sys.exit(ender.exit_code(ender.number))


@contextlib.contextmanager
def _handled(ender: _Ender, grace_s: float) -> Iterator[None]:
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    taken = {number for number, handler in previous.items() if handler not in (signal.SIG_IGN, None)}
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    waker = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=ender.watch, args=(reader, taken, grace_s), daemon=True)
    watcher.start()
    hook = sys.unraisablehook

    def notice(ignored: "sys.UnraisableHookArgs") -> None:
        if isinstance(ignored.exc_value, Stopped):
            ender.lost = True
        else:
            hook(ignored)

    sys.unraisablehook = notice
    for number in taken:
        signal.signal(number, ender.handle)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number in taken:
            signal.signal(number, previous[number])
        signal.set_wakeup_fd(waker)
        ender.ended.set()
        ender.heard.set()  # also if another library's handler took the signal
        writer.close()
        watcher.join()
        reader.close()
