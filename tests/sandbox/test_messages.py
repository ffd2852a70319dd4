"""What a kernel sends: a message that is too large is refused and said, and what follows arrives."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import zmq

from solutions.sandbox import messages
from solutions.sandbox.messages import MESSAGE_BYTES, Refused, Unread, limit_messages


def test_a_message_that_is_too_large_is_refused_and_the_next_one_arrives(tmp_path: Path) -> None:
    with zmq.Context() as theirs, zmq.Context() as ours, theirs.socket(zmq.PUB) as kernel:
        kernel.linger = 0
        kernel.bind(f"ipc://{tmp_path}/k")
        limit_messages(ours)
        channels = [ours.socket(kind) for kind in (zmq.SUB, zmq.DEALER)]
        channels[0].connect(f"ipc://{tmp_path}/k")
        channels[0].subscribe(b"")
        iopub, shell = (SimpleNamespace(socket=channel) for channel in channels)
        refused = Refused(SimpleNamespace(context=ours, iopub_channel=iopub, shell_channel=shell))
        assert _sent(kernel, channels[0], b"small") and refused.since() == ""
        assert not _sent(kernel, channels[0], bytes(MESSAGE_BYTES + 1), waits=3)
        assert "larger than 64 MiB" in refused.since() and refused.since() == ""
        assert _sent(kernel, channels[0], b"after")
        ours.destroy(linger=0)


def _sent(kernel: zmq.Socket, channel: zmq.Socket, message: bytes, waits: int = 100) -> bool:
    """Send it again and again until it arrives: what is sent to nobody is lost."""
    for _ in range(waits):
        kernel.send(message)
        if channel.poll(100):
            while channel.poll(0):
                found = channel.recv()
            return found == message
    return False


def test_what_is_held_since_a_kernel_began_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    held = iter([1000, 1900, 2100])
    monkeypatch.setattr(messages, "_held", lambda: next(held))
    unread = Unread(1000)
    assert unread.passed() == "" and unread.passed().startswith("it sent more than can be read")
