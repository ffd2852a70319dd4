"""The student's side of grading: answers the judge's requests over a socket until the judge ends.

    serve("/…/judge.sock", globals())        # runs instead of a test cell's check

It holds no secret, and the judge trusts none of its answers.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from helpers.checks.probes.answer import answer
from helpers.checks.probes.channel import ANSWER, END, QUESTION, REPLY, REQUEST, read_message, write_message

_JUDGE_S = 60
"""Seconds within which the judge connects, unless it has died."""


def serve(path: str, namespace: Mapping[str, Any]) -> None:
    """Answer the judge, which connects to `path`, with the functions of `namespace`, one request at a time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:  # a sandbox may forbid connecting
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(_JUDGE_S)
        channel = listener.accept()[0]
        os.unlink(path)
    lock = threading.Lock()

    def ask(question: bytes) -> bytes:
        with _uninterrupted(), lock:
            write_message(channel, QUESTION, question)
            return read_message(channel, ANSWER)[1]

    with channel:
        while True:
            kind, request = read_message(channel, REQUEST + END)
            if kind == END:
                return
            write_message(channel, REPLY, answer(namespace, request, ask))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back signals of time limits and the grader, which would cut a message in two."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
