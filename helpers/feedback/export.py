"""Visible checks of step 1: they export and simplify small models, and read and run the files."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.feedback.checklist import Checklist, visible_check
from helpers.missed import Missed
from helpers.probes.capture import captured
from helpers.probes.modules import probe_classifier
from helpers.probes.networks import EDGE
from helpers.probes.onnx_files import onnx_facts, redundant_onnx, unrepeatable_onnx

__all__ = ["check_export", "check_simplify"]

_SEED = 2026
_OPSET = 19
_TOLERANCE = 5e-5


@visible_check("01_export", "Export to ONNX")
def check_export(check: Checklist, export_onnx: Callable[..., Any]) -> None:
    """Export a small classifier that arrives in training mode; read the file and compare its outputs with PyTorch's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        model = probe_classifier(_SEED, training=True)
        check.call("export_onnx exports a small model", export_onnx, model, str(path), opset=_OPSET)
        check.require("there is an ONNX file at path", lambda: _readable(path))
        facts = onnx_facts(path)
        check.verify("it is one file", lambda: _one_file(Path(folder), facts))
        check.verify("its ends are named input and output", lambda: _names(facts))
        check.verify("the batch axis is symbolic, and only the batch", lambda: _batch_axis(facts))
        check.verify(f"opset={_OPSET} gives opset {_OPSET}", lambda: _opset(facts))
        check.verify("a model in training mode is exported for inference", lambda: _inference(facts))
        check.verify("constants are folded", lambda: _folded(facts))
        check.verify("outputs equal PyTorch's at batches 1 and 5", lambda: _like_pytorch(path))


@visible_check("01_export", "Simplify the graph")
def check_simplify(check: Checklist, simplify_onnx: Callable[..., Any]) -> None:
    """Simplify a network with three needless nodes, then one whose outputs never repeat, which must be refused."""
    original, least = redundant_onnx(_SEED)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "small.onnx", Path(folder) / "simplified.onnx"
        source.write_bytes(original)
        check.call("simplify_onnx simplifies a small model", simplify_onnx, str(source), str(target))
        check.require("there is an ONNX file at dst", lambda: _readable(target))
        facts = onnx_facts(target)
        check.verify("its ends are named input and output", lambda: _names(facts))
        check.verify("the batch axis is still symbolic, and only the batch", lambda: _batch_axis(facts))
        check.verify("needless nodes are gone", lambda: _smaller(onnx_facts(original), facts, least))
        check.verify("outputs are those of src at batches 1 and 5", lambda: _like_source(original, target))
    check.verify("a result that fails validation is refused", lambda: _refused(simplify_onnx))


def _readable(path: Path) -> str:
    if not path.is_file():
        found = ", ".join(sorted(item.name for item in path.parent.iterdir())) or "an empty folder"
        raise Missed(f"a file {path.name}", found, "write to the very path that the function is given")
    try:
        facts = onnx_facts(path)
    except Exception as error:  # protobuf and onnx have classes of their own
        raise Missed("an ONNX model", f"{type(error).__name__}: {error}"[:200], "write the model itself") from error
    return f"{path.stat().st_size:,} bytes, {facts['nodes']} nodes"


def _one_file(folder: Path, facts: dict[str, Any]) -> str:
    names = sorted(path.name for path in folder.iterdir())
    if len(names) != 1 or facts["external"]:
        advice = "the newer exporter puts weights beside the model unless external_data=False"
        raise Missed("one file that holds its weights", ", ".join(names), advice)
    return names[0]


def _names(facts: dict[str, Any]) -> str:
    found = list(facts["inputs"]), list(facts["outputs"])
    if found != (["input"], ["output"]):
        raise Missed("input `input`, output `output`", f"{found[0]} and {found[1]}", "pass input_names, output_names")
    return "input, output"


def _batch_axis(facts: dict[str, Any]) -> str:
    images, logits = (next(iter(facts[side].values()))["shape"] for side in ("inputs", "outputs"))
    symbolic = isinstance(images[0], str) and isinstance(logits[0], str)
    if not symbolic or images[1:] != [3, EDGE, EDGE] or len(logits) != 2 or isinstance(logits[1], str):
        found = f"{images} and {logits}"
        advice = "name axis 0 of input and output as dynamic, no other axis; a simplifier can be left to keep it"
        raise Missed("['batch', 3, 224, 224] and ['batch', classes], whatever the axis is called", found, advice)
    return f"{images} → {logits}"


def _opset(facts: dict[str, Any]) -> str:
    if facts["opset"] != _OPSET:
        raise Missed(f"opset {_OPSET}", f"opset {facts['opset']}", "hand `opset` on to the exporter")
    return ""


def _inference(facts: dict[str, Any]) -> str:
    if facts["training"]:
        advice = "call the model's eval() before the export"
        raise Missed("no node in training mode", ", ".join(facts["training"]), advice)
    return "no node in training mode"


def _folded(facts: dict[str, Any]) -> str:
    if facts["foldable"]:
        advice = "leave the exporter's constant folding (or optimisation) on"
        raise Missed("no node that computes from constants alone", ", ".join(facts["foldable"][:4]), advice)
    return f"{facts['nodes']} nodes: {', '.join(facts['operators'])}"


def _smaller(before: dict[str, Any], after: dict[str, Any], least: int) -> str:
    if after["nodes"] > least:
        found = f"{after['nodes']} of {before['nodes']}: {', '.join(after['operators'])}"
        raise Missed(f"{least} nodes", found, "save the model that the simplifier returns, not the one you loaded")
    return f"{before['nodes']} nodes before, {after['nodes']} after"


def _images(batch: int) -> np.ndarray:
    random = np.random.default_rng(_SEED + batch)
    return random.standard_normal((batch, 3, EDGE, EDGE), dtype=np.float32) * random.uniform(0.5, 3)


def _run(model: bytes, images: np.ndarray) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: images})[0]
    except Exception as error:  # ONNX Runtime's classes have no common base
        advice = "look at the shapes above, and at whether the weights are in the file"
        raise Missed(f"ONNX Runtime to run a batch of {len(images)}", str(error)[:200], advice) from error


_ADVICE = "compare both models' outputs on random images; raise where they differ, before dst is written"


def _like_pytorch(path: Path) -> str:
    import torch

    def expected(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return probe_classifier(_SEED)(torch.from_numpy(images)).numpy()

    return _compare(path.read_bytes(), expected)


def _like_source(original: bytes, target: Path) -> str:
    return _compare(target.read_bytes(), lambda images: _run(original, images))


def _compare(model: bytes, oracle: Callable[[np.ndarray], np.ndarray]) -> str:
    errors = []
    for batch in (1, 5):
        images = _images(batch)
        outputs, expected = _run(model, images), oracle(images)
        if outputs.shape != expected.shape:
            raise Missed(f"outputs {expected.shape}", f"{outputs.shape}", "export the whole model, batch axis first")
        errors.append(float(np.linalg.norm(outputs - expected) / np.linalg.norm(expected)))
        if not errors[-1] <= _TOLERANCE:
            found = f"a relative error of {errors[-1]:.2g} at batch {batch}"
            raise Missed("the same outputs", found, "export in evaluation mode and float32, with the weights unchanged")
    return f"largest relative error {max(errors):.1g}"


def _refused(simplify_onnx: Callable[..., Any]) -> str:
    said = _try(simplify_onnx, unrepeatable_onnx(_SEED))
    if said is None:
        raise Missed("an exception for a model whose outputs never repeat", "no exception", _ADVICE)
    return said[:100]


def _try(simplify_onnx: Callable[..., Any], model: bytes) -> str | None:
    """Return what the function raised; None where it raised nothing."""
    with tempfile.TemporaryDirectory() as folder, captured():
        source, target = Path(folder) / "doubtful.onnx", Path(folder) / "simplified.onnx"
        source.write_bytes(model)
        try:
            simplify_onnx(str(source), str(target))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if target.exists():
                raise Missed(
                    "no file at dst after a failed validation", f"a file, and {said}"[:200], _ADVICE
                ) from error
            return said
    return None
