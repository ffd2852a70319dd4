"""Runs functions of a notebook under another Python that has PyTorch: for a kernel whose own cannot compile.

torch.compile needs Triton on a GPU, and a C++ compiler without one. Where the kernel's Python lacks them,
TRT_LAB_TORCH_PYTHON may name one that has them:

    found = in_other_python("python3.12", [TorchRunner, measure_way], "measure_way(…)", network, images, {})

That Python needs PyTorch and NumPy, and nothing else of the lab: no TensorRT, no pycuda. The functions, without the
rest of their cells, are defined there beside the names that step 13 has: `np`, `time`, `torch`, `network`, `IMAGES`,
a `cuda` with Event alone, on PyTorch's events, and a `STREAM` that is PyTorch's current one.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers.tools.cells import cell_of
from trtcpu.errors import InputError

VARIABLE = "TRT_LAB_TORCH_PYTHON"
_ROOT = Path(__file__).resolve().parents[2]
_SHOWN = 110
_NETWORK, _IMAGES, _ASKED, _ANSWER = "network.pt2", "images.npy", "asked.json", "answer.json"


def why(error: Exception) -> str:
    """Return an exception's reason in one line; of PyTorch's compilers the first line often only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((line for line in lines if not line.endswith("raised:")), type(error).__name__)
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]} …"


def in_other_python(
    python: str, definitions: Sequence[Any], expression: str, network: Any, images: Any, values: dict[str, Any]
) -> dict[str, Any]:
    """Return {"python", "torch", "value"}: the two versions, and what `expression` is in the other Python.

    Args:
        python: the program, by its name or path.
        definitions: functions and classes of the notebook that the expression needs.
        network: a torch.nn.Module; it travels as an exported program, on the device where it is.
        images: its input, float32 [N, 3, H, W].
        values: more names for the functions, of plain data.

    Raises:
        InputError: there is no such program, or it ends with an error, which the message names.
    """
    import numpy as np
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = next(network.parameters())
        example = torch.from_numpy(images).to(weights)
        torch.export.save(torch.export.export(network, (example,)), folder / _NETWORK)
        np.save(folder / _IMAGES, images)
        asked = {"definitions": list(map(source_of, definitions)), "expression": expression, "values": values}
        (folder / _ASKED).write_text(json.dumps(asked))
        _run(python, folder, {} if weights.is_cuda else {"CUDA_VISIBLE_DEVICES": ""})
        return json.loads((folder / _ANSWER).read_text())


def _run(python: str, folder: Path, more: dict[str, str]) -> None:
    """Run this file under the other Python, which has to find the lab's helpers and its own packages alone."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    environment |= {"PYTHONPATH": str(_ROOT), **more}
    command = [python, "-m", "helpers.toys.other_torch", str(folder)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    except OSError as error:
        raise InputError(f"{VARIABLE}={python!r} cannot be run: {error.strerror}; name a Python program") from error
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise InputError(f"{VARIABLE}={python!r} ended with {last}")


def source_of(definition: Any) -> str:
    """Return the source of a function or class, which its cell may define beside others and then call."""
    cell = ast.parse(cell_of(definition, definition.__name__))
    found = [node for node in cell.body if getattr(node, "name", "") == definition.__name__]
    return ast.unparse(found[-1])


class Event:
    """A moment in PyTorch's stream under pycuda's names; without a GPU, the host's time when it is recorded."""

    def __init__(self) -> None:
        import torch

        self._event = torch.cuda.Event(enable_timing=True) if torch.cuda.is_available() else None
        self._seconds = 0.0

    def record(self, stream: "Stream | None" = None) -> "Event":
        """Mark the point after everything that was put on the stream."""
        if self._event is not None:
            self._event.record()
        self._seconds = time.perf_counter()
        return self

    def synchronize(self) -> "Event":
        """Wait until the point is reached."""
        if self._event is not None:
            self._event.synchronize()
        return self

    def time_till(self, event: "Event") -> float:
        """Return the milliseconds from this event to `event`."""
        if self._event is not None:
            return self._event.elapsed_time(event._event)
        return (event._seconds - self._seconds) * 1e3

    def time_since(self, event: "Event") -> float:
        """Return the milliseconds from `event` to this event."""
        return event.time_till(self)


class Stream:
    """PyTorch's current stream under pycuda's names."""

    def synchronize(self) -> None:
        """Wait for everything that was put on it."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()


def _answer(folder: Path) -> None:
    """Define what was sent and write what the expression gives, with the versions."""
    import numpy as np
    import torch

    asked = json.loads((folder / _ASKED).read_text())
    names: dict[str, Any] = {"__name__": "__main__", "np": np, "time": time, "torch": torch, **asked["values"]}
    names |= {"cuda": SimpleNamespace(Event=Event), "STREAM": Stream(), "IMAGES": np.load(folder / _IMAGES)}
    names["network"] = torch.export.load(folder / _NETWORK).module()
    try:
        for source in asked["definitions"]:
            exec(compile(source, "a function of the notebook", "exec"), names)
        value = eval(asked["expression"], names)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {why(error)}")
    versions = {"python": ".".join(map(str, sys.version_info[:3])), "torch": torch.__version__}
    (folder / _ANSWER).write_text(json.dumps({**versions, "value": value}))


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
