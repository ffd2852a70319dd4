"""Starts places warm: the standard library's fork server has done the imports, which take seconds.

The server imports this module and so runs its last lines before it forks the first place. With real TensorRT it imports
nothing else, since no process may be forked once CUDA is loaded: each place does its own imports.
"""

import importlib
import multiprocessing
import multiprocessing.util
import os
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock
from unittest import mock

from solutions.sandbox.scratch import PLACE, enter

# Variables that tell the server where scratches lie, and the judge's module.
_SCRATCHES, _JUDGE = "_WARM_SCRATCHES", "_WARM_JUDGE"
_PLACE_MODULE = "solutions.grading.work.place"
_CONTEXT = multiprocessing.get_context("forkserver")
multiprocessing.util.abstract_sockets_supported = False  # before Python 3.10.9 any user could connect (CVE-2022-42919)
_LOCK = Lock()
_kept: list[tempfile.TemporaryDirectory[str]] = []


def start(environment: Mapping[str, str], judge: str) -> tuple[BaseProcess, Connection]:
    """Start a place with exactly this environment; return its process and our end of the connection.

    The first call starts the server. It imports the module `judge`, or nothing if the name is empty.
    """
    with _LOCK:
        if not _kept:
            _CONTEXT.set_forkserver_preload([__name__])
            _kept.append(tempfile.TemporaryDirectory(prefix=PLACE, ignore_cleanup_errors=True))
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_begin, args=(theirs, dict(environment)))
        with mock.patch.dict(os.environ, {**environment, _SCRATCHES: _kept[0].name, _JUDGE: judge}, clear=True):
            process.start()
    theirs.close()
    return process, ours


def _begin(asked: Connection, environment: dict[str, str]) -> None:
    os.setsid()  # Ctrl-C is the coordinator's
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(_PLACE_MODULE).main(asked, copied=bool(_ready))


_ready: list[str] = []


def _get_ready(scratches: str, judge: str) -> None:
    """Enter the namespace where scratches lie, then import what places and the judge need.

    If the judge cannot be imported, it says why when it is started.
    """
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    with open(os.devnull, "w") as nobody:  # a piece's answer says what is wrong with it
        os.dup2(nobody.fileno(), 1)
        os.dup2(nobody.fileno(), 2)
    enter(Path(scratches))  # before anything starts a thread
    if judge:
        importlib.import_module(_PLACE_MODULE)
        with suppress(Exception):
            importlib.import_module(judge)
            _ready.append(judge)


if _SCRATCHES in os.environ:
    _get_ready(os.environ.pop(_SCRATCHES), os.environ.pop(_JUDGE))
