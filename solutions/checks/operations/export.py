"""Calls a student's exporter and simplifier in an empty folder and gathers the files they left."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.capture import TimeLimitError
from helpers.probes.modules import probe_classifier
from helpers.probes.simplifiers import faulty_simplifier

__all__ = ["export_model", "simplify_model"]

_LARGEST_BYTES = 50 << 20


@operation
def export_model(submission: Submission, *, seed: int, training: bool = False, opset: int | None = None) -> dict:
    """Call `export_onnx(model, path)` on the probe classifier of `seed`; `opset` is passed where it is given.

    Returns the files that it left: {file name: bytes}; the one at `path` is called model.onnx.
    """
    export = submission["export_onnx"]
    with tempfile.TemporaryDirectory() as folder:
        options = {} if opset is None else {"opset": opset}
        export(probe_classifier(seed, training=training), str(Path(folder) / "model.onnx"), **options)
        return _files(Path(folder))


@operation
def simplify_model(submission: Submission, *, onnx: bytes, fault: str = "") -> dict[str, Any]:
    """Call `simplify_onnx(src, dst)` on a model; with a `fault` onnxsim gives a wrong result and says so.

    Returns `files` ({file name: bytes}; the result is called simplified.onnx), `source_kept` (whether src is as it
    was) and `error` ({"type", "message"} of what it raised, else None).
    """
    simplify = submission["simplify_onnx"]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "model.onnx", Path(folder) / "simplified.onnx"
        source.write_bytes(onnx)
        error = None
        try:
            with faulty_simplifier(simplify, fault) if fault else contextlib.nullcontext():
                simplify(str(source), str(target))
        except (TimeLimitError, NotImplementedError):
            raise
        except Exception as raised:
            error = {"type": type(raised).__name__, "message": str(raised)[:500]}
        kept = source.is_file() and source.read_bytes() == onnx
        return {"files": _files(Path(folder), without=source.name), "source_kept": kept, "error": error}


def _files(folder: Path, without: str = "") -> dict[str, bytes]:
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != without]
    return {path.name: path.read_bytes() for path in found if path.stat().st_size <= _LARGEST_BYTES}
