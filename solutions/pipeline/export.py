"""PyTorch to ONNX, checked against PyTorch through ONNX Runtime.

The TorchScript exporter is used up to opset 20, because TensorRT 8.6 parses its graphs and not the newer exporter's.
"""

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from helpers.errors import InputError
from helpers.files import atomic_path

__all__ = [
    "DEFAULT_OPSET",
    "INPUT_NAME",
    "OUTPUT_NAME",
    "ExportRecord",
    "export_onnx",
    "simplify_onnx",
    "validate_onnx",
]

INPUT_NAME, OUTPUT_NAME = "input", "output"
DEFAULT_OPSET = 17
_OPSETS = range(11, 24)
_TORCHSCRIPT_MAX_OPSET = 20
_DYNAMIC_TEST_BATCHES = (1, 2, 5)
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class ExportRecord:
    """What was exported and how close ONNX Runtime's outputs are to PyTorch's."""

    path: str
    opset: int
    exporter: str
    input_shape: tuple[int | str, ...]
    output_shape: tuple[int | str, ...]
    nodes: int
    size_bytes: int
    checked_batches: tuple[int, ...]
    max_absolute_error: float
    relative_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        return asdict(self)


def export_onnx(
    model: torch.nn.Module,
    path: str | Path,
    *,
    opset: int = DEFAULT_OPSET,
    dynamic_batch: bool = True,
    batch_size: int = 1,
    input_size: int = 224,
    simplify: bool = False,
    metadata: dict[str, str] | None = None,
) -> ExportRecord:
    """Write `model` (input [N, 3, input_size, input_size]) as ONNX, in one step and only if it agrees with PyTorch.

    Only axis 0 of `input` and `output` is symbolic, and only with `dynamic_batch`. The weights are inside the file.

    Raises:
        InputError: a bad option, a model that cannot be exported, or an export that differs from PyTorch.
    """
    _check_options(opset, batch_size, input_size)
    example = torch.randn(batch_size, 3, input_size, input_size, generator=torch.Generator().manual_seed(0))
    with atomic_path(path) as temporary, _evaluating(model):
        _check_output(model, example)
        _export(model, example, temporary, opset, dynamic_batch)
        if simplify:
            simplify_onnx(temporary, temporary)
        _add_metadata(temporary, metadata or {})
        test_batches = _DYNAMIC_TEST_BATCHES if dynamic_batch else (batch_size,)
        errors = validate_onnx(temporary, model, test_batches, input_size)
        return _record(temporary, Path(path), opset, test_batches, errors)


def simplify_onnx(source: str | Path, target: str | Path) -> None:
    """Fold constants and remove redundant nodes with onnxsim; the batch axis stays as it is.

    Raises:
        InputError: onnxsim fails or its result computes something else.
    """
    import onnxsim

    model = onnx.load(str(source))
    try:
        # without check_n onnxsim compares nothing and always agrees
        with contextlib.redirect_stdout(io.StringIO()):  # it reports every comparison
            simplified, agrees = onnxsim.simplify(model, check_n=1, test_input_shapes=_example_shapes(model))
    except Exception as error:  # onnxsim raises bare RuntimeError and ONNX's own errors
        raise InputError(f"onnxsim cannot simplify {source}: {error}; export without --simplify") from error
    if not agrees:
        raise InputError(f"onnxsim changed what {source} computes; export without --simplify")
    onnx.save(simplified, str(target))


def _example_shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return a shape for each input, two where an axis is symbolic."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return {value.name: [size if isinstance(size, int) and size else 2 for size in _shape(value)] for value in inputs}


def validate_onnx(
    path: str | Path, model: torch.nn.Module, batch_sizes: Sequence[int], input_size: int
) -> tuple[float, float]:
    """Compare ONNX Runtime with PyTorch on fresh inputs at each batch size.

    Returns:
        the largest absolute error, and the largest relative error (norm of the difference over norm of the output).

    Raises:
        InputError: the file breaks ONNX's rules, or the relative error is above 1e-4.
    """
    session = _session(path)
    errors = [_difference(session, model, batch, input_size) for batch in batch_sizes]
    absolute, relative = (max(column) for column in zip(*errors, strict=True))
    if not relative <= _TOLERANCE:
        raise InputError(
            f"the exported model differs from PyTorch: relative error {relative:.2e}, allowed {_TOLERANCE:.0e}; "
            "control flow that depends on the data cannot be traced"
        )
    return absolute, relative


def _check_options(opset: int, batch_size: int, input_size: int) -> None:
    if opset not in _OPSETS:
        raise InputError(f"opset {opset} is not supported; choose {_OPSETS[0]} to {_OPSETS[-1]} (17 suits all engines)")
    if batch_size < 1:
        raise InputError(f"a batch size of {batch_size} is impossible; give 1 or more")
    if input_size < 1:
        raise InputError(f"an input size of {input_size} pixels is impossible; give 32 or more")


def _check_output(model: torch.nn.Module, example: torch.Tensor) -> None:
    try:
        output = model(example)
    except Exception as error:  # whatever the model's layers raise for an image that they cannot take
        reason = _first_line(error)
        raise InputError(f"the model cannot run on images of shape {list(example.shape)}: {reason}") from error
    if not isinstance(output, torch.Tensor) or output.shape[:1] != example.shape[:1]:
        found = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise InputError(f"the model gives {found} for a batch of {len(example)}; only classifiers can be exported")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def _export(model: torch.nn.Module, example: torch.Tensor, path: Path, opset: int, dynamic: bool) -> None:
    names = {"input_names": [INPUT_NAME], "output_names": [OUTPUT_NAME], "opset_version": opset}
    try:
        with _quiet():
            if opset <= _TORCHSCRIPT_MAX_OPSET:
                axes = {name: {0: "batch"} for name in (INPUT_NAME, OUTPUT_NAME)} if dynamic else None
                torch.onnx.export(model, (example,), str(path), dynamo=False, dynamic_axes=axes, **names)
            else:
                shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
                # a batch of 1 would be specialised to a constant
                example = example.repeat(2, 1, 1, 1) if dynamic and len(example) == 1 else example
                program = torch.onnx.export(model, (example,), dynamo=True, dynamic_shapes=shapes, **names)
                program.save(str(path), external_data=False)
    except OSError:
        raise
    except Exception as error:  # every layer of PyTorch's exporters raises its own
        raise InputError(f"PyTorch cannot export this model at opset {opset}: {_first_line(error)}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' progress lines and deprecation warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        previous = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(previous)


def _add_metadata(path: Path, metadata: dict[str, str]) -> None:
    model = onnx.load(str(path))
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, str(path))


def _session(path: str | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    try:
        onnx.checker.check_model(str(path), full_check=True)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnx and onnxruntime have error classes of their own, without a common base
        raise InputError(f"the exported model is not valid ONNX: {' '.join(str(error).split())}") from error


def _difference(
    session: onnxruntime.InferenceSession, model: torch.nn.Module, batch: int, input_size: int
) -> tuple[float, float]:
    generator = torch.Generator().manual_seed(1000 + batch)
    images = torch.randn(batch, 3, input_size, input_size, generator=generator)
    images = torch.cat([images[: batch // 2], -3 * images[batch // 2 :]])  # unlike the example, to reach other branches
    expected = model(images).numpy()
    found = session.run([OUTPUT_NAME], {INPUT_NAME: images.numpy()})[0]
    if found.shape != expected.shape:
        raise InputError(f"the exported model gives {found.shape} where PyTorch gives {expected.shape}")
    difference = np.abs(found - expected)
    scale = max(float(np.linalg.norm(expected)), np.finfo(np.float32).tiny)
    return float(difference.max()), float(np.linalg.norm(difference)) / scale


def _record(file: Path, path: Path, opset: int, checked: Sequence[int], errors: tuple[float, float]) -> ExportRecord:
    graph = onnx.load(str(file)).graph
    return ExportRecord(
        path=str(path),
        opset=opset,
        exporter="torchscript" if opset <= _TORCHSCRIPT_MAX_OPSET else "dynamo",
        input_shape=_shape(graph.input[0]),
        output_shape=_shape(graph.output[0]),
        nodes=len(graph.node),
        size_bytes=file.stat().st_size,
        checked_batches=tuple(checked),
        max_absolute_error=errors[0],
        relative_error=errors[1],
    )


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)
