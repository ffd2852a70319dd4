"""What a kernel may send to who runs it: messages of a largest size, and no more of them than memory bears."""

import os

import zmq
from jupyter_client import AsyncKernelClient

from solutions.sandbox.processes import memory_bytes

MESSAGE_BYTES = 64 << 20
"""Of one message. A larger one breaks its connection before it is read."""

_MIB = 1 << 20


def limit_messages(context: zmq.Context) -> None:
    """Let the sockets that a context will make take no larger messages."""
    context.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES)


class Refused:
    """Tells of messages that were too large for a client, and connects it again: ZeroMQ does not, by itself."""

    def __init__(self, client: AsyncKernelClient) -> None:
        self._client, self._events = client, {}
        for name in ("iopub", "shell"):
            self._socket(name).monitor(f"inproc://{name}", zmq.EVENT_DISCONNECTED)
            self._events[name] = client.context.socket(zmq.PAIR, socket_class=zmq.Socket)
            self._events[name].connect(f"inproc://{name}")

    def since(self) -> str:
        """Return what was refused since this was asked last, as a clause; empty where nothing was."""
        broken = [name for name, events in self._events.items() if _emptied(events)]
        for name in broken:
            socket = self._socket(name)
            address = socket.last_endpoint.rstrip(b"\0").decode()
            socket.disconnect(address)
            socket.connect(address)
        return (
            f"the kernel sent a message larger than {MESSAGE_BYTES // _MIB} MiB, which was not taken" if broken else ""
        )

    def _socket(self, name: str) -> zmq.Socket:
        return getattr(self._client, f"{name}_channel").socket


def _emptied(events: zmq.Socket) -> int:
    count = 0
    while events.poll(0):
        events.recv_multipart()
        count += 1
    return count


class Unread:
    """Tells when this process has come to hold more than `most` bytes since a kernel was started.

    ZeroMQ counts whole messages: one with parts without end passes each limit of its own.
    """

    def __init__(self, most: int) -> None:
        self._most, self._before = most, _held()

    def passed(self) -> str:
        """Return that the limit was passed, as a clause that begins with "it"; empty where it was not."""
        over = _held() - self._before > self._most
        return f"it sent more than can be read: over {self._most // _MIB} MiB" if over else ""


def _held() -> int:
    return memory_bytes([os.getpid()], 1 << 62)
