"""What step 1 asks of an ONNX file: its own account of itself, ONNX's checker, and what ONNX Runtime makes of it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.s01_export.probes import EARLIER, Files
from helpers.checks.probes.loads import loads
from helpers.checks.probes.onnx_files import OnnxFacts, onnx_facts
from helpers.tools.outputs import onnx_session, relative_error
from helpers.toys.networks import EDGE

TOLERANCE = 5e-5
"""Most of a relative error that float32 and another order of additions explain; right exports measured up to 2e-6."""


def torch_outputs(model: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """Return the model's outputs [N, classes] in evaluation mode."""
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images)).numpy()


def facts_of_file(files: Files, name: str, function: str) -> OnnxFacts:
    """Return `onnx_facts` of a file; raise Missed where it is missing or no ONNX model."""
    if files.get(name, EARLIER) == EARLIER:
        left = "the earlier file, unchanged" if name in files else f"no file there; other files: {list(files)}"
        advice = "write to that very path, also where an earlier file lies"
        raise Missed(f"an ONNX file from {function} at the path it is given", left, advice)
    try:
        return onnx_facts(files[name])
    except Exception as error:  # protobuf and onnx have classes of their own
        said = f"{len(files[name]):,} bytes that onnx cannot load: {type(error).__name__}: {error}"
        raise Missed(f"an ONNX model in what {function} writes", said[:200], "write the model itself") from error


def one_file(files: Files, name: str, facts: OnnxFacts) -> str:
    """Return evidence that a file holds its own weights."""
    if facts["external"]:
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
    found = [{name: end["dtype"] for name, end in facts[side].items()} for side in ("inputs", "outputs")]
    if found != [{"input": "FLOAT"}, {"output": "FLOAT"}]:
        advice = "pass input_names and output_names when you export; weights are no inputs, simplifiers keep names"
        said = f"inputs {found[0]}, outputs {found[1]}"[:200]
        raise Missed("one input named `input` and one output named `output`, both float32 (FLOAT)", said, advice)
    return "input and output, both float32"


def batch_axis_symbolic(facts: OnnxFacts) -> str:
    """Return evidence that axis 0 of input and output is symbolic and every other axis a number."""
    images, logits = (next(iter(facts[side].values()), {"shape": []})["shape"] for side in ("inputs", "outputs"))
    symbolic = all(shape and isinstance(shape[0], str) for shape in (images, logits))
    if not symbolic or images[1:] != [3, EDGE, EDGE] or [type(size) for size in logits[1:]] != [int]:
        expected = f"input ['batch', 3, {EDGE}, {EDGE}] and output ['batch', classes]; the axis may have any name"
        advice = f"export with images [N, 3, {EDGE}, {EDGE}]; declare axis 0 of both as dynamic, and no other axis"
        raise Missed(expected, f"input {images}, output {logits}", advice)
    return f"input {images}, output {logits}"


def well_formed(files: Files, name: str, facts: OnnxFacts) -> None:
    """Raise Missed where a file lacks its weights, or its input and output are not as the task names them."""
    one_file(files, name, facts)
    ends_named(facts)
    batch_axis_symbolic(facts)


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
        return session.run(None, {session.get_inputs()[0].name: images})[0]


def agreement(outputs: np.ndarray, expected: np.ndarray, of_what: str) -> str:
    """Return evidence that outputs are what they should be; raise Missed where they are not."""
    batch = len(expected)
    if outputs.shape != expected.shape:
        raise Missed(f"outputs of shape {expected.shape}", str(outputs.shape), "keep the batch axis and the classes")
    error = relative_error(outputs, expected)
    if not error <= TOLERANCE:
        wanted = f"{of_what} outputs within {TOLERANCE:g} at batch {batch}"
        advice = "compare the two yourself on the same random images; training mode gives other outputs"
        raise Missed(wanted, f"a relative error of {error:.2g}", advice)
    return f"batch {batch}: relative error {error:.1g}"


@contextmanager
def _on_disk(files: Files) -> Iterator[Path]:
    """Write files into an empty folder; weights beside the model are found there."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / Path(name).name).write_bytes(content)
        yield Path(folder)
