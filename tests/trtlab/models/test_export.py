"""Export: what the ONNX file says, that it agrees with PyTorch, and that nothing half-written stays."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from tests.trtlab.tiny_models import SIZE, TinyNet
from trtcpu.errors import InputError
from trtlab.models.export import export_onnx


def _dims(path: Path) -> list[list[int | str]]:
    graph = onnx.load(str(path)).graph
    values = [*graph.input, *graph.output]
    return [[dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values]


@pytest.mark.parametrize("simplify", [False, True])
def test_only_the_batch_axis_is_symbolic(tmp_path: Path, simplify: bool) -> None:
    record = export_onnx(TinyNet(), tmp_path / "m.onnx", input_size=SIZE, simplify=simplify)
    assert _dims(tmp_path / "m.onnx") == [["batch", 3, SIZE, SIZE], ["batch", 10]]
    graph = onnx.load(str(tmp_path / "m.onnx")).graph
    assert (graph.input[0].name, graph.output[0].name) == ("input", "output")
    assert record.input_shape == ("batch", 3, SIZE, SIZE) and record.checked_batches == (1, 2, 5)


def test_a_static_export_has_the_batch_that_was_asked_for(tmp_path: Path) -> None:
    export_onnx(TinyNet(), tmp_path / "m.onnx", dynamic_batch=False, batch_size=3, input_size=SIZE)
    assert _dims(tmp_path / "m.onnx") == [[3, 3, SIZE, SIZE], [3, 10]]


@pytest.mark.parametrize("opset", [11, 17, 18, 21])
def test_the_export_computes_what_pytorch_computes(tmp_path: Path, opset: int) -> None:
    model = TinyNet().eval()
    record = export_onnx(model, tmp_path / "m.onnx", opset=opset, input_size=SIZE)
    images = torch.rand(7, 3, SIZE, SIZE)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, {"input": images.numpy()})[0]
    np.testing.assert_allclose(found, model(images).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert onnx.load(str(tmp_path / "m.onnx")).opset_import[0].version == opset
    assert record.relative_error < 1e-5


def test_a_model_in_training_mode_is_exported_in_eval_mode_and_left_in_training(tmp_path: Path) -> None:
    model = TinyNet().train()
    export_onnx(model, tmp_path / "m.onnx", input_size=SIZE)
    assert model.training
    assert "BatchNormalization" not in {node.op_type for node in onnx.load(str(tmp_path / "m.onnx")).graph.node}


class _DependsOnData(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3)) * (1.0 if images.sum() > 0 else -1.0)


class _FixesTheBatch(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :10] * len(images)


class _ReturnsNoTensor(nn.Module):
    def forward(self, images: torch.Tensor) -> str:
        return "images"


class _DrawsNumbers(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3)) + torch.randn(len(images), 3)


class _ReturnsNoneToo(nn.Module):
    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, None]:
        return images.mean(dim=(2, 3)), None


def test_what_is_none_of_several_outputs_is_left_out(tmp_path: Path) -> None:
    record = export_onnx(_ReturnsNoneToo(), tmp_path / "m.onnx", input_size=SIZE)
    assert list(record.outputs) == ["output"] and record.relative_error < 1e-4


def test_random_numbers_are_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two answers for one input: it draws random numbers"):
        export_onnx(_DrawsNumbers(), tmp_path / "m.onnx", input_size=SIZE)


@pytest.mark.parametrize("model", [_DependsOnData(), _FixesTheBatch(), _ReturnsNoTensor()])
def test_a_model_that_tracing_cannot_capture_leaves_no_file(tmp_path: Path, model: nn.Module) -> None:
    with pytest.raises(InputError):
        export_onnx(model, tmp_path / "m.onnx", input_size=SIZE)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_keeps_the_previous_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"previous")
    with pytest.raises(InputError):
        export_onnx(_DependsOnData(), tmp_path / "m.onnx", input_size=SIZE)
    assert (tmp_path / "m.onnx").read_bytes() == b"previous"


@pytest.mark.parametrize(
    "options, text",
    [({"opset": 5}, "opset 5"), ({"batch_size": 0}, "batch size of 0"), ({"input_size": 0}, "0 pixels")],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict, text: str) -> None:
    with pytest.raises(InputError, match=text):
        export_onnx(TinyNet(), tmp_path / "m.onnx", **options)


def test_an_image_too_small_for_the_model_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot run on images of shape \[1, 3, 2, 2\]") as caught:
        export_onnx(nn.Conv2d(3, 4, 7), tmp_path / "m.onnx", input_size=2)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot write .*file/m.onnx"):
        export_onnx(TinyNet(), tmp_path / "file" / "m.onnx", input_size=SIZE)
