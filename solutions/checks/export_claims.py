"""Claims of step 1: an ONNX file equal to PyTorch at any batch size, and a simplifier that checks its own work."""

from functools import cache
from typing import Any

import numpy as np

from helpers.lab import MODEL
from helpers.missed import Missed
from helpers.models import load_model
from helpers.points.case import Case
from helpers.probes.modules import probe_classifier
from helpers.probes.onnx_files import redundant_onnx, unrepeatable_onnx
from helpers.probes.simplifiers import FAULTS
from helpers.probes.student import Student
from solutions.checks.core.claim import Earned, claim
from solutions.checks.trusted.onnx_files import (
    agreement,
    check_batch_axis,
    check_names,
    check_valid,
    facts_of_file,
    probe_images,
    run_model,
    torch_outputs,
)

EXPORT, SIMPLIFY = "export_onnx", "simplify_onnx"
EXPORTED, SIMPLIFIED = "model.onnx", "simplified.onnx"
ARTIFACT, SIMPLIFIED_ARTIFACT = "resnet50.onnx", "resnet50_simplified.onnx"
BATCHES = (1, 3, 8)
DEFAULT_OPSET, OTHER_OPSET = 18, 20
_ADVICE = "compare the outputs of both on random images, and raise before anything is written to dst"
_SLIPS = ("AttributeError", "NameError", "TypeError", "UnboundLocalError")


def _exported(student: Student, case: Case, **options: Any) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files that the exporter left for the probe classifier, and what the ONNX file says of itself."""
    files = student.call("export_model", seed=case.number("export.model"), **options).require(EXPORT)
    return files, facts_of_file(files, EXPORTED, EXPORT)


@claim("export.file", cell="export_model", points=0.5, title="One self-contained ONNX file")
def file_claim(student: Student, case: Case) -> str:
    files, facts = _exported(student, case)
    if set(files) != {EXPORTED} or facts["external"]:
        raise Missed(
            "one file that holds its own weights",
            f"{', '.join(files)}; weights outside the file: {len(facts['external'])}",
            "look for the exporter's option on external data",
        )
    check_valid(files, EXPORTED)
    return f"{len(files[EXPORTED]):,} bytes, {facts['nodes']} nodes, accepted by ONNX's checker"


@claim("export.names", cell="export_model", points=0.25, title="Input `input` and output `output`, float32")
def names(student: Student, case: Case) -> str:
    return check_names(_exported(student, case)[1])


@claim("export.batch", cell="export_model", points=0.5, title="The batch axis is symbolic, and only the batch")
def batch_axis(student: Student, case: Case) -> str:
    return check_batch_axis(_exported(student, case)[1])


@claim("export.outputs", cell="export_model", points=1, title="Outputs equal PyTorch's at batches 1, 3 and 8")
def outputs(student: Student, case: Case) -> Earned:
    files, _ = _exported(student, case)
    model = probe_classifier(case.number("export.model"))
    evidence, missed = [], None
    for batch in BATCHES:
        images = probe_images(case.random(f"export.images.{batch}"), batch)
        try:
            evidence.append(agreement(run_model(files, EXPORTED, images), torch_outputs(model, images), "PyTorch's"))
        except Missed as found:
            missed = found
    return Earned(len(evidence) / len(BATCHES), "; ".join(evidence), missed)


@claim("export.inference", cell="export_model", points=0.5, title="A model in training mode is exported for inference")
def inference(student: Student, case: Case) -> str:
    files, facts = _exported(student, case, training=True)
    if facts["training"]:
        raise Missed(
            "no node in training mode",
            ", ".join(facts["training"][:4]),
            "put the model into evaluation mode before you export it",
        )
    images = probe_images(case.random("export.training"), 1)
    model = probe_classifier(case.number("export.model"))
    return agreement(run_model(files, EXPORTED, images), torch_outputs(model, images), "evaluation mode's")


@claim("export.opset", cell="export_model", points=0.25, title="The opset is 18, or the one asked for")
def opset(student: Student, case: Case) -> str:
    found = _exported(student, case)[1]["opset"], _exported(student, case, opset=OTHER_OPSET)[1]["opset"]
    if found != (DEFAULT_OPSET, OTHER_OPSET):
        raise Missed(
            f"opset {DEFAULT_OPSET} by default, {OTHER_OPSET} where opset={OTHER_OPSET} is passed",
            f"opset {found[0]} and {found[1]}",
            "hand your function's opset on to the exporter",
        )
    return f"opset {found[0]} by default, {found[1]} where asked"


@claim("export.folded", cell="export_model", points=0.25, title="What depends on constants alone is computed once")
def folded(student: Student, case: Case) -> str:
    facts = _exported(student, case)[1]
    if facts["foldable"]:
        raise Missed(
            "no node that computes from constants alone",
            ", ".join(facts["foldable"][:4]),
            "leave the exporter's constant folding on, and export for inference",
        )
    return f"{facts['nodes']} nodes, all of them depend on the input"


def _simplified(student: Student, case: Case) -> tuple[bytes, int, dict[str, bytes], dict[str, Any]]:
    """Return the redundant model, its least number of nodes, the files left, and the facts of the result."""
    source, least = redundant_onnx(case.number("simplify.model"))
    reply = student.call("simplify_model", onnx=source).require(SIMPLIFY)
    if reply["error"] is not None:
        found = f"{reply['error']['type']}: {reply['error']['message']}"
        raise Missed(f"{SIMPLIFY} to simplify a sound model", found, "call it on resnet50.onnx in a cell of its own")
    if not reply["source_kept"]:
        raise Missed("src unchanged", "another content, or no file", "write the result to dst only")
    return source, least, reply["files"], facts_of_file(reply["files"], SIMPLIFIED, SIMPLIFY)


@claim("simplify.same", cell="simplify_model", points=0.5, title="Same names, same symbolic batch, same outputs")
def same(student: Student, case: Case) -> str:
    source, _, files, facts = _simplified(student, case)
    check_valid(files, SIMPLIFIED)
    check_names(facts)
    check_batch_axis(facts)
    evidence = []
    for batch in BATCHES:
        images = probe_images(case.random(f"simplify.images.{batch}"), batch)
        expected = run_model({EXPORTED: source}, EXPORTED, images)
        evidence.append(agreement(run_model(files, SIMPLIFIED, images), expected, "src's"))
    return "; ".join(evidence)


@claim("simplify.smaller", cell="simplify_model", points=0.25, title="Redundant nodes are gone")
def smaller(student: Student, case: Case) -> str:
    source, least, _, facts = _simplified(student, case)
    before = facts_of_file({EXPORTED: source}, EXPORTED, SIMPLIFY)["nodes"]
    if facts["nodes"] > least:
        raise Missed(
            f"{least} nodes: constants folded, the Identity gone",
            f"{facts['nodes']} of {before} nodes",
            "save what the simplifier returns",
        )
    return f"{before} nodes before, {facts['nodes']} after"


@claim("simplify.refuses", cell="simplify_model", points=0.5, title="A result that fails validation is refused")
def refuses(student: Student, case: Case) -> str:
    source = _simplified(student, case)[0]  # a function that refuses everything validates nothing
    model = unrepeatable_onnx(case.number("simplify.unrepeatable"))
    reply = student.call("simplify_model", onnx=model).require(SIMPLIFY)
    if reply["error"] is None:
        expected = "an exception for a model whose outputs never repeat: its result cannot be compared"
        raise Missed(expected, "no exception", _ADVICE)
    said = _refusal(reply)
    # Where the simplifier fails: a comparison finds it, onnxsim's verdict tells it; another simplifier is not touched.
    images = probe_images(case.random("simplify.faulty"), 2)
    for fault in FAULTS:
        reply = student.call("simplify_model", onnx=source, fault=fault).require(SIMPLIFY)
        if reply["error"] is not None:
            _refusal(reply)
            continue
        try:
            own, right = run_model(reply["files"], SIMPLIFIED, images), run_model({EXPORTED: source}, EXPORTED, images)
            agreement(own, right, "src's")
        except Missed as missed:
            expected = "an exception where the simplified model computes something else"
            raise Missed(expected, f"no exception; {missed.found}", _ADVICE) from missed
    return said


def _refusal(reply: dict[str, Any]) -> str:
    said = f"{reply['error']['type']}: {reply['error']['message']}"
    if reply["error"]["type"] in _SLIPS:
        raise Missed("an exception that you raise", said, _ADVICE)
    if SIMPLIFIED in reply["files"]:
        raise Missed("no file at dst after a failed validation", f"a file, and {said}", _ADVICE)
    return said[:120]


@cache
def _lab_model() -> Any:
    return load_model(MODEL)


def _artifact(student: Student, name: str, function: str) -> dict[str, bytes]:
    content = student.artifact(name)
    if content is None:
        raise Missed(f"{name} among the artifacts", "no such file", f"run the cell that calls {function}")
    return {name: content}


@claim("export.deliverables", cell="export_files", points=0.5, title="Both files compute what the lab's model computes")
def deliverables(student: Student, case: Case) -> str:
    images = probe_images(case.random("export.deliverables"), 2)
    expected = torch_outputs(_lab_model(), np.ascontiguousarray(images))
    evidence, nodes = [], []
    for name, function in ((ARTIFACT, EXPORT), (SIMPLIFIED_ARTIFACT, SIMPLIFY)):
        files = _artifact(student, name, function)
        facts = facts_of_file(files, name, function)
        check_names(facts)
        check_batch_axis(facts)
        nodes.append(facts["nodes"])
        evidence.append(f"{name}: {agreement(run_model(files, name, images), expected, 'PyTorch')}")
    if nodes[1] > nodes[0]:
        raise Missed("no more nodes after simplification", f"{nodes[0]} before, {nodes[1]} after", "save the result")
    return "; ".join(evidence)
