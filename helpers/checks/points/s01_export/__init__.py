"""Step 1: an ONNX file equal to PyTorch at any batch size, and a simplifier that checks its own work.

Reading order: probes.py calls the student's functions, models.py judges an ONNX file, here are the points.
"""

from functools import cache, partial
from typing import Any

import torch

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Check, Reported, point
from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.points.s01_export.models import (
    agreement,
    batch_axis_symbolic,
    checked,
    ends_named,
    facts_of_file,
    images_of,
    one_file,
    run_model,
    torch_outputs,
)
from helpers.checks.points.s01_export.probes import (
    EXPORTED,
    FAULTS,
    ROUNDED,
    SIMPLIFIED,
    UNUSABLE,
    Simplifier,
    export_model,
    refused_model,
    simplify_model,
)
from helpers.checks.probes.onnx_files import redundant_onnx, unrepeatable_onnx
from helpers.course.settings import MODEL, ONNX_FILE
from helpers.data.models import load_model

__all__ = [
    "BATCHES",
    "CHECKS",
    "PROMISES",
    "batch_axis",
    "deliverables",
    "file",
    "folded",
    "inference",
    "names",
    "opset",
    "outputs",
    "outputs_at",
    "refuses",
    "same",
    "smaller",
]

EXPORT, SIMPLIFY = "export_onnx", "simplify_onnx"
ARTIFACTS = {"resnet50.onnx": EXPORT, ONNX_FILE: SIMPLIFY}
BATCHES = (1, 3, 8)
OPSET, OTHER_OPSETS = 18, (19, 20)
"""The default, and what both of PyTorch's exporters can write besides."""

PROMISES = (
    f"({OPSET} or later; {OPSET} unless the caller says otherwise)",
    "one input named input , [N, 3, 224, 224], and one output named output , [N, classes], both float32",
)
"""What the notebook's text says in figures."""

_ADVICE = "compare the outputs of both on random images, and raise before anything is written to dst"


def _answer(case: Case) -> dict[str, Any]:
    """Return what `export_model` answers for a classifier of the case's own, exported after another one."""
    seeds = {"seed": case.number("export.model"), "before": case.number("export.before")}
    return case.call(export_model, **seeds).require(EXPORT)


def _exported(case: Case) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files that the exporter left for it, and what the ONNX file says of itself."""
    files = _answer(case)["files"]
    return files, facts_of_file(files, EXPORTED, EXPORT)


def _other_opset(case: Case) -> int:
    return int(case.random("export.opset").choice(OTHER_OPSETS))


def _exported_in_training(case: Case) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the same for another classifier, handed over in training mode with an opset of the case's."""
    asked = {"seed": case.number("export.training"), "training": True, "opset": _other_opset(case)}
    files = case.call(export_model, **asked).require(EXPORT)["files"]
    return files, facts_of_file(files, EXPORTED, EXPORT)


@point("One self-contained ONNX file")
def file(case: Case) -> str:
    files, facts = _exported(case)
    said = one_file(files, EXPORTED, facts)
    checked(files, EXPORTED)
    return f"{said}, {facts['nodes']} nodes, accepted by ONNX's checker"


@point("Input `input` and output `output`, float32")
def names(case: Case) -> str:
    return ends_named(_exported(case)[1])


@point("The batch axis is symbolic, and only the batch")
def batch_axis(case: Case) -> str:
    return batch_axis_symbolic(_exported(case)[1])


def outputs_at(case: Case, batch: int) -> str:
    """Return evidence that the exported file computes at `batch` what PyTorch does; raise Missed where it does not."""
    files, images = _exported(case)[0], images_of(case.random(f"export.images.{batch}"), batch)
    expected = torch_outputs(probe_classifier(case.number("export.model")), images)
    return agreement(run_model(files, EXPORTED, images), expected, "PyTorch's")


@point("Outputs equal PyTorch's at batches 1, 3 and 8")
def outputs(case: Case) -> str:
    return "; ".join(outputs_at(case, batch) for batch in BATCHES)


def _model_kept(case: Case) -> str:
    answer = _answer(case)
    if answer["training"] or not answer["weights_kept"]:
        found = "in training mode, whole or in part" if answer["training"] else "with other weights, or of another type"
        expected = "a model handed over in evaluation mode as it was, when the export is done"
        raise Missed(expected, found, "change no weight, and leave the model in evaluation mode")
    return "the model as it was"


_KEPT = Reported("whether the model that was handed over is as it was: it never leaves the process", 0.2, _model_kept)


@point("Exported for inference, and the model left as it was", _KEPT)
def inference(case: Case) -> str:
    files, facts = _exported_in_training(case)
    if facts["training"]:
        found = ", ".join(facts["training"][:4])
        raise Missed("no node in training mode", found, "put the model into evaluation mode before you export it")
    images = images_of(case.random("export.training.images"), _usable_batch(facts))
    expected = torch_outputs(probe_classifier(case.number("export.training")), images)
    return agreement(run_model(files, EXPORTED, images), expected, "evaluation mode's")


def _usable_batch(facts: dict[str, Any]) -> int:
    """Return the batch that the input declares, 2 where that is no number of images: its faults are other points'."""
    declared = [size for value in facts["inputs"].values() for size in value["shape"][:1]]
    return declared[0] if declared and isinstance(declared[0], int) and declared[0] > 0 else 2


@point("The opset is 18, or the one asked for")
def opset(case: Case) -> str:
    other = _other_opset(case)
    found = _exported(case)[1]["opset"], _exported_in_training(case)[1]["opset"]
    if found != (OPSET, other):
        expected = f"opset {OPSET} by default, {other} where opset={other} is passed"
        raise Missed(expected, f"opset {found[0]} and {found[1]}", "hand your function's opset on to the exporter")
    return f"opset {OPSET} by default, {other} where asked"


@point("What depends on constants alone is computed once")
def folded(case: Case) -> str:
    facts = _exported(case)[1]
    if facts["foldable"]:
        advice = "leave the exporter's constant folding on, and export for inference"
        raise Missed("no node that computes from constants alone", ", ".join(facts["foldable"][:4]), advice)
    return f"{facts['nodes']} nodes, all of them depend on the input"


def _source(case: Case) -> tuple[bytes, int]:
    """Return a redundant model of the case's own, and its least number of nodes."""
    return redundant_onnx(case.number("simplify.model"))


def _simplified(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `simplify_model` answers for the redundant model, and what the result says of itself."""
    answer = case.call(simplify_model, onnx=_source(case)[0]).require(SIMPLIFY)
    return answer, facts_of_file(answer["files"], SIMPLIFIED, SIMPLIFY)


def _source_kept(case: Case) -> str:
    if not _simplified(case)[0]["source_kept"]:
        raise Missed("src as it was", "another content, or no file", "write the result to dst only")
    return "src as it was"


@point(
    "Same names, same symbolic batch, same outputs",
    Reported("whether the file that it read is as it was: the student's process says so", 0.2, _source_kept),
)
def same(case: Case) -> str:
    answer, facts = _simplified(case)
    files = {SIMPLIFIED: answer["files"][SIMPLIFIED]}  # what else lies there is no part of the result
    one_file(files, SIMPLIFIED, facts)
    checked(files, SIMPLIFIED)
    ends_named(facts)
    batch_axis_symbolic(facts)
    return "; ".join(_like_source(case, files, batch) for batch in BATCHES)


def _like_source(case: Case, files: dict[str, bytes], batch: int) -> str:
    images = images_of(case.random(f"simplify.images.{batch}"), batch)
    expected = run_model({EXPORTED: _source(case)[0]}, EXPORTED, images)
    return agreement(run_model(files, SIMPLIFIED, images), expected, "src's")


@point("Redundant nodes are gone")
def smaller(case: Case) -> str:
    (source, least), found = _source(case), _simplified(case)[1]["nodes"]
    before = facts_of_file({EXPORTED: source}, EXPORTED, SIMPLIFY)["nodes"]
    if found > least:
        expected = f"{least} nodes: constants folded, the Identity gone"
        raise Missed(expected, f"{found} of {before} nodes", "save what the simplifier returns, not what you loaded")
    return f"{before} nodes before, {found} after"


@point("A result that fails validation is refused")
def refuses(case: Case) -> str:
    _simplified(case)  # a function that refuses everything validates nothing
    unrepeatable = unrepeatable_onnx(case.number("simplify.unrepeatable"))
    answer = case.call(refused_model, onnx=unrepeatable).require(SIMPLIFY)
    if answer["raised"] is None:
        expected = "an exception for a model whose outputs never repeat: its result cannot be compared"
        raise Missed(expected, "no exception", _ADVICE)
    said = _refusal(answer)
    for fault in case.random("simplify.faults").permutation(list(FAULTS)):  # which one comes when tells nothing
        _refused_or_right(case, str(fault))
    return said


def _refusal(answer: dict[str, Any]) -> str:
    if answer["slip"]:
        raise Missed("an exception that you raise", answer["raised"], _ADVICE)
    if SIMPLIFIED in answer["files"]:
        raise Missed("no file at dst after a failed validation", f"a file, and {answer['raised']}", _ADVICE)
    return answer["raised"][:120]


def _refused_or_right(case: Case, fault: str) -> None:
    """Raise Missed where onnxsim's wrong result was written, or a merely rounded one refused.

    Who uses another simplifier never sees the fault.
    """
    source = _source(case)[0]
    serves = partial(Simplifier, onnx=source, fault=fault)
    answer = case.call(refused_model, onnx=source, served=True, serves=serves).require(SIMPLIFY)
    if answer["raised"] is not None:
        if fault == ROUNDED:
            advice = "allow for rounding: 1e-4 of the outputs' size is far more, and far less than a fault"
            raise Missed("a result that differs by float32's last digit to be written", answer["raised"], advice)
        if fault != UNUSABLE:  # there ONNX Runtime raised, perhaps between the writing and the comparison
            _refusal(answer)
        return
    facts_of_file(answer["files"], SIMPLIFIED, SIMPLIFY)
    if fault == ROUNDED:
        return
    try:
        _like_source(case, answer["files"], 3)
    except Missed as missed:
        expected = "an exception where the simplified model computes something else"
        raise Missed(expected, f"no exception; {missed.found}", _ADVICE) from missed


@cache
def _lab_model() -> torch.nn.Module:
    return load_model(MODEL)


@point("Both files compute what the lab's model computes")
def deliverables(case: Case) -> str:
    images = images_of(case.random("export.deliverables"), 2)
    expected, said, nodes = torch_outputs(_lab_model(), images), [], []
    for name, function in ARTIFACTS.items():
        files, facts = _artifact(case, name, function)
        nodes.append(facts["nodes"])
        said.append(f"{name}: {agreement(run_model(files, name, images), expected, 'PyTorch')}")
    if nodes[1] > nodes[0]:
        raise Missed("no more nodes after simplification", f"{nodes[0]} before, {nodes[1]} after", "save the result")
    return "; ".join(said)


def _artifact(case: Case, name: str, function: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    content = case.artifact(name)
    if content is None:
        raise Missed(f"{name} among the artifacts", "no such file", f"run the cell that calls {function}")
    files = {name: content}
    facts = facts_of_file(files, name, function)
    one_file(files, name, facts)
    ends_named(facts)
    batch_axis_symbolic(facts)
    return files, facts


CHECKS = {
    "check_export": Check(
        "01_export",
        "Export to ONNX",
        (EXPORT,),
        (file, names, batch_axis, outputs, inference, opset, folded),
    ),
    "check_simplify": Check("01_export", "Simplify the graph", (SIMPLIFY,), (same, smaller, refuses)),
    "check_export_files": Check("01_export", "The two files", (), (deliverables,)),
}
