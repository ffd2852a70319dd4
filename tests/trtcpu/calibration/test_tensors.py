"""Which tensors are calibrated, against the caches that TensorRT 8.6 wrote."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.benchmarks.fidelity import RECORDING, recorded_network
from tests.trtcpu.calibration.models import classifier, graph, reshaping
from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.calibration.tensors import calibration_plan
from trtcpu.calibration_cache import parse_cache

ENTROPY_2 = CalibrationAlgoType.ENTROPY_CALIBRATION_2
ENTROPY = CalibrationAlgoType.ENTROPY_CALIBRATION
MINMAX = CalibrationAlgoType.MINMAX_CALIBRATION
LEGACY = CalibrationAlgoType.LEGACY_CALIBRATION


@pytest.fixture(scope="module")
def resnet() -> onnx.ModelProto:
    return onnx.load_from_string(recorded_network())


@pytest.mark.parametrize(("file", "algorithm"), [("entropy2", ENTROPY_2), ("entropy1", ENTROPY), ("minmax", MINMAX)])
def test_resnet50_has_the_recorded_names_in_the_recorded_order(
    resnet: onnx.ModelProto, file: str, algorithm: CalibrationAlgoType
) -> None:
    recorded = parse_cache((RECORDING / f"{file}.cache").read_bytes()).scales
    assert [tensor.name for tensor in calibration_plan(resnet, algorithm).tensors] == list(recorded)


def test_legacy_calibrates_what_is_left_after_fusion_as_entropy_does(resnet: onnx.ModelProto) -> None:
    assert calibration_plan(resnet, LEGACY).names == calibration_plan(resnet, ENTROPY).names


def test_max_pool_takes_its_inputs_scale_only_with_entropy_2() -> None:
    sources = {a: {t.name: t for t in calibration_plan(classifier(), a).tensors} for a in (ENTROPY_2, ENTROPY, MINMAX)}
    assert sources[ENTROPY_2]["pool"].same_scale and sources[ENTROPY_2]["pool"].source == "relu"
    assert not sources[ENTROPY]["pool"].same_scale and not sources[MINMAX]["pool"].same_scale


def test_observed_tensors_leave_out_inputs_constants_and_shared_scales() -> None:
    assert calibration_plan(classifier(), ENTROPY_2).observed == ("conv", "y")
    assert calibration_plan(classifier(), ENTROPY).observed == ("relu", "pool", "y")


@pytest.mark.parametrize(("batch", "flatten_layers"), [("batch", 6), (4, 1)])
def test_unnamed_layers_are_numbered_after_all_layers_before_them(batch: int | str, flatten_layers: int) -> None:
    unnamed = [t.name for t in calibration_plan(classifier(batch), MINMAX).tensors if t.name.startswith("(")]
    first = 3 + flatten_layers
    assert unnamed[0] == f"(Unnamed Layer* {first}) [Constant]_output"
    assert unnamed[1:] == [
        f"(Unnamed Layer* {first + 1}) [Matrix Multiply]_output",
        f"(Unnamed Layer* {first + 2}) [Constant]_output",
        f"(Unnamed Layer* {first + 3}) [Shuffle]_output",
    ]


def test_integer_tensors_and_folded_constants_are_left_out() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Neg", ["c"], ["folded"]),
        helper.make_node("Add", ["x", "folded"], ["sum"]),
        helper.make_node("Reshape", ["sum", "shape"], ["y"]),
    ]
    model = graph(nodes, {"x": ["n", 4]}, ["y"], {"c": np.ones(4, np.float32)})
    assert calibration_plan(model, MINMAX).names == ["x", "sum", "y"]


def test_a_tensor_that_two_layers_read_survives_fusion() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], kernel_shape=[1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Add", ["conv", "relu"], ["y"]),
    ]
    model = graph(nodes, {"x": ["n", 3, 4, 4]}, ["y"], {"w": np.ones((3, 3, 1, 1), np.float32)})
    assert calibration_plan(model, ENTROPY).names == ["x", "conv", "relu", "y"]


@pytest.mark.parametrize(("strides", "gone"), [((1, 1), "b"), ((1, 2), "a"), ((2, 2), None)])
def test_the_last_convolution_of_stride_one_takes_the_residual_add_in(strides: tuple[int, int], gone: str) -> None:
    """Seen of ResNet-50: the first block's downsampling has stride 1 and takes the add in; the others have 2."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], [name], kernel_shape=[1, 1], strides=[stride, stride])
        for name, stride in zip("ab", strides, strict=True)
    ]
    nodes += [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
    model = graph(nodes, {"x": ["n", 3, 4, 4]}, ["y"], {"w": np.ones((3, 3, 1, 1), np.float32)})
    assert set("ab") - set(calibration_plan(model, ENTROPY).names) == ({gone} if gone else set())
    assert "sum" not in calibration_plan(model, ENTROPY).names


def test_image_bytes_count_every_observed_float_of_one_image(resnet: onnx.ModelProto) -> None:
    assert calibration_plan(classifier(), ENTROPY).image_bytes == 4 * (4 * 8 * 8 + 4 * 4 * 4 + 5)
    assert calibration_plan(classifier(4), ENTROPY).image_bytes is None
    assert calibration_plan(reshaping(), MINMAX).image_bytes is None
    assert 50e6 < calibration_plan(resnet, ENTROPY_2).image_bytes < 120e6


@pytest.mark.parametrize(("least", "masked"), [(-np.inf, True), (np.finfo(np.float32).min, True), (-1e4, False)])
def test_a_mask_is_followed_from_its_constant_to_the_softmax(least: float, masked: bool) -> None:
    nodes = [
        helper.make_node("Sub", ["one", "valid"], ["padding"]),
        helper.make_node("Mul", ["padding", "least"], ["mask"]),
        helper.make_node("Add", ["scores", "mask"], ["sum"]),
        helper.make_node("Softmax", ["sum"], ["shares"], axis=-1),
        helper.make_node("Add", ["shares", "scores"], ["y"]),
    ]
    constants = {"one": np.ones((), np.float32), "least": np.array(least, np.float32)}
    model = graph(nodes, {"scores": ["n", 4], "valid": ["n", 4]}, ["y"], constants)
    found = {tensor.name for tensor in calibration_plan(model, MINMAX).tensors if tensor.masked}
    assert found == ({"mask", "sum"} if masked else set())
