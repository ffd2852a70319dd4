"""PyTorch to ONNX, checked against PyTorch through ONNX Runtime.

The TorchScript exporter is used up to opset 20, because TensorRT 8.6 parses its graphs and not the newer exporter's.
"""

import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from helpers.tools.files import atomic_path
from trtcpu.errors import InputError
from trtlab.models.class_names import ClassNames, number_of_classes
from trtlab.models.model_inputs import ModelInput, image_input, test_sizes

INPUT_NAME, OUTPUT_NAME = "input", "output"
DEFAULT_OPSET = 17
_OPSETS = range(11, 24)
_TORCHSCRIPT_MAX_OPSET = 20
_TOLERANCE = {np.dtype(np.float16): 1e-2}
_USUAL_TOLERANCE = 1e-4


@dataclass(frozen=True)
class ExportRecord:
    """What was exported and how close ONNX Runtime's outputs are to PyTorch's.

    `input_shape` and `output_shape` are those of the first; `inputs` and `outputs` have the shapes of all by name.
    """

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
    inputs: dict[str, tuple[int | str, ...]]
    outputs: dict[str, tuple[int | str, ...]]

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
    channels: int = 3,
    inputs: Sequence[ModelInput] | None = None,
    simplify: bool = False,
    metadata: dict[str, str] | None = None,
    classes: ClassNames | None = None,
) -> ExportRecord:
    """Write `model` as ONNX, in one step and only if it agrees with PyTorch.

    It takes `inputs`; without them `input` [N, channels, input_size, input_size], of which axis 0 alone is symbolic,
    and only with `dynamic_batch`. One output is called `output`, several `output_0`, `output_1`, … The weights are
    inside the file, and so are `metadata` and the names of the outputs, where `classes` gives them.

    Raises:
        InputError: a bad option, a model that cannot be exported, an export that differs from PyTorch, or other than
            one name an output.
    """
    check_options(opset, batch_size, input_size, channels)
    inputs = inputs or [image_input(INPUT_NAME, batch_size, dynamic_batch, channels, input_size)]
    with atomic_path(path) as temporary, _evaluating(model):
        _export(_Traced(model, inputs), temporary, opset)
        if simplify:
            simplify_onnx(temporary, temporary)
        _add_metadata(temporary, (metadata or {}) | ({"classes": json.dumps(classes.names)} if classes else {}))
        errors = validate_onnx(temporary, model, inputs)
        record = _record(temporary, Path(path), _exporter(model, opset), test_sizes(inputs)[1], errors)
        if classes:
            classes.check(number_of_classes(record.output_shape[1:], "the model"), "the model")
        return record


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


def validate_onnx(path: str | Path, model: torch.nn.Module, inputs: Sequence[ModelInput]) -> tuple[float, float]:
    """Compare ONNX Runtime with PyTorch on fresh inputs at several sizes of every dynamic axis.

    Returns:
        the largest absolute error, and the largest relative error (norm of the difference over norm of the output).

    Raises:
        InputError: the file breaks ONNX's rules, or a relative error is above 1e-4 (1e-2 for half precision).
    """
    session = _session(path)
    errors = [error for sizes in test_sizes(inputs)[0] for error in _differences(session, model, inputs, sizes)]
    absolute, relative = (max(column) for column in zip(*errors, strict=True))
    return absolute, relative


def check_options(opset: int, batch_size: int, input_size: int, channels: int) -> None:
    """Raise InputError for an operator set, a batch or an image that cannot be exported."""
    if opset not in _OPSETS:
        raise InputError(f"opset {opset} is not supported; choose {_OPSETS[0]} to {_OPSETS[-1]} (17 suits all engines)")
    if batch_size < 1:
        raise InputError(f"a batch size of {batch_size} is impossible; give 1 or more")
    if input_size < 1:
        raise InputError(f"an input size of {input_size} pixels is impossible; give 32 or more")
    if channels < 1:
        raise InputError(f"images of {channels} channels are impossible; give 1 (grey), 3 (RGB) or more")


class _Traced:
    """A model with an example of its inputs, and what its outputs are called and which of their axes are dynamic."""

    def __init__(self, model: torch.nn.Module, inputs: Sequence[ModelInput]) -> None:
        self.model, self.inputs = model, inputs
        self.sizes = test_sizes(inputs)[0][0] | {k: v for each in inputs for k, v in each.traced.items()}
        outputs = _outputs(model, self.example())
        _check_repeats(outputs, _outputs(model, self.example()))
        names = [f"{OUTPUT_NAME}_{index}" for index in range(len(outputs))] if len(outputs) > 1 else [OUTPUT_NAME]
        self.outputs: dict[str, dict[int, str]] = {name: {} for name in names}
        for axis in self._names():
            larger = _outputs(model, self.example({axis: 2 * self.sizes[axis]}))
            for name, before, after in zip(names, outputs, larger, strict=True):
                moved = [place for place, size in enumerate(before.shape) if after.shape[place] != size]
                self.outputs[name] |= {
                    place: axis if before.shape[place] == self.sizes[axis] else f"{name}_{place}" for place in moved
                }

    def example(self, sizes: Mapping[str, int] | None = None) -> tuple[torch.Tensor, ...]:
        """Return values for every input, with other sizes of the axes that `sizes` names."""
        return _values(self.model, self.inputs, {**self.sizes, **(sizes or {})}, seed=0)

    def _names(self) -> list[str]:
        return list(dict.fromkeys(axis for each in self.inputs for axis in each.dynamic().values()))

    def dynamic_axes(self) -> dict[str, dict[int, str]] | None:
        """Return the names of the dynamic axes of every input and output; None where there is none."""
        axes = {each.name: each.dynamic() for each in self.inputs} | self.outputs
        return {name: places for name, places in axes.items() if places} or None

    def dynamic_shapes(self) -> tuple[dict[int, Any], ...] | None:
        """Return the same for torch.export."""
        dims = {name: torch.export.Dim(name) for name in self._names()}
        shapes = tuple({place: dims[axis] for place, axis in each.dynamic().items()} for each in self.inputs)
        return shapes if dims else None

    def unspecialised(self) -> tuple[torch.Tensor, ...]:
        """Return an example in which no dynamic axis is 1, which torch.export would take for a constant."""
        return self.example({name: max(2, self.sizes[name]) for name in self._names()})


def _values(
    model: torch.nn.Module, inputs: Sequence[ModelInput], sizes: Mapping[str, int], seed: int
) -> tuple[torch.Tensor, ...]:
    limit = _index_limit(model)
    return tuple(each.values(sizes, limit, seed + index) for index, each in enumerate(inputs))


def _index_limit(model: torch.nn.Module) -> int | None:
    """Return the rows of the model's smallest embedding: indices below it fit every one of them."""
    kinds = ("Embedding", "EmbeddingBag")
    found = [m for m in model.modules() if getattr(m, "original_name", type(m).__name__) in kinds]
    return min((len(module.weight) for module in found), default=None)


def _outputs(model: torch.nn.Module, values: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Run the model and return its outputs as a list."""
    try:
        found = model(*values)
    except Exception as error:  # whatever the model's layers raise for an input that they cannot take
        shapes = " and ".join(str(list(value.shape)) for value in values)
        what = f"images of shape {shapes}" if len(values) == 1 and values[0].ndim == 4 else f"inputs of shape {shapes}"
        raise InputError(f"the model cannot run on {what}: {_first_line(error)}") from error
    parts = list(found.values()) if isinstance(found, Mapping) else found
    outputs = [part for part in (parts if isinstance(parts, (list, tuple)) else [parts]) if part is not None]
    wrong = [type(part).__name__ for part in outputs if not isinstance(part, torch.Tensor)]
    if wrong or not outputs:
        raise InputError(f"the model gives {(wrong or ['nothing'])[0]}; only tensors and lists of them can be exported")
    return outputs


def _check_repeats(outputs: list[torch.Tensor], again: list[torch.Tensor]) -> None:
    """Raise InputError where two runs on one input differ: no export can agree with such a model."""
    if not all(
        one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for one, other in zip(outputs, again, strict=True)
    ):
        raise InputError(
            "the model gives two answers for one input: it draws random numbers, or keeps something from call to call; "
            "make forward depend on its inputs only"
        )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    training = model.training
    fused_attention = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that ONNX does not have
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused_attention)
        model.train(training)


def _exporter(model: torch.nn.Module, opset: int) -> str:
    """Return which exporter is used: an exported program's symbolic sizes cannot be traced again by TorchScript's."""
    program = isinstance(model, torch.fx.GraphModule)
    return "dynamo" if program or opset > _TORCHSCRIPT_MAX_OPSET else "torchscript"


def _export(traced: _Traced, path: Path, opset: int) -> None:
    inputs = [each.name for each in traced.inputs]
    names = {"input_names": inputs, "output_names": list(traced.outputs), "opset_version": opset}
    model = traced.model
    try:
        with _quiet():
            if _exporter(model, opset) == "torchscript":
                axes = traced.dynamic_axes()
                torch.onnx.export(model, traced.example(), str(path), dynamo=False, dynamic_axes=axes, **names)
            else:
                shapes = traced.dynamic_shapes()
                program = torch.onnx.export(model, traced.unspecialised(), dynamo=True, dynamic_shapes=shapes, **names)
                program.save(str(path), external_data=False)
    except OSError:
        raise
    except Exception as error:  # every layer of PyTorch's exporters raises its own
        raise InputError(f"PyTorch cannot export this model at opset {opset}: {_first_line(error)}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' progress lines, deprecation warnings and the graph that they print before they fail."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        previous = logging.root.manager.disable
        logging.disable(logging.WARNING)
        getattr(torch._C, "_jit_set_onnx_log_enabled", lambda enabled: None)(False)
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
    options.log_severity_level = 4
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    try:
        onnx.checker.check_model(str(path), full_check=True)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnx and onnxruntime have error classes of their own, without a common base
        raise InputError(f"the exported model is not valid ONNX: {' '.join(str(error).split())}") from error


def _differences(
    session: onnxruntime.InferenceSession, model: torch.nn.Module, inputs: Sequence[ModelInput], sizes: dict[str, int]
) -> list[tuple[float, float]]:
    """Return the largest absolute and the relative error of every output at these sizes of the dynamic axes."""
    values = [_unlike(value) for value in _values(model, inputs, sizes, seed=1000 + sum(sizes.values()))]
    expected = [output.numpy() for output in _outputs(model, tuple(values))]
    fed = {value.name for value in session.get_inputs()}
    feeds = {each.name: value.numpy() for each, value in zip(inputs, values, strict=True) if each.name in fed}
    unused = [each.name for each in inputs if each.name not in fed]
    if unused:
        raise InputError(f"the model does not use its input {unused[0]}, so the export lacks it; leave it out")
    try:
        found = session.run(None, feeds)
    except Exception as error:  # onnxruntime has error classes of its own, without a common base
        at = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(
            f"the exported model fails at {at}: the trace kept a size as a constant ({_first_line(error)[:160]}); "
            "try --opset 21, whose exporter traces sizes too, or fix that axis"
        ) from error
    return [_difference(*pair) for pair in zip(found, expected, strict=True)]


def _unlike(value: torch.Tensor) -> torch.Tensor:
    """Return values unlike the traced example, to reach other branches of the model."""
    if not value.is_floating_point() or not value.ndim:
        return value
    half = len(value) // 2
    return torch.cat([value[:half], -3 * value[half:]])


def _difference(found: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    if found.shape != expected.shape:
        raise InputError(
            f"the exported model gives {found.shape} where PyTorch gives {expected.shape}: the trace kept a size as a "
            "constant; try --opset 21, whose exporter traces sizes too"
        )
    allowed = _TOLERANCE.get(expected.dtype, _USUAL_TOLERANCE)
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    scale = max(float(np.linalg.norm(expected.astype(np.float64))), np.finfo(np.float32).tiny)
    relative = float(np.linalg.norm(difference)) / scale
    if not relative <= allowed:
        raise InputError(
            f"the exported model differs from PyTorch: relative error {relative:.2e}, allowed {allowed:.0e}; "
            "control flow that depends on the data cannot be traced"
        )
    return float(difference.max(initial=0.0)), relative


def _record(file: Path, path: Path, exporter: str, checked: Sequence[int], errors: tuple[float, float]) -> ExportRecord:
    model = onnx.load(str(file))
    graph, opset = model.graph, next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return ExportRecord(
        path=str(path),
        opset=opset,
        exporter=exporter,
        input_shape=_shape(graph.input[0]),
        output_shape=_shape(graph.output[0]),
        inputs={value.name: _shape(value) for value in graph.input},
        outputs={value.name: _shape(value) for value in graph.output},
        nodes=len(graph.node),
        size_bytes=file.stat().st_size,
        checked_batches=tuple(checked),
        max_absolute_error=errors[0],
        relative_error=errors[1],
    )


def _shape(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    return tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)
