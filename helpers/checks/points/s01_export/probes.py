"""Probes of step 1: they call the student's exporter and simplifier in an empty folder and gather what is left."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxsim

from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.capture import TimeLimitError
from helpers.checks.probes.frames import said
from helpers.tools.outputs import onnx_outputs, relative_error
from helpers.toys.networks import EDGE

Files = dict[str, bytes]

EXPORTED, SIMPLIFIED = "model.v1.onnx", "simplified.v1.onnx"
EARLIER = b"the file of an earlier run"
"""What lies where an ONNX file is to be written: notebooks are run again, so it has to be replaced."""


@probe
def export_model(notebook: Notebook, *, seed: int, training: bool = False, opset: int | None = None) -> Files:
    """Call `export_onnx(model, path)` on the probe classifier of `seed`; `opset` is passed where it is given.

    An EARLIER file lies at `path`. Returns what is left in the folder; the file at `path` is called EXPORTED.
    """
    export, options = notebook["export_onnx"], {} if opset is None else {"opset": opset}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / EXPORTED).write_bytes(EARLIER)
        export(probe_classifier(seed, training), Path(folder) / EXPORTED, **options)
        return _files(folder)


@probe
def simplify_model(notebook: Notebook, *, onnx: bytes, instead: bytes = b"", refusable: bool = False) -> dict[str, Any]:
    """Call `simplify_onnx(src, dst)`; an EARLIER file lies at `dst`, and onnxsim gives `instead` if that is not empty.

    Returns `files`, as `export_model` (the file at `dst` is called SIMPLIFIED), and `raised`: of a model that is
    `refusable`, the type and text of an exception.
    """
    simplify, raised = notebook["simplify_onnx"], None
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / EXPORTED).write_bytes(onnx)
        (Path(folder) / SIMPLIFIED).write_bytes(EARLIER)
        try:
            with mock.patch("onnxsim.simplify", _simplifier(instead, onnx) if instead else onnxsim.simplify):
                simplify(Path(folder) / EXPORTED, Path(folder) / SIMPLIFIED)
        except Exception as error:
            if not refusable or isinstance(error, (TimeLimitError, NotImplementedError)):
                raise
            raised = f"{type(error).__name__}: {said(error)[:500]}"
        return {"files": _files(folder), "raised": raised}


def _files(folder: str) -> Files:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def _simplifier(result: bytes, source: bytes) -> Callable[..., tuple[onnx.ModelProto, bool]]:
    """Return what simplifies `source` to `result`, and compares the two where it is asked to."""

    def simplify(model: Any, check_n: int = 0, **options: Any) -> tuple[onnx.ModelProto, bool]:
        images = np.random.default_rng().random((2, 3, EDGE, EDGE), dtype=np.float32)
        error = relative_error(onnx_outputs(result, images), onnx_outputs(source, images))
        return onnx.load_from_string(result), check_n == 0 or error < 1e-4

    return simplify
