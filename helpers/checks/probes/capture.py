"""Runs student code with its output captured, and a limit on its time.

A print to stderr, or a value that reaches the display hook, would change the points of an nbgrader cell.
"""

import contextlib
import io
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator

_STDOUT, _STDERR = 1, 2
KEPT_BYTES = 20_000
"""Most bytes of Python's output, and as many of the process's other output."""


class TimeLimitError(Exception):
    """The code ran longer than it was given."""


class Output:
    """The printed output; `text` is complete after the block, at most the last 20 KB."""

    text: str = ""


@contextlib.contextmanager
def captured() -> Iterator[Output]:
    """Keep stdout and stderr (Python's and the process's), warnings and the display hook away from the cell."""
    output, printed = Output(), io.StringIO()
    hooks, root = (sys.displayhook, sys.excepthook), logging.getLogger()
    handlers = root.handlers
    with tempfile.TemporaryFile() as file, _descriptors_to(file.fileno()):
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sys.displayhook = lambda value: None
                # An existing handler would write to the notebook's stream, or to an earlier block's.
                root.handlers = [logging.StreamHandler(printed)] if handlers else []
                yield output
        finally:
            sys.displayhook, sys.excepthook = hooks
            root.handlers = handlers
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - KEPT_BYTES))
            output.text = printed.getvalue()[-KEPT_BYTES:] + file.read().decode(errors="replace")


@contextlib.contextmanager
def _descriptors_to(target: int) -> Iterator[None]:
    """Point file descriptors 1 and 2 at `target`: TensorRT's logger writes to them directly."""
    saved = os.dup(_STDOUT), os.dup(_STDERR)
    try:
        os.dup2(target, _STDOUT)
        os.dup2(target, _STDERR)
        yield
    finally:
        for kept, descriptor in zip(saved, (_STDOUT, _STDERR), strict=True):
            os.dup2(kept, descriptor)
            os.close(kept)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError in the block after `seconds`; no effect outside the main thread or without SIGALRM."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def expire(number: int, frame: object) -> None:
        raise TimeLimitError(f"still running after {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
