"""Probes of step 1: they call the student's exporter and simplifier in an empty folder and gather what is left."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict
from unittest import mock

import numpy as np
import onnx
import onnxsim
import torch
from onnx import numpy_helper

from helpers.checks.missed import SLIPS
from helpers.checks.points.s01_export.classifier import probe_classifier
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.capture import TimeLimitError
from helpers.checks.probes.frames import said

_simplify = onnxsim.simplify  # where both sides are one process, the name in onnxsim is replaced meanwhile
EXPORTED, SIMPLIFIED = "model.v1.onnx", "simplified.v1.onnx"
_LARGEST_BYTES = 50 << 20  # of a file that is answered with; the probe classifier's takes a thousandth
UNUSABLE = "unusable"
"""The fault after which there is nothing to compare."""
ROUNDED = "rounded"
"""The one of FAULTS that is none: it has to be written."""
EARLIER = b"the file of an earlier run"
"""What lies where an ONNX file is to be written: notebooks are run again, so it has to be replaced."""


class Exported(TypedDict):
    """What `export_model` answers."""

    files: dict[str, bytes]
    training: bool
    weights_kept: bool


class Simplified(TypedDict):
    """What `simplify_model` answers."""

    files: dict[str, bytes]
    source_kept: bool


class Refused(TypedDict):
    """What `refused_model` answers."""

    files: dict[str, bytes]
    raised: str | None
    slip: bool


@probe
def export_model(
    notebook: Notebook, *, seed: int, training: bool = False, opset: int | None = None, before: int | None = None
) -> Exported:
    """Call `export_onnx(model, path)` on the probe classifier of `seed`; `opset` is passed where it is given.

    An EARLIER file lies at `path`. The classifier of `before` is exported first, to another file.

    Returns `files`, what it left ({file name: bytes}; the one at `path` is called EXPORTED), `training`, whether the
    model or a part of it is in training mode afterwards, and `weights_kept`, whether it still has its weights.
    """
    export, options = notebook["export_onnx"], {} if opset is None else {"opset": opset}
    model, same = probe_classifier(seed, training=training), probe_classifier(seed)
    with tempfile.TemporaryDirectory() as folder:
        if before is not None:
            with tempfile.TemporaryDirectory() as other:
                export(probe_classifier(before), Path(other) / EXPORTED)
        (Path(folder) / EXPORTED).write_bytes(EARLIER)
        export(model, Path(folder) / EXPORTED, **options)
        return {"files": _files(Path(folder)), "training": _trains(model), "weights_kept": _equal(model, same)}


def _trains(model: torch.nn.Module) -> bool:
    return any(part.training for part in model.modules())


def _equal(model: torch.nn.Module, other: torch.nn.Module) -> bool:
    found, expected = model.state_dict(), other.state_dict()
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


@probe
def simplify_model(notebook: Notebook, *, onnx: bytes) -> Simplified:
    """Call `simplify_onnx(src, dst)` on a sound model; an EARLIER file lies at `dst`.

    Returns `files` ({file name: bytes}; the one at `dst` is called SIMPLIFIED) and `source_kept`, whether src is as it
    was.
    """
    simplify = notebook["simplify_onnx"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / EXPORTED
        source.write_bytes(onnx)
        (Path(folder) / SIMPLIFIED).write_bytes(EARLIER)
        simplify(source, Path(folder) / SIMPLIFIED)
        kept = source.is_file() and source.read_bytes() == onnx
        return {"files": _files(Path(folder), without=EXPORTED), "source_kept": kept}


@probe
def refused_model(notebook: Notebook, *, onnx: bytes, served: bool = False) -> Refused:
    """Call `simplify_onnx(src, dst)` where it may have to refuse; what is `served` then takes onnxsim's part.

    Returns `files` as `simplify_model`, `raised` (the exception's type and message, None without one) and `slip`,
    whether that is an exception of a slip, not one that was raised on purpose.
    """
    simplify, raised, slip = notebook["simplify_onnx"], None, False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / EXPORTED
        source.write_bytes(onnx)
        try:
            with _served_simplifier(notebook, simplify) if served else contextlib.nullcontext():
                simplify(source, Path(folder) / SIMPLIFIED)
        except (TimeLimitError, NotImplementedError):
            raise
        except (Exception, SystemExit) as error:
            raised, slip = f"{type(error).__name__}: {said(error)[:500]}", type(error).__name__ in SLIPS
        return {"files": _files(Path(folder), without=EXPORTED), "raised": raised, "slip": slip}


def _files(folder: Path, without: str = "") -> dict[str, bytes]:
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != without]
    return {path.name: path.read_bytes() for path in found if path.stat().st_size <= _LARGEST_BYTES}


def _slight(graph: onnx.GraphProto) -> None:
    """Make a convolution's weights 5 % larger: no other output for an image of zeros, hardly ever another class."""
    _change(next(tensor for tensor in graph.initializer if len(tensor.dims) == 4), lambda values: values * 1.05)


def _nan(graph: onnx.GraphProto) -> None:
    """Make a convolution's weights no numbers."""
    _change(next(tensor for tensor in graph.initializer if len(tensor.dims) == 4), lambda values: values * np.nan)


def _colours(graph: onnx.GraphProto) -> None:
    """Swap what the first convolution makes of red and of blue: no other output for an image in grey."""
    colours = (tensor for tensor in graph.initializer if len(tensor.dims) == 4 and tensor.dims[1] == 3)
    _change(next(colours), lambda values: values[:, ::-1])


def _shifted(graph: onnx.GraphProto, *shifts: float) -> None:
    """Add the shifts to the last outputs."""
    bias = next(tensor for tensor in graph.initializer if list(tensor.dims) == [10])
    _change(bias, lambda values: values + np.pad(shifts, (10 - len(shifts), 0)))


def _rounded(graph: onnx.GraphProto) -> None:
    """Change a convolution's weights by float32's last digit, up and down: nobody calls that another model."""
    weights = next(tensor for tensor in graph.initializer if len(tensor.dims) == 4)
    ends = np.where(np.arange(np.prod(weights.dims)).reshape(weights.dims) % 2, np.inf, -np.inf).astype(np.float32)
    _change(weights, lambda values: np.nextafter(values, ends))


def _unusable(graph: onnx.GraphProto) -> None:
    """Leave out an initializer that a node needs, so that the model cannot be run and nothing compared."""
    graph.initializer.pop()


FAULTS: dict[str, Callable[[onnx.GraphProto], None]] = {
    "slight": _slight,
    "nan": _nan,
    "colours": _colours,
    "larger": lambda graph: _shifted(graph, *[0.5] * 10),
    "smaller": lambda graph: _shifted(graph, *[-0.5] * 10),
    "last classes": lambda graph: _shifted(graph, -0.5, 0.5),  # their mean and every other output stay
    ROUNDED: _rounded,
    UNUSABLE: _unusable,
}
"""What a simplifier may do to a model's graph."""


def _change(tensor: onnx.TensorProto, change: Callable[[np.ndarray], np.ndarray]) -> None:
    values = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(change(values).astype(values.dtype), tensor.name))


class Simplifier:
    """onnxsim for the one model that the judge sent: its result with a fault, which nobody else knows.

    Args:
        onnx: that model; what the student's side would simplify is not looked at.
        fault: a name of FAULTS.
    """

    ASKED = ("simplify",)

    def __init__(self, onnx: bytes, fault: str) -> None:
        self._onnx, self._fault = onnx, fault

    def simplify(self, compared: bool) -> dict[str, Any]:
        """Return the `model` with the fault, and `well`: all is well unless onnxsim was asked to compare."""
        found, _ = _simplify(onnx.load_from_string(self._onnx), 0)
        FAULTS[self._fault](found.graph)
        return {"model": found.SerializeToString(), "well": self._fault == ROUNDED or not compared}


@contextlib.contextmanager
def _served_simplifier(notebook: Notebook, function: Callable[..., Any]) -> Iterator[None]:
    """Let `onnxsim.simplify` return what is served, by whatever name the student's module calls it."""

    def spoiled(model: Any, check_n: int = 0, *args: Any, **kwargs: Any) -> tuple[onnx.ModelProto, bool]:
        found = notebook.ask("simplify", compared=bool(check_n))
        return onnx.load_from_string(found["model"]), found["well"]

    names = getattr(function, "__globals__", {})
    own = {name: spoiled for name, value in names.items() if value is onnxsim.simplify}
    homes = [home for home in (onnxsim, getattr(onnxsim, "onnx_simplifier", None)) if hasattr(home, "simplify")]
    with mock.patch.dict(names, own), contextlib.ExitStack() as patches:
        for home in homes:
            patches.enter_context(mock.patch.object(home, "simplify", spoiled))
        yield
