"""What step 1 asks of an ONNX file: its own account of itself, ONNX's checker, and what ONNX Runtime makes of it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.s01_export.probes import EARLIER
from helpers.checks.probes.loads import loads
from helpers.checks.probes.onnx_files import OnnxFacts, onnx_facts
from helpers.tools.outputs import onnx_session, relative_error
from helpers.toys.networks import EDGE

Files = dict[str, bytes]

TOLERANCE = 5e-5
"""Most of a relative error that float32 and another order of additions explain; right exports measured up to 2e-6."""

_SAMPLE = [3, EDGE, EDGE]


def images_of(random: np.random.Generator, batch: int) -> np.ndarray:
    """Return float32 images [batch, 3, 224, 224] that differ in brightness and contrast, so that outputs differ too."""
    noise = random.standard_normal((batch, *_SAMPLE), dtype=np.float32)
    contrast = random.uniform(0.5, 2, (batch, 1, 1, 1)).astype(np.float32)
    return noise * contrast + random.standard_normal((batch, 3, 1, 1), dtype=np.float32)


def torch_outputs(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """Return the model's outputs [N, classes] in evaluation mode."""
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images)).numpy()


def facts_of_file(files: Files, name: str, function: str) -> OnnxFacts:
    """Return `onnx_facts` of a file; raise Missed where it is missing or no ONNX model."""
    if files.get(name, EARLIER) == EARLIER:
        others = ", ".join(other for other in files if other != name)
        left = "the earlier file, unchanged" if name in files else "no file there"
        found = f"{left}; other files: {others}" if others else left
        advice = "write to that very path, also where an earlier file lies"
        raise Missed(f"an ONNX file from {function} at the path it is given", found, advice)
    try:
        return onnx_facts(files[name])
    except Exception as error:  # protobuf and onnx have classes of their own
        said = f"{len(files[name]):,} bytes that onnx cannot load: {type(error).__name__}: {error}"
        raise Missed(f"an ONNX model in what {function} writes", said[:200], "write the model itself") from error


def one_file(files: Files, name: str, facts: OnnxFacts) -> str:
    """Return evidence that a file holds its own weights and nothing lies beside it."""
    if set(files) != {name} or facts["external"]:
        found = f"{', '.join(files)}; weights that the model expects in another file: {len(facts['external'])}"
        raise Missed("one file that holds its own weights", found, "look for the option on external data")
    return f"{len(files[name]):,} bytes"


def checked(files: Files, name: str) -> None:
    """Raise Missed where ONNX's checker finds something wrong."""
    try:
        _check(files, name)
    except Exception as error:
        raise Missed("a model that ONNX's checker accepts", str(error)[:300], "run onnx.checker on the file") from error


@loads
def _check(files: Files, name: str) -> None:
    with _on_disk(files) as folder:
        onnx.checker.check_model(str(folder / name), full_check=True)


def ends_named(facts: OnnxFacts) -> str:
    """Return evidence that the one input is `input` and the one output `output`, both float32."""
    inputs, outputs = list(facts["inputs"]), list(facts["outputs"])
    if inputs != ["input"] or outputs != ["output"]:
        found = f"inputs {inputs[:6]}, outputs {outputs[:6]}"
        advice = "pass input_names and output_names when you export; weights are no inputs, simplifiers keep names"
        raise Missed("one input named `input` and one output named `output`", found, advice)
    kinds = {facts["inputs"]["input"]["dtype"], facts["outputs"]["output"]["dtype"]}
    if kinds != {"FLOAT"}:
        raise Missed("float32 on both ends", ", ".join(sorted(kinds)), "export the model in the precision it came in")
    return "input and output, both float32"


def batch_axis_symbolic(facts: OnnxFacts) -> str:
    """Return evidence that axis 0 of input and output is symbolic and every other axis a number."""
    images, logits = (next(iter(facts[side].values()), {"shape": []})["shape"] for side in ("inputs", "outputs"))
    symbolic = all(shape and isinstance(shape[0], str) for shape in (images, logits))
    if not symbolic or images[1:] != _SAMPLE or [type(size) for size in logits[1:]] != [int]:
        expected = f"input ['batch', 3, {EDGE}, {EDGE}] and output ['batch', classes]; the axis may have any name"
        advice = f"export with images [N, 3, {EDGE}, {EDGE}]; declare axis 0 of both as dynamic, and no other axis"
        raise Missed(expected, f"input {images}, output {logits}", advice)
    return f"input {images}, output {logits}"


def run_model(files: Files, name: str, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes]; raise Missed where it cannot run these images."""
    try:
        return _outputs(files, name, images)
    except Exception as error:  # ONNX Runtime's classes have no common base
        expected = f"{name} to run a batch of {len(images)} in ONNX Runtime"
        advice = "look at the batch axis that the file declares, and load the file in ONNX Runtime yourself"
        raise Missed(expected, str(error)[:300], advice) from error


@loads
def _outputs(files: Files, name: str, images: np.ndarray) -> np.ndarray:
    with _on_disk(files) as folder:
        session = onnx_session(folder / name)
        dtype = np.float16 if "float16" in session.get_inputs()[0].type else np.float32
        return session.run(None, {session.get_inputs()[0].name: images.astype(dtype)})[0]


def agreement(outputs: np.ndarray, expected: np.ndarray, of_what: str) -> str:
    """Return evidence that outputs are what they should be; raise Missed where they are not."""
    batch = len(expected)
    if outputs.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(outputs.shape), "keep the batch axis and the classes")
    error = relative_error(outputs, expected)
    if not error <= TOLERANCE:
        advice = "compare the two yourself on the same random images; training mode gives other outputs"
        raise Missed(
            f"{of_what} outputs within {TOLERANCE:g} at batch {batch}", f"a relative error of {error:.2g}", advice
        )
    return f"batch {batch}: relative error {error:.1g}"


@contextmanager
def _on_disk(files: Files) -> Iterator[Path]:
    """Write files into an empty folder; weights beside the model are found there."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / Path(name).name).write_bytes(content)
        yield Path(folder)
