"""Runs a submission's ONNX files on the trusted side and compares them with PyTorch or with another ONNX file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from helpers.missed import Missed
from helpers.probes.networks import EDGE
from helpers.probes.onnx_files import onnx_facts
from solutions.checks.trusted.plans import relative_error

__all__ = [
    "agreement",
    "check_batch_axis",
    "check_names",
    "check_valid",
    "facts_of_file",
    "probe_images",
    "run_model",
    "torch_outputs",
]

Files = dict[str, bytes]
TOLERANCE = 5e-5
_SHAPE = [3, EDGE, EDGE]


def probe_images(random: np.random.Generator, batch: int) -> np.ndarray:
    """Return float32 images [batch, 3, 224, 224] that differ in brightness and contrast, so that outputs differ too."""
    noise = random.standard_normal((batch, *_SHAPE), dtype=np.float32)
    contrast = random.uniform(0.5, 2, (batch, 1, 1, 1)).astype(np.float32)
    return noise * contrast + random.standard_normal((batch, 3, 1, 1), dtype=np.float32)


def torch_outputs(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """Return the model's outputs [N, classes] in evaluation mode."""
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images)).numpy()


def facts_of_file(files: Files, name: str, function: str) -> dict[str, Any]:
    """Return `onnx_facts` of a file; raise Missed where it is missing or no ONNX model."""
    if name not in files:
        others = ", ".join(files) or "no file"
        raise Missed(f"{function} to write an ONNX file at the path it is given", others, "write to that very path")
    try:
        return onnx_facts(files[name])
    except Exception as error:  # protobuf and onnx have classes of their own
        raise Missed(
            "an ONNX model in the file", f"{type(error).__name__}: {error}"[:200], "write the model"
        ) from error


def run_model(files: Files, name: str, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes]; raise Missed where it cannot run these images."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        with _on_disk(files) as folder:
            session = onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            dtype = np.float16 if "float16" in session.get_inputs()[0].type else np.float32
            return session.run(None, {session.get_inputs()[0].name: images.astype(dtype)})[0]
    except Exception as error:  # ONNX Runtime's classes have no common base
        raise Missed(
            f"the exported model to run a batch of {len(images)} in ONNX Runtime",
            str(error)[:300],
            "look at the batch axis that the file declares, and load the file in ONNX Runtime yourself",
        ) from error


def check_valid(files: Files, name: str) -> None:
    """Raise Missed where ONNX's checker finds something wrong."""
    try:
        with _on_disk(files) as folder:
            onnx.checker.check_model(str(folder / name), full_check=True)
    except Exception as error:
        raise Missed("a model that ONNX's checker accepts", str(error)[:300], "run onnx.checker on the file") from error


def agreement(outputs: np.ndarray, expected: np.ndarray, of_what: str) -> str:
    """Return evidence that outputs are what they should be; raise Missed where they are not."""
    batch = len(expected)
    if outputs.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(outputs.shape), "keep the batch axis and the classes")
    error = relative_error(outputs, expected)
    if not error <= TOLERANCE:
        raise Missed(
            f"{of_what} outputs within {TOLERANCE:g} at batch {batch}",
            f"a relative error of {error:.2g}",
            "compare the two yourself on the same random images, in evaluation mode",
        )
    return f"batch {batch}: relative error {error:.1g}"


def check_names(facts: dict[str, Any]) -> str:
    """Return evidence that the one input is `input` and the one output `output`, both float32."""
    inputs, outputs = list(facts["inputs"]), list(facts["outputs"])
    if inputs != ["input"] or outputs != ["output"]:
        raise Missed(
            "one input named `input` and one output named `output`",
            f"inputs {inputs}, outputs {outputs}",
            "give the names when you export; a simplifier keeps them",
        )
    kinds = {facts["inputs"]["input"]["dtype"], facts["outputs"]["output"]["dtype"]}
    if kinds != {"FLOAT"}:
        raise Missed("float32 on both ends", ", ".join(sorted(kinds)), "export the model in the precision it came in")
    return "input and output, both float32"


def check_batch_axis(facts: dict[str, Any]) -> str:
    """Return evidence that axis 0 of input and output is symbolic and every other axis a number."""
    shapes = [next(iter(facts[side].values()), {"shape": []})["shape"] for side in ("inputs", "outputs")]
    images, logits = shapes
    symbolic = all(shape and isinstance(shape[0], str) for shape in shapes)
    if not symbolic or images[1:] != _SHAPE or [type(size) for size in logits[1:]] != [int]:
        raise Missed(
            "input ['batch', 3, 224, 224] and output ['batch', classes]; the axis may have any name",
            f"input {images}, output {logits}",
            "declare axis 0 of both as dynamic, and no other axis",
        )
    return f"input {shapes[0]}, output {shapes[1]}"


@contextmanager
def _on_disk(files: Files) -> Iterator[Path]:
    """Write files into an empty folder; weights beside the model are found there."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / Path(name).name).write_bytes(content)
        yield Path(folder)
