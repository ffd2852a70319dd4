"""What OpenVINO would get wrong; NumPy and ONNX Runtime are the oracles."""

from unittest import mock

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.others.engine import RefusedError
from tests.trtcpu.graphs import FLOAT, INT64, model, results
from trtcpu import _openvino


@pytest.mark.parametrize("operator, infinity", [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_row_of_infinities_has_an_infinite_extreme(operator: str, infinity: float) -> None:
    nodes = [
        helper.make_node("Where", ["m", "x", "out"], ["w"]),
        helper.make_node(operator, ["w"], ["y"], axes=[1], keepdims=0),
    ]
    inputs = {"m": (TensorProto.BOOL, [2, 3]), "x": (FLOAT, [2, 3])}
    data = model(nodes, inputs, {"y": (FLOAT, [2])}, {"out": np.float32(infinity)})
    mask, x = np.array([[True, True, False], [False] * 3]), np.float32([[1, 1, 1], [2, 2, 2]])
    np.testing.assert_array_equal(results(data, m=mask, x=x)["y"], [1, infinity])


def test_equal_values_keep_their_order_in_topk() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    data = model([node], {"x": (FLOAT, [1, 6])}, {"v": (FLOAT, [1, 4]), "i": (INT64, [1, 4])}, {"k": np.array([4])})
    x = np.float32([[2, 3, 3, 1, 3, 2]])
    np.testing.assert_array_equal(results(data, x=x)["i"], np.argsort(-x, kind="stable")[:, :4])


@pytest.mark.parametrize("operator", ["Identity", "Sum", "Max", "Dropout"])
def test_input_that_is_handed_on_keeps_its_values_for_every_output(operator: str) -> None:
    nodes = [helper.make_node(operator, ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    x = np.float32([[3, 2, 1]])
    found = results(model(nodes, {"x": (FLOAT, [1, 3])}, {"y": (FLOAT, [1, 3]), "z": (FLOAT, [1, 3])}), x=x)
    np.testing.assert_array_equal(found["y"], x)
    np.testing.assert_array_equal(found["z"], -x)


def test_input_that_is_an_output_under_its_own_name_is_not_built() -> None:
    data = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, {"y": (FLOAT, [2]), "x": (FLOAT, [2])})
    with pytest.raises(RefusedError, match="Network input x is an output too"):
        results(data, x=np.float32([1, 2]))


def test_scalar_that_an_allocator_takes_stays_a_scalar() -> None:
    node = helper.make_node("MatMul", ["x", "y"], ["z"])
    data = model([node], {"x": (FLOAT, [3]), "y": (FLOAT, [3])}, {"z": (FLOAT, [])})
    found = results(data, x=np.float32([1, 2, 3]), y=np.float32([1, 1, 1]))["z"]
    assert found.shape == () and found == 6


def test_boxes_that_overlap_by_exactly_the_threshold_both_stay() -> None:
    weights = {"most": np.array([3]), "iou": np.float32([0.5]), "score": np.float32([0])}
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", *weights], ["y"])
    inputs = {"boxes": (FLOAT, [1, 2, 4]), "scores": (FLOAT, [1, 1, 2])}
    data = model([node], inputs, {"y": (INT64, ["n", 3])}, weights)
    boxes = np.float32([[[0, 0, 1, 1], [0, 0, 1, 0.5]]])  # the second is half of the first
    found = results(data, boxes=boxes, scores=np.float32([[[0.9, 0.8]]]))["y"]
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 0, 1]])


OUTPUT = {"y": (FLOAT, None)}
POOL = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)


def test_pool_whose_size_is_rounded_up_has_no_window_beyond_its_input() -> None:
    data = model([POOL], {"x": (FLOAT, [1, 1, "h", 2])}, {"y": (FLOAT, [1, 1, "i", 1])}, opset=22)
    x = np.float32([[[[1, 2], [3, 4]]]])
    np.testing.assert_array_equal(results(data, x=x)["y"], [[[[1]]]])


def test_pool_whose_size_is_rounded_otherwise_is_not_built() -> None:
    data = model([POOL], {"x": (FLOAT, [1, 1, 2, 2])}, {"y": (FLOAT, [1, 1, 2, 2])}, opset=17)
    with pytest.raises(RefusedError, match=r"OpenVINO gives tensor y the shape \[1,1,1,1\], ONNX \[1, 1, 2, 2\]"):
        results(data, x=np.ones((1, 1, 2, 2), np.float32))


def test_average_rounded_up_counts_only_what_lies_in_the_padded_input() -> None:
    how = {"strides": [2], "ceil_mode": 1, "count_include_pad": 1}
    inputs, x = {"x": (FLOAT, [1, 1, 4])}, np.float32([[[1, 2, 3, 5]]])

    def found(**more: list[int]) -> np.ndarray:
        return results(model([helper.make_node("AveragePool", ["x"], ["y"], **how, **more)], inputs, OUTPUT), x=x)["y"]

    np.testing.assert_array_equal(found(kernel_shape=[3]), [[[2, 4]]])
    np.testing.assert_allclose(found(kernel_shape=[4], pads=[1, 0]), [[[1.5, 10 / 3]]], rtol=1e-6)
    np.testing.assert_array_equal(found(kernel_shape=[2], pads=[1, 1]), [[[0.5, 2.5, 2.5]]])
    with pytest.raises(RefusedError, match="counts padding and is rounded up"):
        found(kernel_shape=[2], pads=[0, 1])


@pytest.mark.parametrize("operator, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layer_of_several_sequences_reads_them_along_their_axis(operator: str, gates: int) -> None:
    random = np.random.default_rng(0)
    weights = {"w": random.normal(size=(1, gates * 3, 2)), "r": random.normal(size=(1, gates * 3, 3))}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    nodes = [
        helper.make_node(operator, ["x", "w", "r"], ["all"], hidden_size=3),
        helper.make_node("Squeeze", ["all", "axis"], ["y"]),
    ]
    data = model(
        nodes, {"x": (FLOAT, ["s", "n", 2])}, {"y": (FLOAT, ["s", "n", 3])}, {**weights, "axis": np.array([1])}
    )
    x = random.normal(size=(4, 3, 2)).astype(np.float32)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(results(data, x=x)["y"], expected, atol=1e-5)


def test_plan_is_compared_on_sizes_above_one_where_they_may_be() -> None:
    data = model([helper.make_node("Exp", ["x"], ["y"])], {"x": (FLOAT, ["n", "m", 1])}, {"y": (FLOAT, ["n", "m", 1])})
    bounds = [(1, 4), (3, 4), (1, 1)]
    assert [one.shape for one in _openvino.compile_model(data, "f32", {"x": bounds}).sample()] == [(2, 3, 1)]


def test_lrn_takes_a_bias_that_is_no_integer() -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=1, alpha=0.5, beta=0.75, bias=1.5)
    x = np.float32([[[[1, 2]], [[3, -4]]]])
    data = model([node], {"x": (FLOAT, [1, 2, 1, 2])}, {"y": (FLOAT, [1, 2, 1, 2])})
    np.testing.assert_allclose(results(data, x=x)["y"], x / (1.5 + 0.5 * x**2) ** 0.75, rtol=1e-5)


def test_plan_that_computes_something_else_once_loaded_is_not_built() -> None:
    data = model([helper.make_node("Exp", ["x"], ["y"])], {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])})
    other = _openvino.compile_model(
        model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])}), "f32", {"x": [(4, 4)]}
    )
    with (
        mock.patch.object(_openvino, "import_model", return_value=other),
        pytest.raises(RefusedError, match="computes something else"),
    ):
        results(data, x=np.ones(4, np.float32))
