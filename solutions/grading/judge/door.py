"""The judge's end of the connection to the student's kernel, for one test cell."""

import select
import socket
import time
from pathlib import Path
from types import TracebackType

from helpers.probes.answer import Ask
from helpers.probes.channel import (
    ANSWER,
    END,
    QUESTION,
    REPLY,
    REQUEST,
    ChannelError,
    read_message,
    write_message,
)

__all__ = ["Door"]

SLACK_S = 60.0
"""Seconds beyond a probe's own limit, which the student's side keeps: what is imported first, and the transfer."""


class Door:
    """Listens for the kernel at a socket's `path`, and carries requests to it; used as a context manager.

    What the kernel's side does wrong breaks the connection for good: the same ChannelError answers all that follows.

    Args:
        path: where to listen; nobody may know it before.
        stop: a file descriptor that can be read once the cell has ended and nobody will answer any more.
        slack_s: seconds that a reply may take beyond its probe's limit.
    """

    def __init__(self, path: str | Path, stop: int, slack_s: float = SLACK_S) -> None:
        self._path, self._stop, self._slack_s = Path(path), stop, slack_s
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel: socket.socket | None = None
        self._broken = ""

    def __enter__(self) -> "Door":
        self._listener.bind(str(self._path))
        self._listener.listen(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            if not self._broken:
                self._end()
            self._channel.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def wait(self) -> None:
        """Wait for the kernel to connect, as long as the cell runs."""
        poll = select.poll()
        for watched in (self._listener.fileno(), self._stop):
            poll.register(watched, select.POLLIN)
        if self._listener.fileno() in {number for number, _ in poll.poll()}:
            self._channel, _ = self._listener.accept()
            self._channel.setblocking(False)
        else:
            self._broken = "the cell ended before anything could be asked"

    def send(self, request: bytes, ask: Ask, limit_s: float) -> bytes:
        """Return the reply to a request, answering what is asked meanwhile; as helpers.probes.student.Send.

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
