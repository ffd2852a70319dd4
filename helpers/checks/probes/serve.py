"""The student's side of grading: answers what the judge asks over a socket until it has asked everything.

    serve("/…/judge.sock", globals())        # what runs in place of a test cell's check

It holds no secret, and nothing that is said here is believed: what it answers are the student's own words.
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
"""Seconds within which a judge that lives has connected: it waits for nothing else."""


def serve(path: str, namespace: Mapping[str, Any]) -> None:
    """Answer the judge, who connects to `path`, with the functions of `namespace`, one request after the other."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:  # a sandbox may let nobody connect
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(_JUDGE_S)
        channel = listener.accept()[0]
        os.unlink(path)
    with channel:
        while True:
            kind, request = read_message(channel, REQUEST + END)
            if kind == END:
                return
            questions = _Questions(channel)
            reply = answer(namespace, request, questions.ask)
            questions.end()
            write_message(channel, REPLY, reply)


class _Questions:
    """Puts what the student's functions ask to the judge, one at a time, while one request is worked on."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._lock = channel, threading.Lock()
        self._process, self._open = os.getpid(), True

    def ask(self, question: bytes) -> bytes:
        """Return the judge's answer.

        Raises:
            RuntimeError: the request is answered already, or another process asks.
        """
        with _uninterrupted(), self._lock:
            if not self._open or os.getpid() != self._process:
                raise RuntimeError("this can be called while the check runs, in its own process")
            write_message(self._channel, QUESTION, question)
            return read_message(self._channel, ANSWER)[1]

    def end(self) -> None:
        """Take no more questions; one that is under way comes to its end first."""
        with self._lock:
            self._open = False


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold a time limit's or the grader's signal back: it would cut a message in two."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
