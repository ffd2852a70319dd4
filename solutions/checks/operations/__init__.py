"""The student's side of a call: it runs the submission's functions on data it is sent, and answers with data.

Everything in this folder runs beside the student's code, in the same process, today in the notebook's kernel. It
imports nothing else of solutions/, so that it can run where the rest is not there. An operation is a function
`operation(submission, **data) -> plain data`; `submission` gives the student's functions by name.
"""

import importlib
import pkgutil
import time
from collections.abc import Callable, Mapping
from typing import Any

from helpers.probes.capture import captured, time_limit
from helpers.probes.frames import where
from solutions.checks.codec import NotPlainDataError, pack, unpack

__all__ = ["MissingFunctionError", "Submission", "answer", "operation"]

Operation = Callable[..., Any]

_OPERATIONS: dict[str, Operation] = {}


class MissingFunctionError(Exception):
    """The submission does not define what it was asked to write."""


class Submission:
    """The student's functions and classes by name."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        """Return what the student's notebook calls `name`.

        Raises:
            MissingFunctionError: nothing has that name, or it cannot be called.
        """
        found = self._namespace.get(name)
        if not callable(found):
            state = "is not defined" if name not in self._namespace else f"is a {type(found).__name__}, not callable"
            raise MissingFunctionError(f"{name} {state}")
        return found

    def value(self, name: str) -> Any:
        """Return a variable of the notebook, or None."""
        return self._namespace.get(name)


def operation(function: Operation) -> Operation:
    """Register an operation under its function's name."""
    _OPERATIONS[function.__name__] = function
    return function


def answer(namespace: Mapping[str, Any], request: bytes) -> bytes:
    """Run the operation that `request` names on the submission in `namespace` and return the packed reply.

    The reply holds `value` or `error` ({"type", "message", "where"}), what was printed, and the seconds it took.
    Whatever the student's code raises becomes the `error`; only an interrupt from outside passes.
    """
    _load_all()
    asked = unpack(request)
    reply: dict[str, Any] = {"value": None, "error": None}
    started = time.perf_counter()
    with captured() as output:
        try:
            with time_limit(asked["limit_s"]):
                value = _OPERATIONS[asked["operation"]](Submission(namespace), **asked["data"])
            pack(value)
            reply["value"] = value
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and the student's own classes included
            reply["error"] = _described(error)
    reply["seconds"] = time.perf_counter() - started
    reply["output"] = output.text
    return pack(reply)


def _described(error: BaseException) -> dict[str, str]:
    kind = "NotPlainData" if isinstance(error, NotPlainDataError) else type(error).__name__
    return {"type": kind, "message": _text(error), "where": where(error)}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a student's exception class may fail to print itself
        return "an exception that cannot be printed"


def _load_all() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
