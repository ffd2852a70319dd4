"""Places that begin warm: the standard library's fork server has imported what they need, which takes seconds.

The server imports this module, and then does what its last lines say before it forks anybody. On real TensorRT it
imports nothing more, since nothing may be forked once CUDA is imported: each place imports for itself.
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

# What the server's environment tells it: where scratches lie, and the judge's module.
_SCRATCHES, _JUDGE = "_WARM_SCRATCHES", "_WARM_JUDGE"
_PLACE_MODULE = "solutions.grading.work.place"
_CONTEXT = multiprocessing.get_context("forkserver")
multiprocessing.util.abstract_sockets_supported = False  # before Python 3.10.9 any user could connect (CVE-2022-42919)
_LOCK = Lock()
_kept: list[tempfile.TemporaryDirectory[str]] = []


def start(environment: Mapping[str, str], judge: str) -> tuple[BaseProcess, Connection]:
    """Start a place with this whole environment; return it with our end of a connection.

    The first one starts the server, which imports the module `judge`; without a name it imports nothing.
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
    """Go where scratches lie, and import what places and the judge's module do.

    A judge that cannot be imported says why where it is started.
    """
    warnings.simplefilter("ignore")  # nbgrader's and nbformat's own, about what is mended here
    with open(os.devnull, "w") as nobody:  # what is wrong with a piece is in its answer
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
