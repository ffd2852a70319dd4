"""Probes of step 1: they call the student's exporter and simplifier, and return the files that are left."""

import tempfile
from pathlib import Path
from typing import Any, TypedDict
from unittest import mock

import onnxsim
from onnx import ModelProto, load_from_string

from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.capture import TimeLimitError
from helpers.checks.probes.frames import said

Files = dict[str, bytes]


class Simplified(TypedDict):
    """The files that a call of simplify_onnx leaves; `raised`: type and text of its exception."""

    files: Files
    raised: str | None


EXPORTED, SIMPLIFIED = "model.v1.onnx", "simplified.v1.onnx"
EARLIER = b"the file of an earlier run"
"""The content of an earlier file at the target path. Notebooks are run again, so it must be replaced."""


@probe
def export_model(notebook: Notebook, *, seed: int, training: bool = False, opset: int | None = None) -> Files:
    """Call `export_onnx(model, path)` on the probe classifier of `seed`; `opset` is passed on if given.

    An EARLIER file is at `path`. Returns the files of the folder; the one at `path` is called EXPORTED.
    """
    export, options = notebook["export_onnx"], {} if opset is None else {"opset": opset}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / EXPORTED).write_bytes(EARLIER)
        export(probe_classifier(seed, training), Path(folder) / EXPORTED, **options)
        return _files(folder)


@probe
def simplify_model(notebook: Notebook, *, onnx: bytes, instead: bytes = b"", same: bool = True) -> Simplified:
    """Call `simplify_onnx(src, dst)`; an EARLIER file is at `dst`.

    If `instead` is not empty, onnxsim returns that model, and `same` as the result of its own comparison.
    `files` are as `export_model`'s; the file at `dst` is called SIMPLIFIED.
    """
    simplify, raised = notebook["simplify_onnx"], None

    def gives(model: Any, check_n: int = 0, **options: Any) -> tuple[ModelProto, bool]:
        return load_from_string(instead), check_n == 0 or same

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / EXPORTED).write_bytes(onnx)
        (Path(folder) / SIMPLIFIED).write_bytes(EARLIER)
        try:
            with mock.patch("onnxsim.simplify", gives if instead else onnxsim.simplify):
                simplify(Path(folder) / EXPORTED, Path(folder) / SIMPLIFIED)
        except Exception as error:
            if not instead or isinstance(error, (TimeLimitError, NotImplementedError)):
                raise
            raised = f"{type(error).__name__}: {said(error)[:500]}"
        return {"files": _files(folder), "raised": raised}


def _files(folder: str) -> Files:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
