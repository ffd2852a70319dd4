"""Judges an ONNX file: by its inputs and outputs, by ONNX's checker, and by running it in ONNX Runtime."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.pure import agree
from helpers.checks.points.s01_export.probes import EARLIER, Files
from helpers.checks.probes.loads import loads
from helpers.checks.probes.onnx_files import OnnxFacts, onnx_facts
from helpers.tools.outputs import onnx_session
from helpers.toys.networks import EDGE


def torch_outputs(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """Return the model's outputs [N, classes] in evaluation mode."""
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images)).numpy()


def facts_of_file(files: Files, name: str, function: str) -> OnnxFacts:
    """Return `onnx_facts` of a file; raise Missed if it is missing or not an ONNX model."""
    if files.get(name, EARLIER) == EARLIER:
        left = "the earlier file, unchanged" if name in files else f"no file; other files: {list(files)}"
        advice = "write to exactly this path, even if a file exists there"
        raise Missed(f"an ONNX file from {function} at the given path", left, advice)
    try:
        return onnx_facts(files[name])
    except Exception as error:  # protobuf and onnx have classes of their own
        said = f"{len(files[name]):,} bytes that onnx cannot load: {type(error).__name__}: {error}"
        raise Missed(f"an ONNX model from {function}", said[:200], "save the ONNX model itself") from error


def checked(content: bytes) -> None:
    """Raise Missed if ONNX's checker rejects the file, for example because its weights are in a second file."""
    try:
        _check(content)
    except Exception as error:
        advice = "run onnx.checker on the file; if weights are in a second file, export with external_data=False"
        raise Missed("one file that onnx.checker accepts, weights included", str(error)[:300], advice) from error


@loads
def _check(content: bytes) -> None:
    onnx.checker.check_model(content, full_check=True)


def ends_named(facts: OnnxFacts) -> str:
    """Return evidence that the only input is `input` and the only output `output`, both float32."""
    ends = {side: [f"{name} {end['dtype']}" for name, end in facts[side].items()] for side in ("inputs", "outputs")}
    advice = "pass input_names and output_names to the exporter, and do not list weights as inputs"
    agree(ends, {"inputs": ["input FLOAT"], "outputs": ["output FLOAT"]}, "the ONNX file", advice)
    return "input and output, both float32"


def batch_axis_symbolic(facts: OnnxFacts) -> str:
    """Return evidence that axis 0 of input and output is dynamic, and every other axis a number."""
    images, logits = (next(iter(facts[side].values()), {"shape": []})["shape"] for side in ("inputs", "outputs"))
    named = [isinstance(size, str) for size in (*images, *logits)]
    if named != [True, False, False, False, True, False] or images[1:] != [3, EDGE, EDGE]:
        expected = f"input ['batch', 3, {EDGE}, {EDGE}] and output ['batch', classes]; the axis may have any name"
        advice = "declare axis 0 of input and output as dynamic, and no other axis"
        raise Missed(expected, f"input {images}, output {logits}", advice)
    return f"input {images}, output {logits}"


def well_formed(content: bytes, facts: OnnxFacts) -> None:
    """Raise Missed if a file lacks its weights, or its input and output differ from the task's."""
    checked(content)
    ends_named(facts)
    batch_axis_symbolic(facts)


def run_model(files: Files, name: str, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes]; raise Missed if it cannot run these images."""
    try:
        return _outputs(files, name, images)
    except Exception as error:  # ONNX Runtime's classes have no common base
        expected = f"{name} to run a batch of {len(images)} in ONNX Runtime"
        advice = "load the file in ONNX Runtime yourself, and check the batch axis that it declares"
        raise Missed(expected, str(error)[:300], advice) from error


@loads
def _outputs(files: Files, name: str, images: np.ndarray) -> np.ndarray:
    """Return the outputs of one of these files; the others lie in the same folder, for external weights."""
    with tempfile.TemporaryDirectory() as folder:
        for other, content in files.items():
            (Path(folder) / Path(other).name).write_bytes(content)
        session = onnx_session(Path(folder) / name)
        return session.run(None, {session.get_inputs()[0].name: images})[0]
