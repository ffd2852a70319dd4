"""Every error that is the user's to mend, as one tree.

    Exception
    └── LabError                  str() is one line: what is wrong, what was found, what to do
        ├── InputError            a file, an option or data that cannot be used
        ├── EngineError           an engine could not be built or run
        │   └── EngineUnavailableError   the engine asked for cannot run on this machine
        ├── DataError             a data set or weights could not be rendered, downloaded or verified
        └── UnsupportedError      a TensorRT feature that the CPU engine does not have; a NotImplementedError too, and
                                  an AttributeError, so that `hasattr` and a caller's own fallback work

Anything else that escapes is a bug of this project and keeps its traceback.
"""


class LabError(Exception):
    """Base of the errors that a user can mend; its text is one clear line."""


class InputError(LabError):
    """A file, an option or data that cannot be used."""


class EngineError(LabError):
    """An engine could not be built or run."""


class EngineUnavailableError(EngineError):
    """The engine that was asked for cannot run on this machine."""


class DataError(LabError):
    """A data set or weights could not be rendered, downloaded or verified."""


class UnsupportedError(LabError, NotImplementedError, AttributeError):
    """A TensorRT feature that the CPU engine does not have."""
