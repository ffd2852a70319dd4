"""Messages between the judge and an untrusted process over a Unix socket: a letter, eight bytes of length, content.

    judge → student   Q a request · A the answer to a question · E the end: no more requests
    student → judge   R the reply · W a question while a request is being worked on

The student's process may write anything, late or never, so reading has limits on time and length.
"""

import select
import socket
import struct
import time

from helpers.checks.probes.codec import MOST_BYTES

REQUEST, ANSWER, END, REPLY, QUESTION = b"Q", b"A", b"E", b"R", b"W"

_MOST_QUESTION = 1 << 16
"""Most bytes of a question: it holds numbers and names, never arrays."""

_HEAD = struct.Struct("<cQ")
_PIECE = 1 << 20
_now = time.monotonic  # a simulated clock may replace the one in `time` while the student's code runs


class ChannelError(Exception):
    """The other side went away, wrote something else than a message, or was too late; the text says which."""


def write_message(channel: socket.socket, kind: bytes, content: bytes = b"", ends: float | None = None) -> None:
    """Write one message; `ends` is the moment of time.monotonic() by which the other side must have taken it.

    Raises:
        ChannelError: it did not.
    """
    left = memoryview(_HEAD.pack(kind, len(content)) + content)
    while left:
        _wait(channel, ends, writing=True)
        try:
            left = left[channel.send(left[:_PIECE]) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise ChannelError("the connection ended") from error


def read_message(
    channel: socket.socket, kinds: bytes, ends: float | None = None, stop: int | None = None
) -> tuple[bytes, bytes]:
    """Return the kind and the content of the next message.

    Args:
        channel: the socket.
        kinds: the letters that may come.
        ends: the moment of time.monotonic() by which the whole message must be there; None waits forever.
        stop: a file descriptor; when it can be read, nothing more will come.

    Raises:
        ChannelError: there is no message.
    """
    kind, length = _HEAD.unpack(_read(channel, _HEAD.size, ends, stop))
    if kind not in kinds or length > (_MOST_QUESTION if kind == QUESTION else MOST_BYTES):
        raise ChannelError(f"what came was no message ({kind!r}, {length:,} bytes)")
    return kind, _read(channel, length, ends, stop)


def _read(channel: socket.socket, length: int, ends: float | None, stop: int | None) -> bytes:
    found = bytearray()
    while len(found) < length:
        _wait(channel, ends, stop)
        try:
            piece = channel.recv(min(_PIECE, length - len(found)))
        except BlockingIOError:
            continue
        except OSError as error:
            raise ChannelError("the connection ended") from error
        if not piece:
            raise ChannelError("the connection ended")
        found += piece
    return bytes(found)


def _wait(channel: socket.socket, ends: float | None, stop: int | None = None, *, writing: bool = False) -> None:
    if ends is None and stop is None:
        return
    poll = select.poll()
    poll.register(channel, select.POLLOUT if writing else select.POLLIN)
    if stop is not None:
        poll.register(stop, select.POLLIN)
    left = None if ends is None else (ends - _now()) * 1e3
    ready = set() if left is not None and left <= 0 else {number for number, _ in poll.poll(left)}
    if channel.fileno() not in ready:
        raise ChannelError("the cell ended before it had answered" if ready else "the time was over")
