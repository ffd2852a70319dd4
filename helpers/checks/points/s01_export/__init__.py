"""Step 1: an ONNX file equal to PyTorch at any batch size, and a simplifier that checks its own work.

Reading order: probes.py calls the student's functions, models.py judges an ONNX file, here are the points.
"""

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import needed
from helpers.checks.points.pure import agree, outputs_near
from helpers.checks.points.s01_export import models
from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.points.s01_export.probes import EARLIER, EXPORTED, SIMPLIFIED, Files, export_model, simplify_model
from helpers.checks.points.task import Task
from helpers.checks.probes.onnx_files import ROUNDED, OnnxFacts, nodes_of, onnx_facts, redundant_onnx, spoiled_onnx
from helpers.course.settings import MODEL, ONNX_FILE
from helpers.data.models import load_model
from helpers.toys.networks import EDGE

EXPORT, SIMPLIFY = "export_onnx", "simplify_onnx"
OPSET, OTHER_OPSET = 18, 20
"""The default, and another that both of PyTorch's exporters can write."""

PROMISES = (
    f"({OPSET} or later; {OPSET} unless the caller says otherwise)",
    "one input named input , [N, 3, 224, 224], and one output named output , [N, classes], both float32",
)
"""Figures in the notebook's text."""

EXPORTER = Task("export_model", check="check_export", takes=(EXPORT,))
SIMPLIFIER = Task("simplify_model", check="check_simplify", takes=(SIMPLIFY,))
DELIVERABLES = Task("export_files", check="check_export_files")
TASKS = (EXPORTER, SIMPLIFIER, DELIVERABLES)

_BATCHES = (1, 3, 8)
_TOLERANCE = 5e-5
"""Largest relative error; right exports measured up to 2e-6, from another order of float32 additions."""


def _images(case: Case, purpose: str, batch: int) -> np.ndarray:
    return case.random(f"{purpose}.{batch}").standard_normal((batch, 3, EDGE, EDGE), dtype=np.float32)


def _exported(case: Case, training: bool = False) -> tuple[Files, OnnxFacts]:
    """Return the files that the exporter left for a small classifier, and the ONNX file's facts.

    `training`: for another classifier, passed in training mode and with another opset.
    """
    more = {"training": True, "opset": OTHER_OPSET} if training else {}
    files = case.call(export_model, seed=case.number(f"export.{training}"), **more).require(EXPORT)
    return files, models.facts_of_file(files, EXPORTED, EXPORT)


def _like_pytorch(case: Case, files: Files, batch: int, training: bool = False) -> str:
    images = _images(case, "export.images", batch)
    expected = models.torch_outputs(probe_classifier(case.number(f"export.{training}")), images)
    return _near(models.run_model(files, EXPORTED, images), expected, "PyTorch's outputs in evaluation mode")


def _near(outputs: np.ndarray, expected: np.ndarray, what: str) -> str:
    advice = "compare both on the same random images, with the model in evaluation mode"
    return outputs_near(outputs, expected, _TOLERANCE, what, advice)


@EXPORTER.point("export.file", 0.5, "One self-contained ONNX file")
def file(case: Case) -> str:
    files, facts = _exported(case)
    models.checked(files[EXPORTED])
    return f"{len(files[EXPORTED]):,} bytes, {facts['nodes']} nodes, accepted by ONNX's checker"


@EXPORTER.point("export.names", 0.25, "Input `input` and output `output`, float32")
def names(case: Case) -> str:
    return models.ends_named(_exported(case)[1])


@EXPORTER.point("export.batch", 0.5, "Only the batch axis is dynamic")
def batch_axis(case: Case) -> str:
    return models.batch_axis_symbolic(_exported(case)[1])


@EXPORTER.point("export.outputs", 1, "Outputs equal PyTorch's at batches 1, 3 and 8")
def outputs(case: Case) -> str:
    return "; ".join(_like_pytorch(case, _exported(case)[0], batch) for batch in _BATCHES)


@EXPORTER.point("export.inference", 0.5, "Exported for inference, even if the model is in training mode")
def inference(case: Case) -> str:
    files, facts = _exported(case, training=True)
    if dropouts := nodes_of(files[EXPORTED], "Dropout"):  # ONNX Runtime skips it, so outputs may not show it
        advice = "put the model into evaluation mode before you export it"
        raise Missed("no Dropout nodes", f"{len(dropouts)}", advice)
    first = [size for value in facts["inputs"].values() for size in value["shape"][:1]]
    return _like_pytorch(case, files, 1 if first == [1] else 2, training=True)  # another point asks if it is fixed


@EXPORTER.point("export.opset", 0.25, "The opset is 18 by default, or the one passed")
def opset(case: Case) -> str:
    by_default, passed = "opset by default", f"opset if {OTHER_OPSET} is passed"
    found = {by_default: _exported(case)[1]["opset"], passed: _exported(case, training=True)[1]["opset"]}
    agree(found, {by_default: OPSET, passed: OTHER_OPSET}, EXPORT, "pass your function's opset on to the exporter")
    return f"opset {OPSET} by default, {OTHER_OPSET} if passed"


@EXPORTER.point("export.folded", 0.25, "Constants are folded")
def folded(case: Case) -> str:
    facts = _exported(case)[1]
    if facts["foldable"]:
        advice = "leave the exporter's constant folding on, and export for inference"
        raise Missed("no nodes whose inputs are all constants", ", ".join(facts["foldable"][:4]), advice)
    return f"{facts['nodes']} nodes, all depend on the input"


def _source(case: Case) -> bytes:
    """Return a model with a redundant node, drawn for this case."""
    return redundant_onnx(case.number("simplify.model"))


def _simplified(case: Case) -> tuple[Files, OnnxFacts]:
    """Return the files that the simplifier left for the redundant model, and the result's facts."""
    files = case.call(simplify_model, onnx=_source(case)).require(SIMPLIFY)["files"]
    return files, models.facts_of_file(files, SIMPLIFIED, SIMPLIFY)


def _like_source(case: Case, files: Files, batch: int) -> str:
    images = _images(case, "simplify.images", batch)
    expected = models.run_model({EXPORTED: _source(case)}, EXPORTED, images)
    return _near(models.run_model(files, SIMPLIFIED, images), expected, "src's outputs")


@SIMPLIFIER.point("simplify.same", 0.5, "Same names, same dynamic batch, same outputs")
def same(case: Case) -> str:
    files, facts = _simplified(case)
    models.well_formed(files[SIMPLIFIED], facts)
    return "; ".join(_like_source(case, files, batch) for batch in _BATCHES)


@SIMPLIFIER.point("simplify.smaller", 0.25, "Redundant nodes are gone")
def smaller(case: Case) -> str:
    before, found = onnx_facts(_source(case))["nodes"], _simplified(case)[1]["nodes"]
    if found >= before:
        expected = f"fewer than src's {before} nodes, one of which is an Identity"
        raise Missed(expected, f"{found} nodes", "save the model that the simplifier returns, not the one you loaded")
    return f"{found} nodes of {before}"


@SIMPLIFIER.point("simplify.refuses", 0.5, "A result that fails validation is rejected")
def refuses(case: Case) -> str:
    _simplified(case)  # a function that refuses everything validates nothing
    results = spoiled_onnx(case.number("simplify.model"))
    for what, result in results.items():
        _refused_or_right(case, what, result)
    return f"{len(results)} results of onnxsim validated"


def _refused_or_right(case: Case, what: str, result: bytes) -> None:
    """Raise Missed if a wrong `result` of onnxsim was written, or a merely rounded one rejected.

    With another simplifier the result never appears.
    """
    rounded = what == ROUNDED
    answer = case.call(simplify_model, onnx=_source(case), instead=result, same=rounded).require(SIMPLIFY)
    raised, advice = answer["raised"], "compare the outputs on random images, and raise before you write dst"
    if raised and rounded:
        raise Missed(f"dst to be written for {what}", raised, "accept relative errors up to 1e-4, as from rounding")
    if raised and answer["files"].get(SIMPLIFIED, EARLIER) != EARLIER:
        raise Missed("no new file at dst if validation fails", f"a file, and {raised}", advice)
    if not raised:
        try:
            _like_source(case, answer["files"], 3)
        except Missed as missed:
            raise Missed(f"an exception for a model with {what}", f"none; {missed.found}", advice) from missed


def _artifact(case: Case, name: str, function: str) -> str:
    files = {name: needed(case, name, f"run the cell that calls {function}")}
    models.facts_of_file(files, name, function)
    images = _images(case, "export.deliverables", 2)
    expected = models.torch_outputs(load_model(MODEL), images)
    said = _near(models.run_model(files, name, images), expected, "PyTorch's outputs")
    return f"{name}: {said}"


@DELIVERABLES.point("export.deliverables", 0.5, "Both files compute the same as the lab's model")
def deliverables(case: Case) -> str:
    return "; ".join(_artifact(case, *made) for made in (("resnet50.onnx", EXPORT), (ONNX_FILE, SIMPLIFY)))
