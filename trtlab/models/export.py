"""PyTorch to ONNX, checked against PyTorch through ONNX Runtime.

The TorchScript exporter is used up to opset 20, because TensorRT 8.6 parses its graphs and not the newer exporter's.
"""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import torch

from helpers.data.storage import one_line
from helpers.tools.files import atomic_path
from helpers.tools.outputs import onnx_session, relative_error
from trtcpu.errors import InputError
from trtlab.models.class_names import ClassNames, number_of_classes
from trtlab.models.lookups import Lookups
from trtlab.models.own_models import ModelInput, image_input, sizes_to_try

INPUT_NAME, OUTPUT_NAME = "input", "output"
_OTHER_EXPORTER = "try --opset 21, whose exporter traces sizes too"


class ExportRecord(SimpleNamespace):
    """What was exported; `export_onnx` has its fields. `input_shape` is the first's; `inputs`, `outputs`: all by name.

    `relative_error` is how close ONNX Runtime's outputs are to PyTorch's.
    """


def export_onnx(
    model: torch.nn.Module,
    path: str | Path,
    *,
    opset: int = 17,
    dynamic_batch: bool = True,
    batch_size: int = 1,
    input_size: int = 224,
    inputs: Sequence[ModelInput] | None = None,
    simplify: bool = False,
    metadata: dict[str, str] | None = None,
    classes: ClassNames | None = None,
) -> ExportRecord:
    """Write `model` as ONNX, in one step and only if it agrees with PyTorch.

    It takes `inputs`; without them `input` [N, 3, input_size, input_size], of which axis 0 alone is symbolic, and only
    with `dynamic_batch`. One output is called `output`, several `output_0`, `output_1`, … The weights are inside the
    file, and so are `metadata` and the names of the outputs, if `classes` gives them.

    Raises:
        InputError: a bad option, a model that cannot be exported, an export that differs from PyTorch, or other than
            one name an output.
    """
    inputs = inputs or [image_input(INPUT_NAME, batch_size, dynamic_batch, 3, input_size)]
    with atomic_path(path) as temporary, _exporting(model):
        inputs = _limited(model, inputs)
        _export(model, inputs, temporary, opset)
        if simplify:
            simplify_onnx(temporary, temporary)
        exported = onnx.load(temporary)
        names = {"classes": json.dumps(classes.names)} if classes else {}
        onnx.helper.set_model_props(exported, {**(metadata or {}), **names})
        onnx.save(exported, temporary)
        error = validate_onnx(temporary, model, inputs)
        shapes_in, shapes_out = _shapes(exported.graph.input), _shapes(exported.graph.output)
        if classes:
            classes.check(number_of_classes(next(iter(shapes_out.values()))[1:], "the model"), "the model")
        return ExportRecord(
            opset=next(entry.version for entry in exported.opset_import if entry.domain in ("", "ai.onnx")),
            input_shape=next(iter(shapes_in.values())),
            nodes=len(exported.graph.node),
            size_bytes=temporary.stat().st_size,
            checked_batches=tuple(sorted({size for at in sizes_to_try(inputs) for size in inputs[0].shape(at)[:1]})),
            relative_error=error,
            inputs=shapes_in,
            outputs=shapes_out,
        )


def _shapes(values: Sequence[onnx.ValueInfoProto]) -> dict[str, tuple[int | str, ...]]:
    return {
        value.name: tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in values
    }


def simplify_onnx(source: str | Path, target: str | Path) -> None:
    """Fold constants and remove redundant nodes with onnxsim; the batch axis stays as it is.

    Raises:
        InputError: onnxsim fails or its result computes something else.
    """
    import onnxsim

    model = onnx.load(source)
    shapes = {
        name: [size if isinstance(size, int) else 2 for size in axes]
        for name, axes in _shapes(model.graph.input).items()
    }
    try:
        # without check_n onnxsim compares nothing and always agrees
        with contextlib.redirect_stdout(io.StringIO()):  # it reports every comparison
            simplified, agrees = onnxsim.simplify(model, check_n=1, test_input_shapes=shapes)
    except Exception as error:  # onnxsim raises bare RuntimeError and ONNX's own errors
        raise InputError(f"onnxsim cannot simplify {source}: {error}; export without --simplify") from error
    if not agrees:
        raise InputError(f"onnxsim changed what {source} computes; export without --simplify")
    onnx.save(simplified, target)


def validate_onnx(path: str | Path, model: torch.nn.Module, inputs: Sequence[ModelInput]) -> float:
    """Compare ONNX Runtime with PyTorch on fresh inputs at several sizes of every dynamic axis.

    Returns:
        the largest relative error (norm of the difference over norm of the output).

    Raises:
        InputError: the file breaks ONNX's rules, PyTorch's own output is not finite, or a relative error is above 1e-4
            (1e-2 for half precision).
    """
    try:
        onnx.checker.check_model(path, full_check=True)
        session = onnx_session(path)
    except Exception as error:  # onnx and onnxruntime have error classes of their own, without a common base
        raise InputError(f"the exported model is not valid ONNX: {' '.join(str(error).split())}") from error
    used = [value.name for value in session.get_inputs()]
    unused = [each.name for each in inputs if each.name not in used]
    if unused:
        raise InputError(f"the model does not use its input {unused[0]}, so the export lacks it; leave it out")
    return max(error for sizes in sizes_to_try(inputs) for error in _differences(session, model, inputs, sizes))


def _differences(
    session: onnxruntime.InferenceSession, model: torch.nn.Module, inputs: Sequence[ModelInput], sizes: dict[str, int]
) -> list[float]:
    """Return the relative error of every output at these sizes of the dynamic axes."""
    drawn = _values(inputs, sizes, seed=1000 + sum(sizes.values()))
    # unlike the traced example, to reach other branches of the model
    values = [-3 * value if value.is_floating_point() else value for value in drawn]
    expected = _outputs(model, values)
    try:
        found = session.run(None, {each.name: value.numpy() for each, value in zip(inputs, values, strict=True)})
    except Exception as error:  # onnxruntime has error classes of its own, without a common base
        at = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(
            f"the exported model fails at {at}: the trace kept a size as a constant ({one_line(error)[:160]}); "
            f"{_OTHER_EXPORTER}, or fix that axis"
        ) from error
    return [_difference(one, other.numpy()) for one, other in zip(found, expected, strict=True)]


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        raise InputError(
            f"the exported model gives {found.shape} where PyTorch gives {expected.shape}: the trace kept a size as a "
            f"constant; {_OTHER_EXPORTER}"
        )
    wrong = np.count_nonzero(~np.isfinite(expected))
    if wrong:
        raise InputError(
            f"PyTorch's own output is NaN or infinite in {wrong:,} of {expected.size:,} values on random "
            "inputs, so no export can be compared with it; look at the model's weights and masks"
        )
    allowed = 1e-2 if expected.dtype == np.float16 else 1e-4
    relative = relative_error(found.astype(np.float64), expected.astype(np.float64))
    if not relative <= allowed:
        raise InputError(
            f"the exported model differs from PyTorch: relative error {relative:.2e}, allowed {allowed:.0e}; "
            "control flow that depends on the data cannot be traced"
        )
    return relative


@contextlib.contextmanager
def _exporting(model: torch.nn.Module) -> Iterator[None]:
    """Have the model evaluate; silence the exporters' progress, warnings, and the graph that they print on failure."""
    with (
        contextlib.ExitStack() as undo,
        torch.no_grad(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        undo.callback(model.train, model.training)
        undo.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        undo.callback(logging.disable, logging.root.manager.disable)
        model.eval()
        torch.backends.mha.set_fastpath_enabled(False)  # one operator that ONNX does not have
        logging.disable(logging.WARNING)
        getattr(torch._C, "_jit_set_onnx_log_enabled", lambda enabled: None)(False)
        warnings.simplefilter("ignore")
        yield


def _export(model: torch.nn.Module, inputs: Sequence[ModelInput], path: Path, opset: int) -> None:
    sizes = {axis: size for each in inputs for axis, size in each.traced.items()}
    outputs = _output_axes(model, inputs, sizes)
    axes = {each.name: each.dynamic() for each in inputs}
    names = {"input_names": list(axes), "output_names": list(outputs), "opset_version": opset}
    # the symbolic sizes of an exported program cannot be traced again by TorchScript's exporter
    dynamo = isinstance(model, torch.fx.GraphModule) or opset > 20
    try:
        if dynamo:
            dims = {axis: torch.export.Dim(axis) for axis in sizes}
            shapes = tuple({place: dims[axis] for place, axis in places.items()} for places in axes.values())
            # torch.export takes an axis of 1 for a constant
            example = _values(inputs, {axis: max(2, size) for axis, size in sizes.items()})
            program = torch.onnx.export(model, example, dynamo=True, dynamic_shapes=shapes, **names)
            program.save(path, external_data=False)
        else:
            example = _values(inputs, sizes)
            torch.onnx.export(model, example, str(path), dynamo=False, dynamic_axes=axes | outputs, **names)
    except OSError:
        raise
    except Exception as error:  # every layer of PyTorch's exporters raises its own
        raise InputError(f"PyTorch cannot export this model at opset {opset}: {one_line(error)}") from error


def _output_axes(
    model: torch.nn.Module, inputs: Sequence[ModelInput], sizes: Mapping[str, int]
) -> dict[str, dict[int, str]]:
    """Return the dynamic axes of each output by its name: those that grow with an axis of an input.

    Raises:
        InputError: two runs on one input differ, so that no export can agree with such a model.
    """
    outputs, again = (_outputs(model, _values(inputs, sizes)) for _ in range(2))
    if not all(
        one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
        for one, other in zip(outputs, again, strict=True)
    ):
        raise InputError(
            "the model gives two answers for one input: it draws random numbers, or keeps something from call to call; "
            "make forward depend on its inputs only"
        )
    names = [f"{OUTPUT_NAME}_{index}" for index in range(len(outputs))] if len(outputs) > 1 else [OUTPUT_NAME]
    axes: dict[str, dict[int, str]] = {name: {} for name in names}
    for axis, size in sizes.items():
        larger = _outputs(model, _values(inputs, {**sizes, axis: 2 * size}))
        for name, before, after in zip(names, outputs, larger, strict=True):
            moved = [place for place, length in enumerate(before.shape) if after.shape[place] != length]
            axes[name] |= {place: axis if before.shape[place] == size else f"{name}_{place}" for place in moved}
    return axes


def _limited(model: torch.nn.Module, inputs: Sequence[ModelInput]) -> Sequence[ModelInput]:
    """Return the inputs; those that look up a table with the number of its rows as their limit."""
    if all(each.dtype.is_floating_point for each in inputs):
        return inputs
    sizes = sizes_to_try(inputs)[0]
    # every table has a row 0
    zeros = {each.name: torch.zeros(each.shape(sizes), dtype=each.dtype) for each in inputs}
    with Lookups(zeros) as lookups:
        _outputs(model, [*zeros.values()])
    return [replace(each, limit=lookups.rows.get(each.name)) for each in inputs]


def _values(inputs: Sequence[ModelInput], sizes: Mapping[str, int], seed: int = 0) -> tuple[torch.Tensor, ...]:
    return tuple(each.values(sizes, seed + index) for index, each in enumerate(inputs))


def _outputs(model: torch.nn.Module, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    try:
        found = model(*values)
    except Exception as error:  # whatever the model's layers raise for an input that they cannot take
        shapes = " and ".join(str(list(value.shape)) for value in values)
        raise InputError(f"the model cannot run on inputs of shape {shapes}: {one_line(error)}") from error
    parts = found.values() if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else [found]
    outputs = [part for part in parts if part is not None]
    wrong = [type(part).__name__ for part in outputs if not isinstance(part, torch.Tensor)]
    if wrong or not outputs:
        raise InputError(f"the model gives {(wrong or ['nothing'])[0]}; only tensors and lists of them can be exported")
    return outputs
