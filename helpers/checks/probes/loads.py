"""Functions that load a student's files: plain data in, plain data out, so that another process can run them.

    @loads
    def plan_facts(plan: bytes) -> dict[str, Any] | None: ...

    @loads(seconds=600)
    def built(model: bytes) -> bytes: ...

By default they run here. If a judge has named another place (`elsewhere`), they run there: in a sandboxed child without
secrets, with limits on time and memory, since a file can be made to hang or break its loader.

`python -m helpers.checks.probes.loads [PACKAGE=FOLDER]` is that child: it takes calls over its stdin, a socket. The
sandbox shows only the folder of the package.
"""

import functools
import importlib
import os
import socket
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from helpers.checks.probes.channel import REPLY, REQUEST, ChannelError, read_message, write_message
from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from helpers.checks.probes.schema import fitting, schema_of
from trtcpu.errors import LabError

CALL_S = 120.0  # limit for one load or run of a student's file elsewhere, the child's start included

Place = Callable[[str, str, tuple[Any, ...], float, bool], Any]
"""Runs a function, by module and name, on arguments within these seconds; the last says if it is repeatable."""

_place: list[Place] = []
_ERRORS = {error.__name__: error for error in (LabError, *LabError.__subclasses__())}


class LoadError(LabError):
    """A student's file could not be loaded: it broke its loader, or took too much time or memory."""


def loads(function: Any = None, *, seconds: float = CALL_S, repeatable: bool = True) -> Any:
    """Let the decorated function run where students' files are loaded, within `seconds`.

    A `repeatable` function always gives the same answer to the same arguments, so it need not run again.
    """
    if function is None:
        return functools.partial(loads, seconds=seconds, repeatable=repeatable)

    @functools.wraps(function)
    def run(*given: Any) -> Any:
        if not _place:
            return function(*given)
        value = _place[-1](function.__module__, function.__name__, given, seconds, repeatable)
        try:
            return fitting(value, schema_of(function))
        except NotPlainDataError as error:
            raise LoadError(str(error)) from error

    return run


def elsewhere(place: Place | None) -> None:
    """Have every function of `loads` run at `place` from now on; None: in this process again."""
    _place[:] = [place] if place else []


def asked(module: str, name: str, given: tuple[Any, ...]) -> bytes:
    """Return the request for a function's answer to arguments.

    Raises:
        NotPlainDataError: they are not plain data.
    """
    return pack([module, name, list(given)])


def answered(channel: socket.socket, ends: float | None, request: bytes) -> Any:
    """Return the answer of the child at the other end of `channel`, or raise the function's error.

    Raises:
        ChannelError, NotPlainDataError: no answer, or one that cannot be read.
        LabError: the function raised it, or another exception.
    """
    write_message(channel, REQUEST, request, ends)
    reply = unpack(read_message(channel, REPLY, ends)[1])
    if not isinstance(reply, list) or len(reply) != 3:
        raise ChannelError("what came was not an answer")
    value, kind, text = reply
    if kind is not None:
        raise _ERRORS.get(str(kind), LoadError)(str(text)[:500])
    return value


def _answered(request: bytes) -> bytes:
    try:
        module, name, given = unpack(request)
        return pack([getattr(importlib.import_module(module), name)(*given), None, None])
    except Exception as error:  # a file can make its loader raise anything
        kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _ERRORS), "LoadError")
        said = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        return pack([None, kind, said[:500].encode(errors="replace").decode()])


def _place_package(name: str, folder: str) -> None:
    """Let a package be imported from its folder, without the folders above it."""
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


def _serve(*packages: str) -> None:
    for package in packages:
        _place_package(*package.split("=", 1))
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as channel, suppress(ChannelError):
        while True:
            write_message(channel, REPLY, _answered(read_message(channel, REQUEST)[1]))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
