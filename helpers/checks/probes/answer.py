"""The student's side of a probe: it runs the notebook's functions on received data, and answers with data.

A probe is a function `probe(notebook, **data) -> plain data`; `notebook` gives the student's functions by name. Probes
hold no secret: they run in the same process as the student's code, and import only helpers/ and trtcpu/. Their answers
are judged elsewhere.
"""

import ast
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.checks.probes.capture import captured, time_limit
from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from helpers.checks.probes.frames import said, where
from helpers.tools.cells import as_python, cell_of, cells_of, defines, same_code

Probe = Callable[..., Any]

MOST_CHARACTERS = 20_000
"""Most characters of each text of an error."""

_PROBES: dict[str, Probe] = {}


class MissingNameError(Exception):
    """The notebook does not define a name that the task asks for."""


Ask = Callable[[bytes], bytes]
"""Carries a packed question to the judge's side, and its packed answer back."""


class AnswerError(Exception):
    """The judge's side could not answer a question; the text is its reason."""


class Notebook:
    """The student's functions and classes by name, and a way to ask the object of a call's `serves`."""

    def __init__(self, namespace: Mapping[str, Any], ask: Ask | None = None) -> None:
        self._namespace, self._ask = namespace, ask

    def ask(self, name: str, **data: Any) -> Any:
        """Return the answer to `data` of the method `name` of the `serves` object, on the judge's side.

        Raises:
            AnswerError: it raised, or there is no such method.
        """
        if self._ask is None:
            raise AnswerError("there is nobody to ask here")
        answered = unpack(self._ask(pack({"name": name, "data": data})))
        if answered["error"] is not None:
            raise AnswerError(answered["error"])
        return answered["value"]

    def __getitem__(self, name: str) -> Any:
        """Return the notebook's function or class `name`.

        Raises:
            MissingNameError: it does not exist, cannot be called, or the last run of its cell failed.
        """
        found = self._namespace.get(name)
        failed = _failed_cell(name, found, cells_of(self._namespace))
        if failed or not callable(found):
            state = "is not defined" if name not in self._namespace else f"is a {type(found).__name__}, not callable"
            raise MissingNameError(f"{name} {state if not failed else failed}")
        return found

    def alone(self, name: str) -> Any:
        """Return `name` as its cell alone defines it; as it is if the cell is not known."""
        found = self[name]
        cell = cell_of(found, name)
        if not defines(cell, name):
            return found
        namespace = {"__name__": "__main__", "get_ipython": self._namespace.get("get_ipython")}  # magics call it
        exec(compile(cell, f"the cell of {name}", "exec"), namespace)
        return namespace[name]

    def value(self, name: str) -> Any:
        """Return a variable of the notebook, or None."""
        return self._namespace.get(name)


def _failed_cell(name: str, found: Any, cells: Sequence[str]) -> str | None:
    """Return how the newest of the executed `cells` (IPython's `In`) that defines `name` failed, None if it did not.

    Then `found` is from an earlier run of that cell, and a judgement of it would confuse the student.
    """
    newest = next((text for text in map(as_python, reversed(cells)) if defines(text, name)), None)
    if newest is None:
        return None
    try:
        ast.parse(newest)
    except SyntaxError as error:
        return f"is not what its cell says: the cell's last run ended with {error.msg} in line {error.lineno}"
    ran = cell_of(found, name)
    if not defines(ran, name) or same_code(ran, newest):
        return None
    if any(same_code(ran, text) for text in map(as_python, cells)):
        return "is of an earlier run: the last run of its cell ended with an error before it was defined"
    return None


def probe(function: Probe) -> Probe:
    """Register a probe under its function's name."""
    _PROBES[function.__name__] = function
    return function


@probe
def called(notebook: Notebook, *, name: str, argument: Any) -> Any:
    """Return the result of a function of the notebook for one argument."""
    return notebook[name](argument)


def answer(namespace: Mapping[str, Any], request: bytes, ask: Ask | None = None) -> bytes:
    """Run the probe that `request` names on the notebook in `namespace` and return the packed reply.

    The reply holds `value` or `error` ({"type", "message", "where"}), and what was printed.
    Any exception of the student's code becomes the `error`; only an interrupt from outside passes. The probe's
    questions go through `ask`.
    """
    asked = unpack(request)
    reply: dict[str, Any] = {"value": None, "error": None}
    with captured() as output:
        try:
            with time_limit(asked["limit_s"]):
                value = known_probe(asked["probe"], asked["module"])(Notebook(namespace, ask), **asked["data"])
            pack(value)
            reply["value"] = value
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and the student's own classes included
            reply["error"] = _described(error)
    reply["output"] = _printable(output.text)
    return pack(reply)


def known_probe(name: str, module: str = "") -> Probe:
    """Return a probe by its name, importing its module if needed.

    Raises:
        KeyError: there is none.
    """
    if name not in _PROBES and module:  # a process started to answer has imported none of them
        importlib.import_module(module)
    return _PROBES[name]


def _described(error: BaseException) -> dict[str, str]:
    kind = "NotPlainData" if isinstance(error, NotPlainDataError) else type(error).__name__
    try:
        message = said(error)
    except Exception:  # printing a student's exception class may fail
        message = "an exception that cannot be printed"
    texts = {"type": kind, "message": message, "where": where(error)}
    return {name: _printable(text)[:MOST_CHARACTERS] for name, text in texts.items()}


def _printable(text: str) -> str:
    """Return a text without lone surrogates, which no file can store."""
    return text.encode(errors="replace").decode()
