"""The judge's end of the connection to the student's kernel, for one test cell."""

import os
import select
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from helpers.checks.probes.answer import Ask
from helpers.checks.probes.channel import (
    ANSWER,
    END,
    QUESTION,
    REPLY,
    REQUEST,
    ChannelError,
    read_message,
    write_message,
)

# Seconds beyond a probe's own limit, which the student's side keeps: what is imported first, and the transfer.
SLACK_S = 60.0
_POLL_MS = 5


class Door:
    """Connects to the kernel, which listens at a socket's `path`, and carries requests to it; a context manager.

    What the kernel's side does wrong breaks the connection for good: the same ChannelError answers all that follows.

    Args:
        path: where the kernel listens once its cell runs, in a folder that only it can write.
        stop: a file descriptor that can be read once the cell has ended and nobody will answer any more.
        slack_s: seconds that a reply may take beyond its probe's limit.
    """

    def __init__(self, path: str | Path, stop: int, slack_s: float = SLACK_S) -> None:
        self._path, self._stop, self._slack_s = Path(path), stop, slack_s
        self._channel: socket.socket | None = None
        self._broken = ""

    def __enter__(self) -> "Door":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            if not self._broken:
                self._end()
            self._channel.close()

    def wait(self) -> None:
        """Wait for the kernel to listen, as long as the cell runs."""
        over = select.poll()
        over.register(self._stop, select.POLLIN)
        while not self._connected():
            if over.poll(_POLL_MS):
                self._broken = "the cell ended before anything could be asked"
                return

    def _connected(self) -> bool:
        """Connect, where there is a socket already: it itself, no link of the kernel's to somebody else's."""
        with suppress(OSError):  # none yet, or nobody listens yet
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            channel.setblocking(False)
            try:
                with _found(self._path) as path:
                    channel.connect(path)
            except OSError:
                channel.close()
                raise
            self._channel = channel
        return self._channel is not None

    def send(self, request: bytes, ask: Ask, limit_s: float) -> bytes:
        """Return the reply to a request, answering what is asked meanwhile; as helpers.checks.probes.student.Send.

        Raises:
            ChannelError: there is none, or none in time.
        """
        if self._broken or self._channel is None:
            raise ChannelError(self._broken or "nobody is there to answer")
        ends = time.monotonic() + limit_s + self._slack_s
        try:
            write_message(self._channel, REQUEST, request, ends)
            while True:
                kind, content = read_message(self._channel, REPLY + QUESTION, ends, self._stop)
                if kind == REPLY:
                    return content
                write_message(self._channel, ANSWER, ask(content), ends)
        except ChannelError as error:
            self._broken = str(error)
            self._channel.close()
            raise

    def _end(self) -> None:
        try:
            write_message(self._channel, END, ends=time.monotonic() + self._slack_s)
        except ChannelError as error:
            self._broken = str(error)


@contextmanager
def _found(path: Path) -> Iterator[str]:
    """Give a path to the socket that is there now; OSError where there is none."""
    if not sys.platform.startswith("linux"):
        yield str(path)
        return
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(found).st_mode):
            raise OSError(f"{path} is no socket")
        yield f"/proc/self/fd/{found}"
    finally:
        os.close(found)
