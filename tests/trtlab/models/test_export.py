"""Export: what the ONNX file says, that it agrees with PyTorch, and that nothing half-written stays."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from helpers.tools.outputs import onnx_outputs
from tests.trtlab.tiny_models import SIZE, TinyNet
from trtcpu.errors import InputError
from trtlab.models.export import export_onnx


@pytest.mark.parametrize(
    "options, batch, checked",
    [
        ({}, "batch", (1, 2, 5)),
        ({"simplify": True}, "batch", (1, 2, 5)),
        ({"dynamic_batch": False, "batch_size": 3}, 3, (3,)),
    ],
)
def test_only_the_batch_axis_is_symbolic(
    tmp_path: Path, options: dict, batch: int | str, checked: tuple[int, ...]
) -> None:
    record = export_onnx(TinyNet(), tmp_path / "m.onnx", input_size=SIZE, **options)
    assert (record.inputs, record.outputs) == ({"input": (batch, 3, SIZE, SIZE)}, {"output": (batch, 10)})
    assert record.input_shape == (batch, 3, SIZE, SIZE) and record.checked_batches == checked


@pytest.mark.parametrize("opset", [11, 17, 18, 21])
def test_the_export_computes_what_pytorch_computes(tmp_path: Path, opset: int) -> None:
    model = TinyNet().eval()
    record = export_onnx(model, tmp_path / "m.onnx", opset=opset, input_size=SIZE)
    images = torch.rand(7, 3, SIZE, SIZE)
    found = onnx_outputs((tmp_path / "m.onnx").read_bytes(), images.numpy())
    np.testing.assert_allclose(found, model(images).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert onnx.load(tmp_path / "m.onnx").opset_import[0].version == opset == record.opset
    assert record.relative_error < 1e-5


def test_a_model_in_training_mode_is_exported_in_eval_mode_and_left_in_training(tmp_path: Path) -> None:
    model = TinyNet().train()
    export_onnx(model, tmp_path / "m.onnx", input_size=SIZE)
    assert model.training
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}


class Of(nn.Module):
    """A model of one function."""

    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.forward = function


def test_what_is_none_of_several_outputs_is_left_out(tmp_path: Path) -> None:
    record = export_onnx(Of(lambda images: (images.mean(dim=(2, 3)), None)), tmp_path / "m.onnx", input_size=SIZE)
    assert list(record.outputs) == ["output"] and record.relative_error < 1e-4


@pytest.mark.parametrize(
    "model, options, said",
    [
        (
            Of(lambda x: x.mean(dim=(2, 3)) * (1.0 if x.sum() > 0 else -1.0)),
            {},
            "differs from PyTorch: .*control flow that depends on the data",
        ),
        (Of(lambda x: x.flatten(1)[:, :10] * len(x)), {}, "differs from PyTorch"),
        (Of(lambda x: "images"), {}, "the model gives str; only tensors"),
        (
            Of(lambda x: x.mean(dim=(2, 3)) + torch.randn(len(x), 3)),
            {},
            "two answers for one input: it draws random numbers",
        ),
        (nn.Conv2d(3, 4, 2 * SIZE), {}, rf"cannot run on inputs of shape \[1, 3, {SIZE}, {SIZE}\]"),
        (TinyNet(), {"opset": 5}, "the exported model is not valid ONNX"),
        (TinyNet(), {"batch_size": 0}, "input input cannot be 0x3x32x32; sizes are 1 or more"),
    ],
)
def test_a_model_that_cannot_be_exported_is_one_line_and_keeps_the_previous_file(
    tmp_path: Path, model: nn.Module, options: dict, said: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"previous")
    with pytest.raises(InputError, match=said) as caught:
        export_onnx(model, tmp_path / "m.onnx", input_size=SIZE, **options)
    assert "\n" not in str(caught.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"previous"]
