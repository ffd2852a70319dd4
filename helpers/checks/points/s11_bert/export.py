"""What step 11 asks of `export_bert`: three int32 inputs, two symbolic axes, and PyTorch's answers at any size."""

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
    """Return the file that the exporter wrote, and what it says of itself."""
    model = case.call(export_encoder, seed=case.number("bert.encoder"), options=options).require(FUNCTION)
    try:
        return model, onnx_facts(model)
    except Exception as error:  # protobuf and onnx have classes of their own
        found = f"{len(model):,} bytes: {type(error).__name__}"
        raise Missed(f"an ONNX model from {FUNCTION} at its path", found, "write the model itself") from error


@EXPORT.point("bert.names", 0.25, "Three int32 inputs and two outputs by their names")
def names(case: Case) -> str:
    right = {
        "inputs": dict.fromkeys(INPUTS, {"dtype": "INT32"}),
        "outputs": dict.fromkeys(OUTPUTS, {"dtype": "FLOAT"}),
    }
    advice = "look at the exporter's names for both ends, and at the type of the examples that it traces"
    agree(_exported(case)[1], right, "the file", advice)
    return f"{', '.join(INPUTS)} → {', '.join(OUTPUTS)}"


@EXPORT.point("bert.axes", 0.25, "Batch and length are symbolic, in every input and output that has them")
def axes(case: Case) -> str:
    facts = _exported(case)[1]
    found = {name: about["shape"] for name, about in (facts["inputs"] | facts["outputs"]).items()}
    right = {name: axes for name, axes in _AXES.items() if name in found}  # that one lacks is a point of its own
    agree(found, right, "the file's axes", 'declare "batch" and "length" as dynamic, of each input by its name')
    return ", ".join(f"{name}: {axes}" for name, axes in right.items())


@EXPORT.point("bert.opset", 0.25, "The opset is 17, or the one asked for")
def opset(case: Case) -> str:
    other = int(case.random("bert.opset").choice(_OTHER_OPSETS))
    found = [_exported(case)[1]["opset"], _exported(case, opset=other)[1]["opset"]]
    advice = "hand your function's opset on to the exporter"
    agree(found, [OPSET, other], f"{FUNCTION} by default and with opset={other}", advice)
    return f"opset {OPSET} by default, {other} where asked"


@EXPORT.point("bert.exported", 0.25, "Its outputs equal PyTorch's at other batches and lengths")
def outputs(case: Case) -> str:
    model, encoder = _exported(case)[0], small_encoder(case.number("bert.encoder"))
    for batch, length in _SIZES:
        text = text_of(case.random(f"bert.text.{batch}.{length}"), batch, length)
        with torch.no_grad():
            expected = [made.numpy() for made in encoder(*map(torch.from_numpy, text.values()))]
        errors = [relative_error(own, right) for own, right in zip(_run(model, text), expected, strict=False)]
        what = f"the relative errors of {' and '.join(OUTPUTS)} at batch {batch}, length {length}"
        advice = "compare both yourself, with padding and types of 1; look for what the trace kept as a number"
        agree(errors, [0.0, 0.0], what, advice, atol=_TOLERANCE)
    return f"equal at {', '.join(f'{batch} × {length}' for batch, length in _SIZES)} tokens"


@loads
def _outputs(model: bytes, text: Text) -> list[np.ndarray]:
    return onnx_session(model).run(None, text)


def _run(model: bytes, text: Text) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs; raise Missed where it cannot run this text."""
    try:
        return _outputs(model, dict(text))
    except Exception as error:  # ONNX Runtime's classes have no common base
        size = " × ".join(map(str, text[INPUTS[0]].shape))
        advice = (
            "look at the inputs and axes that the file declares; run it yourself at another size than the example's"
        )
        raise Missed(f"the file to run {size} tokens in ONNX Runtime", str(error)[:300], advice) from error
