"""What the parser refuses, by node, and what it writes out; ONNX Runtime and NumPy are the oracles."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.trtcpu.graphs import FLOAT, INT64, model, refusal, results
from trtcpu import tensorrt as trt
from trtcpu.builder.operators import supported

X = {"x": (FLOAT, [1, 1, 4, 4])}
NODES = {
    "not known": helper.make_node("Det", ["x"], ["y"], "one"),
    "no rule here": helper.make_node("STFT", ["x", "step"], ["y"], "one"),
    "attribute": helper.make_node("Resize", ["x", "", "s"], ["y"], "one", mode="linear", antialias=1),
    "attribute of a list": helper.make_node("MaxPool", ["x"], ["y"], "one", kernel_shape=[2, 2], dilations=[2, 2]),
    "second output": helper.make_node("MaxPool", ["x"], ["y", "places"], "one", kernel_shape=[2, 2]),
    "type": helper.make_node("Cast", ["x"], ["y"], "one", to=TensorProto.FLOAT8E4M3FN),
    "zero point": helper.make_node("QuantizeLinear", ["x", "scale", "five"], ["y"], "one"),
    "zero point of a run": helper.make_node("QuantizeLinear", ["x", "scale", "step"], ["y"], "one"),
    "bias": helper.make_node("DequantizeLinear", ["bias", "scale"], ["y"], "one"),
    "input as operand": helper.make_node("Tile", ["x", "step"], ["y"], "one"),
    "axes that are an input": helper.make_node("Slice", ["x", "bounds", "bounds", "step"], ["y"], "one"),
    "input of a layer": helper.make_node("LSTM", ["x", "a", "b", "", "", "", "", "p"], ["y"], "one"),
}
WEIGHTS = {
    "s": np.float32([1, 1, 2, 2]),
    "scale": np.float32(1),
    "five": np.int8(5),
    "bias": np.int32([1]),
    "bounds": np.int64([0, 0, 0, 1]),
}


@pytest.mark.parametrize("kind", NODES)
def test_node_is_refused_by_place_name_and_operator(kind: str) -> None:
    first = helper.make_node("Relu", ["x"], ["r"], "first")
    inputs = X | {"step": (INT64, [4])}
    error = refusal(model([first, NODES[kind]], inputs, {"y": (FLOAT, None)}, WEIGHTS, opset=19))
    assert (error.node(), error.node_name(), error.node_operator()) == (1, "one", NODES[kind].op_type)
    assert error.code() not in (trt.ErrorCode.SUCCESS, trt.ErrorCode.INTERNAL_ERROR) and error.desc()


def test_node_inside_a_branch_is_refused_with_the_place_of_its_owner() -> None:
    body = helper.make_graph(
        [helper.make_node("Det", ["x"], ["d"], "inside")], "b", [], [helper.make_tensor_value_info("d", FLOAT, None)]
    )
    owner = helper.make_node("If", ["c"], ["y"], "owner", then_branch=body, else_branch=body)
    error = refusal(model([owner], X | {"c": (TensorProto.BOOL, [])}, {"y": (FLOAT, None)}))
    assert (error.node(), error.node_name(), error.node_operator()) == (0, "inside", "Det")


@pytest.mark.parametrize("kind", [TensorProto.INT16, TensorProto.UINT32, TensorProto.STRING])
def test_type_that_tensorrt_lacks_is_refused_by_name(kind: int) -> None:
    error = refusal(model([helper.make_node("Identity", ["x"], ["y"])], {"x": (kind, [2])}, {"y": (kind, [2])}))
    assert TensorProto.DataType.Name(kind) in error.desc() and error.code() == trt.ErrorCode.UNSUPPORTED_NODE_DATATYPE


def test_supports_operator_says_what_the_table_says() -> None:
    parser = trt.OnnxParser(trt.Builder(trt.Logger()).create_network(0), trt.Logger())
    assert {"Conv", "LSTM", "If"} <= supported() and supported().isdisjoint({"Det", "STFT", "DeformConv"})
    assert parser.supports_operator("Conv") and not parser.supports_operator("Col2Im")


def test_supports_model_tells_the_parts_that_can_be_parsed() -> None:
    nodes = [
        helper.make_node(kind, [a], [b]) for kind, a, b in (("Relu", "x", "a"), ("Det", "a", "b"), ("Abs", "b", "y"))
    ]
    parser = trt.OnnxParser(trt.Builder(trt.Logger()).create_network(0), trt.Logger())
    assert parser.supports_model_v2(model(nodes, X, {"y": (FLOAT, None)})) is False
    parts = [(parser.is_subgraph_supported(i), parser.get_subgraph_nodes(i)) for i in range(parser.num_subgraphs)]
    assert parts == [(True, [0]), (False, [1]), (True, [2])]


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_is_what_onnx_runtime_computes(interleaved: int) -> None:
    random = np.random.default_rng(0)
    feeds = {"x": random.random((2, 4, 3, 8), np.float32), "p": random.integers(0, 50, (2, 3))}
    tables = {name: random.random((50, 4), np.float32) for name in "cs"}
    node = helper.make_node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], interleaved=interleaved)
    shapes = {"x": (FLOAT, [2, 4, 3, 8]), "p": (INT64, [2, 3])}
    data = model([node], shapes, {"y": (FLOAT, [2, 4, 3, 8])}, tables, opset=23)
    (expected,) = onnxruntime.InferenceSession(data).run(None, feeds)
    np.testing.assert_allclose(results(data, **feeds)["y"], expected, atol=1e-6)
