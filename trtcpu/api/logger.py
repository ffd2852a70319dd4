"""TensorRT's loggers: `ILogger` to derive from and the default `Logger`, which prints to stdout."""

import enum
import sys
import time

from trtcpu.api.pybind import Overridable, Scoped, to_override


class Severity(enum.IntEnum):
    """How grave a message is; smaller is graver."""

    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4

    def __str__(self) -> str:
        return f"Severity.{self.name}"


_LETTERS = {
    Severity.INTERNAL_ERROR: "F",
    Severity.ERROR: "E",
    Severity.WARNING: "W",
    Severity.INFO: "I",
    Severity.VERBOSE: "V",
}


class ILogger(Scoped, Overridable):
    """Base of loggers; a subclass overrides `log(severity, msg)` and calls `trt.ILogger.__init__(self)`."""

    __slots__ = ()
    Severity = Severity
    INTERNAL_ERROR = Severity.INTERNAL_ERROR
    ERROR = Severity.ERROR
    WARNING = Severity.WARNING
    INFO = Severity.INFO
    VERBOSE = Severity.VERBOSE

    @to_override
    def log(self, severity: Severity, msg: str) -> None:
        """Take a message."""


class Logger(ILogger):
    """Print messages at or above a severity to stdout as `[11/20/2026-12:00:00] [TRT] [W] text`."""

    __slots__ = ("min_severity",)

    def __init__(self, min_severity: Severity = Severity.WARNING) -> None:
        super().__init__()
        if not isinstance(min_severity, Severity):
            raise TypeError(f"Logger needs a trt.Logger.Severity such as trt.Logger.WARNING, found {min_severity!r}")
        self.min_severity = min_severity

    def log(self, severity: Severity, msg: str) -> None:
        if severity <= self.min_severity:
            stamp = time.strftime("%m/%d/%Y-%H:%M:%S")
            sys.stdout.write(f"[{stamp}] [TRT] [{_LETTERS[severity]}] {msg}\n")
            sys.stdout.flush()
