"""Forms of operators that OpenVINO reads wrongly, on the CPU engine; ONNX Runtime is the oracle."""

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, helper

from tests.others.engine import RefusedError
from tests.trtcpu.graphs import FLOAT, model, results

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def _compare(node: NodeProto, x: np.ndarray, opset: int, **weights: np.ndarray) -> None:
    data = model([node], {"x": (FLOAT, ["a", "b", "c"])}, {"y": (FLOAT, None)}, weights, opset)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = results(data, x=x)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [10, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_before_opset_13_is_one_over_all_dimensions_from_its_axis_on(axis: int, opset: int) -> None:
    axis = axis if opset > 10 else axis % 3
    _compare(helper.make_node("Softmax", ["x"], ["y"], axis=axis), X, opset)


@pytest.mark.parametrize("opset", [12, 13, 17])
@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"])
def test_reduction_is_along_its_axes(operator: str, opset: int) -> None:
    for keepdims in (0, 1):
        node = helper.make_node(operator, ["x"], ["y"], axes=[0, -1], keepdims=keepdims)
        _compare(node, np.abs(X), opset)


def test_log_of_a_sum_of_large_powers_is_finite_and_of_none_minus_infinity() -> None:
    x = np.float32([[[200, 100], [-np.inf, -np.inf], [np.inf, 1]]])
    _compare(helper.make_node("ReduceLogSumExp", ["x"], ["y"], axes=[2]), x, 13)


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel, stride", [(2, 1), (3, 2), (2, 3)])
def test_transposed_convolution_of_any_size_is_padded_to_the_same(padding: str, kernel: int, stride: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=padding, strides=[stride])
    w = np.random.default_rng(1).normal(size=(3, 2, kernel)).astype(np.float32)
    _compare(node, X, 17, w=w)


@pytest.mark.parametrize("size", [6, 7, 10])  # 9 without padding
def test_transposed_convolution_is_padded_for_the_size_that_it_shall_have(size: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[size], strides=[2])
    weights = {"w": np.random.default_rng(1).normal(size=(3, 2, 3)).astype(np.float32)}
    data = model([node], {"x": (FLOAT, ["a", 3, 4])}, {"y": (FLOAT, None)}, weights)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]
    np.testing.assert_allclose(results(data, x=X)["y"], expected, atol=1e-6)


def test_transposed_convolution_whose_padding_is_not_known_is_refused() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[7], strides=[2])
    data = model([node], {"x": (FLOAT, [1, 3, "n"])}, {"y": (FLOAT, None)}, {"w": np.ones((3, 2, 3), np.float32)})
    with pytest.raises(RefusedError, match="its input has a fixed size"):
        results(data, x=X[:1])
