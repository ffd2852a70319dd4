"""Every error that is the user's to mend, as one tree.

    Exception
    └── LabError                  str() is one line: what is wrong, what was found, what to do
        ├── InputError            a file, an option or data that cannot be used
        │   └── SettingError      an environment variable, or a line of course.toml, that cannot be used
        ├── EngineError           an engine could not be built or run
        │   └── EngineUnavailableError   the engine asked for cannot run on this machine
        ├── DataError             a data set or weights could not be rendered, downloaded or verified
        └── UnsupportedError      a TensorRT feature that the CPU engine does not have; a NotImplementedError too, and
                                  an AttributeError, so that `hasattr` and a caller's own fallback work

Settings are read while modules are imported, before a command can catch anything. So a SettingError or an
EngineUnavailableError that nobody catches ends the process with its line and exit code 2: no code is at fault.
Anything else that escapes is a bug of this project and keeps its traceback.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import TracebackType

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


class LabError(Exception):
    """Base of the errors that a user can mend; its text is one clear line."""


class _NoCodeAtFaultError(LabError):
    """If nobody catches it, its line is shown without a traceback, even if typer has set a hook of its own."""

    def __init__(self, *said: object) -> None:
        super().__init__(*said)
        if getattr(sys.excepthook, "func", None) is not _in_one_line:
            sys.excepthook = partial(_in_one_line, sys.excepthook)


def _in_one_line(other: _Hook, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, _NoCodeAtFaultError):
        return other(kind, error, trace)
    sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
    sys.exit(2)


class InputError(LabError):
    """A file, an option or data that cannot be used."""


class SettingError(InputError, _NoCodeAtFaultError):
    """An environment variable, or a line of course.toml, that cannot be used."""


class EngineError(LabError):
    """An engine could not be built or run."""


class EngineUnavailableError(EngineError, _NoCodeAtFaultError):
    """The engine that was asked for cannot run on this machine."""


class DataError(LabError):
    """A data set or weights could not be rendered, downloaded or verified."""


class UnsupportedError(LabError, NotImplementedError, AttributeError):
    """A TensorRT feature that the CPU engine does not have."""
