"""One logger for every TensorRT object of the process, which keeps what TensorRT says so that an error can repeat it.

TensorRT has one global logger: the first that is given to a builder, runtime or refitter. A second would miss messages.
"""

import contextlib
from collections.abc import Iterator

from helpers.engine.backend import trt

_KEPT = 200
_SHOWN = 3


class Messages:
    """The errors and warnings that were logged while it was collecting; `text()` gives the errors as one line."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def text(self) -> str:
        """Return the first distinct errors, joined; empty where TensorRT logged none."""
        distinct = list(dict.fromkeys(" ".join(message.split()) for message in self.errors))
        return "; ".join(distinct[:_SHOWN])


class EngineLog(trt.ILogger):
    """A `trt.ILogger` that prints nothing and hands errors and warnings to whoever is collecting."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self._collecting: list[Messages] = []
        self.last_error = ""

    def log(self, severity: "trt.ILogger.Severity", msg: str) -> None:
        """Keep errors and warnings; TensorRT calls this from its own threads."""
        if int(severity) > int(trt.ILogger.Severity.WARNING):
            return
        is_error = int(severity) <= int(trt.ILogger.Severity.ERROR)
        if is_error:
            self.last_error = " ".join(msg.split())
        for messages in self._collecting:
            kept = messages.errors if is_error else messages.warnings
            if len(kept) < _KEPT:
                kept.append(msg)

    @contextlib.contextmanager
    def collect(self) -> Iterator[Messages]:
        """Give the `Messages` that are logged inside the block."""
        messages = Messages()
        self._collecting.append(messages)
        try:
            yield messages
        finally:
            self._collecting.remove(messages)


LOG = EngineLog()
