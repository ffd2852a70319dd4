"""What step 11 asks of `export_bert`: three int32 inputs, two symbolic axes, and PyTorch's answers at any size."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s01_export.models import TOLERANCE, checked, facts_of_file, one_file
from helpers.checks.points.s01_export.probes import EARLIER, EXPORTED
from helpers.checks.points.s11_bert.encoders import Text, small_encoder, text_of
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.loads import loads
from helpers.tools.outputs import onnx_session, relative_error
from helpers.toys.bert.encoder import INPUTS, OUTPUTS

FUNCTION = "export_bert"
OPSET, _OTHER_OPSETS = 17, (14, 15, 16)
_SIZES = ((1, 1), (3, 17), (2, 128), (7, 5))

Facts = dict[str, Any]


@probe
def export_encoder(notebook: Notebook, *, seed: int, opset: int | None = None) -> dict[str, bytes]:
    """Call `export_bert(encoder, path)` on the small encoder of `seed`; `opset` is passed where it is given.

    An EARLIER file lies at `path`. Returns what is left in the folder; the file at `path` is called EXPORTED.
    """
    export, options = notebook[FUNCTION], {} if opset is None else {"opset": opset}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / EXPORTED).write_bytes(EARLIER)
        export(small_encoder(seed), Path(folder) / EXPORTED, **options)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def _exported(case: Case, opset: int | None = None) -> tuple[dict[str, bytes], Facts]:
    """Return the files that the exporter left, and what the ONNX file says of itself."""
    files = case.call(export_encoder, seed=case.number("bert.encoder"), opset=opset).require(FUNCTION)
    return files, facts_of_file(files, EXPORTED, FUNCTION)


@point("One ONNX file with three int32 inputs and two outputs by their names")
def names(case: Case) -> str:
    files, facts = _exported(case)
    said = one_file(files, EXPORTED, facts)
    checked(files, EXPORTED)
    for side, wanted, kind in (("inputs", INPUTS, "INT32"), ("outputs", OUTPUTS, "FLOAT")):
        found = {name: about["dtype"] for name, about in facts[side].items()}
        if found != dict.fromkeys(wanted, kind):
            advice = "look at the exporter's names for both ends, and at the type of the examples that it traces"
            raise Missed(f"{side} {', '.join(wanted)}, all {kind}", str(found), advice)
    return said


@point("Batch and length are symbolic, in every input and output that has them")
def axes(case: Case) -> str:
    ends = _exported(case)[1]
    found = {name: about["shape"] for side in ("inputs", "outputs") for name, about in ends[side].items()}
    wrong = {name: shape for name, shape in found.items() if not _free(name, shape)}
    if wrong:
        expected = "[batch, length] in each input, [batch, length, width] in hidden, [batch, width] in pooled"
        said = ", ".join(f"{name} {shape}" for name, shape in wrong.items())
        raise Missed(
            f"{expected}: two names and a number", said, "declare both axes as dynamic, of each input by its name"
        )
    return f"hidden {found.get(OUTPUTS[0])}, pooled {found.get(OUTPUTS[1])}"


def _free(name: str, shape: list[Any]) -> bool:
    """Whether a tensor has one or two symbolic axes, each of a name of its own, and the numbers that belong behind."""
    symbolic = 1 if name == OUTPUTS[1] else 2
    numbers = 1 if name in OUTPUTS else 0
    first, rest = shape[:symbolic], shape[symbolic:]
    named = len(set(map(str, first))) == symbolic and all(isinstance(size, str) for size in first)
    return named and len(rest) == numbers and all(isinstance(size, int) for size in rest)


@point("The opset is 17, or the one asked for")
def opset(case: Case) -> str:
    other = int(case.random("bert.opset").choice(_OTHER_OPSETS))
    found = _exported(case)[1]["opset"], _exported(case, other)[1]["opset"]
    if found != (OPSET, other):
        expected = f"opset {OPSET} by default, {other} where opset={other} is passed"
        raise Missed(expected, f"opset {found[0]} and {found[1]}", "hand your function's opset on to the exporter")
    return f"opset {OPSET} by default, {other} where asked"


@point("Its outputs equal PyTorch's at other batches and lengths")
def outputs(case: Case) -> str:
    files, encoder = _exported(case)[0], small_encoder(case.number("bert.encoder"))
    for batch, length in _SIZES:
        text = text_of(case.random(f"bert.text.{batch}.{length}"), batch, length)
        with torch.no_grad():
            expected = [made.numpy() for made in encoder(*map(torch.from_numpy, text.values()))]
        _agree(_run(files[EXPORTED], text), expected, f"batch {batch}, length {length}")
    return f"equal at {', '.join(f'{batch} × {length}' for batch, length in _SIZES)} tokens"


def _run(model: bytes, text: Text) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs; raise Missed where it cannot run this text."""
    try:
        return _outputs(model, dict(text))
    except Exception as error:  # ONNX Runtime's classes have no common base
        size = " × ".join(map(str, text[INPUTS[0]].shape))
        advice = "look at the axes that the file declares; run it yourself at another size than the example's"
        raise Missed(f"the file to run {size} tokens in ONNX Runtime", str(error)[:300], advice) from error


@loads
def _outputs(model: bytes, text: Text) -> list[np.ndarray]:
    session = onnx_session(model)
    types = {given.name: np.int64 if "int64" in given.type else np.int32 for given in session.get_inputs()}
    return session.run(None, {name: text.get(name, text[INPUTS[0]]).astype(kind) for name, kind in types.items()})


def _agree(found: list[np.ndarray], expected: list[np.ndarray], where: str) -> None:
    for name, own, wanted in zip(OUTPUTS, found, expected, strict=False):
        error = relative_error(own, wanted) if own.shape == wanted.shape else float("nan")
        if not error <= TOLERANCE:
            said = f"shape {own.shape}" if own.shape != wanted.shape else f"a relative error of {error:.2g}"
            advice = "compare both yourself, with padding and types of 1; look for what the trace kept as a number"
            raise Missed(f"PyTorch's {name} {wanted.shape} within {TOLERANCE:g} at {where}", said, advice)
    if len(found) < len(expected):
        raise Missed(f"the outputs {', '.join(OUTPUTS)}", f"{len(found)} of them", "name both outputs")
