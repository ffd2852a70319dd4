"""The points of `export_bert`: three int32 inputs, two dynamic axes, and PyTorch's outputs at any size."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s11_bert.encoders import WIDTH, Text, small_encoder, text_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.loads import loads
from helpers.checks.probes.onnx_files import OnnxFacts, onnx_facts
from helpers.tools.outputs import onnx_session, relative_error
from helpers.toys.bert.encoder import INPUTS, OUTPUTS

FUNCTION = "export_bert"
OPSET, _OTHER_OPSETS = 17, (14, 15, 16)
_SIZES = ((1, 1), (3, 17), (2, 128))
_TOLERANCE = 5e-5
_AXES = dict.fromkeys(INPUTS, ["batch", "length"]) | {"hidden": ["batch", "length", WIDTH], "pooled": ["batch", WIDTH]}

EXPORT = Task("bert_export", check="check_bert_export", takes=(FUNCTION,))


@probe
def export_encoder(notebook: Notebook, *, seed: int, options: dict[str, int]) -> bytes:
    """Call `export_bert(encoder, path, **options)` on the small encoder of `seed`; returns the file at `path`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.onnx"
        notebook[FUNCTION](small_encoder(seed), path, **options)
        return path.read_bytes() if path.is_file() else b""


def _exported(case: Case, **options: int) -> tuple[bytes, OnnxFacts]:
    """Return the file that the exporter wrote, and its facts."""
    model = case.call(export_encoder, seed=case.number("bert.encoder"), options=options).require(FUNCTION)
    try:
        return model, onnx_facts(model)
    except Exception as error:  # protobuf and onnx have classes of their own
        found = f"{len(model):,} bytes: {type(error).__name__}"
        raise Missed(f"an ONNX model from {FUNCTION} at the given path", found, "save the ONNX model itself") from error


@EXPORT.point("bert.names", 0.25, "Three int32 inputs and two outputs, named as in the task")
def names(case: Case) -> str:
    right = {
        "inputs": dict.fromkeys(INPUTS, {"dtype": "INT32"}),
        "outputs": dict.fromkeys(OUTPUTS, {"dtype": "FLOAT"}),
    }
    advice = "check the names that you pass to the exporter, and the type of its example inputs"
    agree(_exported(case)[1], right, "the ONNX file", advice)
    return f"{', '.join(INPUTS)} → {', '.join(OUTPUTS)}"


@EXPORT.point("bert.axes", 0.25, "Batch and length are dynamic in all inputs and outputs")
def axes(case: Case) -> str:
    facts = _exported(case)[1]
    found = {name: about["shape"] for name, about in (facts["inputs"] | facts["outputs"]).items()}
    right = {name: axes for name, axes in _AXES.items() if name in found}  # a missing one loses another point
    agree(found, right, "the file's axes", 'declare "batch" and "length" as dynamic axes of every input')
    return ", ".join(f"{name}: {axes}" for name, axes in right.items())


@EXPORT.point("bert.opset", 0.25, "The opset is 17 by default, or the one passed")
def opset(case: Case) -> str:
    other = int(case.random("bert.opset").choice(_OTHER_OPSETS))
    by_default, passed = "opset by default", f"opset if {other} is passed"
    found = {by_default: _exported(case)[1]["opset"], passed: _exported(case, opset=other)[1]["opset"]}
    agree(found, {by_default: OPSET, passed: other}, FUNCTION, "pass your function's opset on to the exporter")
    return f"opset {OPSET} by default, {other} if passed"


@EXPORT.point("bert.exported", 0.25, "Outputs equal PyTorch's at other batches and lengths")
def outputs(case: Case) -> str:
    model, encoder = _exported(case)[0], small_encoder(case.number("bert.encoder"))
    for batch, length in _SIZES:
        text = text_of(case.random(f"bert.text.{batch}.{length}"), batch, length)
        with torch.no_grad():
            expected = [made.numpy() for made in encoder(*map(torch.from_numpy, text.values()))]
        pairs = zip(OUTPUTS, _run(model, text), expected, strict=False)
        errors = {name: relative_error(own, right) for name, own, right in pairs}
        what = f"the relative errors at batch {batch}, length {length}"
        advice = "compare with PyTorch, with padding and types of 1; look for a size that the trace made a constant"
        agree(errors, dict.fromkeys(OUTPUTS, 0.0), what, advice, atol=_TOLERANCE)
    return f"equal at {', '.join(f'{batch} × {length}' for batch, length in _SIZES)} tokens"


@loads
def _outputs(model: bytes, text: Text) -> list[np.ndarray]:
    return onnx_session(model).run(None, text)


def _run(model: bytes, text: Text) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs; raise Missed if it cannot run this text."""
    try:
        return _outputs(model, dict(text))
    except Exception as error:  # ONNX Runtime's classes have no common base
        size = " × ".join(map(str, text[INPUTS[0]].shape))
        advice = "check the file's inputs and axes, and run it at another size than the example's"
        raise Missed(f"the file to run {size} tokens in ONNX Runtime", str(error)[:300], advice) from error
