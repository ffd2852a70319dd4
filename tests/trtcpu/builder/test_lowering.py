"""Lowering: names, outputs and symbolic output shapes; ONNX Runtime and the engine's own run are the oracles."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtcpu import cuda
from trtcpu import tensorrt as trt
from trtcpu.builder import lowering

LOGGER = trt.Logger(trt.Logger.ERROR)


def _model(nodes: list[onnx.NodeProto], inputs: dict, outputs: dict, weights: list = ()) -> bytes:
    def values(shapes: dict) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    graph = helper.make_graph(nodes, "net", values(inputs), values(outputs), weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def _parsed(data: bytes) -> tuple[trt.Builder, trt.INetworkDefinition]:
    builder = trt.Builder(LOGGER)
    network = builder.create_network()
    assert trt.OnnxParser(network, LOGGER).parse(data)
    return builder, network


def _context(builder: trt.Builder, network: trt.INetworkDefinition, shapes: dict) -> trt.IExecutionContext:
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    for name, (low, opt, high) in shapes.items():
        profile.set_shape(name, low, opt, high)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    return trt.Runtime(LOGGER).deserialize_cuda_engine(plan).create_execution_context()


def _run(context: trt.IExecutionContext, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    engine, keep, outputs = context.engine, [], {}
    for name, array in feeds.items():
        assert context.set_input_shape(name, array.shape)
        keep.append(cuda.mem_alloc(array.nbytes))
        cuda.memcpy_htod(keep[-1], array)
        context.set_tensor_address(name, int(keep[-1]))
    for name in (engine.get_tensor_name(i) for i in range(engine.num_io_tensors)):
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            outputs[name] = np.empty(tuple(context.get_tensor_shape(name)), np.float32)
            keep.append(cuda.mem_alloc(max(outputs[name].nbytes, 1)))
            context.set_tensor_address(name, int(keep[-1]))
    stream = cuda.Stream()
    assert context.execute_async_v3(stream.handle)
    stream.synchronize()
    for name, array in outputs.items():
        cuda.memcpy_dtoh(array, context.get_tensor_address(name))
    return outputs


FLATTEN = _model(
    [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Flatten", ["r"], ["y"], "flatten")],
    {"x": ["N", 2, "H", 4]},
    {"y": ["N", "F"]},
)


def test_a_batch_that_passes_through_is_known_before_running() -> None:
    model = onnx.load_from_string(FLATTEN)
    assert lowering.inferred_shapes(model)["y"][0] == ["x", 0]
    assert lowering.inferred_shapes(model)["y"][1] == -1


def test_a_shape_that_the_graph_does_not_tell_is_found_by_running() -> None:
    builder, network = _parsed(FLATTEN)
    context = _context(builder, network, {"x": ((1, 2, 1, 4), (2, 2, 3, 4), (4, 2, 5, 4))})
    data = np.random.default_rng(0).normal(size=(3, 2, 5, 4)).astype(np.float32)
    assert context.set_input_shape("x", data.shape)
    assert tuple(context.get_tensor_shape("y")) == (3, 40)
    found = _run(context, {"x": data})["y"]
    expected = onnxruntime.InferenceSession(FLATTEN, providers=["CPUExecutionProvider"]).run(None, {"x": data})[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("opset", [10, 17])
def test_a_slice_whose_bounds_are_constants_has_its_own_size(opset: int) -> None:
    bounds = {"low": [1], "high": [2**31 - 1], "axes": [2]}
    made = [
        helper.make_node("Constant", [], [n], value=numpy_helper.from_array(np.int64(v))) for n, v in bounds.items()
    ]
    nodes = [*made, helper.make_node("Slice", ["x", *bounds], ["y"], "slice")]
    model = onnx.load_from_string(_model(nodes, {"x": [1, 2, "N"]}, {"y": [1, 2, "M"]}))
    model.opset_import[0].version = opset
    context = _context(*_parsed(model.SerializeToString()), {"x": ((1, 2, 3), (1, 2, 3), (1, 2, 6))})
    data = np.arange(10, dtype=np.float32).reshape(1, 2, 5)
    np.testing.assert_array_equal(_run(context, {"x": data})["y"], data[..., 1:])


def test_renamed_inputs_and_outputs_are_the_engines_names() -> None:
    builder, network = _parsed(FLATTEN)
    network.get_input(0).name, network.get_output(0).name = "pixels", "features"
    context = _context(builder, network, {"pixels": ((1, 2, 1, 4), (1, 2, 1, 4), (2, 2, 2, 4))})
    data = -np.ones((1, 2, 2, 4), np.float32)
    outputs = _run(context, {"pixels": data})
    assert list(outputs) == ["features"]
    assert (outputs["features"] == 0).all()


def test_a_marked_intermediate_tensor_becomes_an_output() -> None:
    weight = numpy_helper.from_array(np.full((2, 2, 1, 1), 0.5, np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    data = _model(nodes, {"x": ["N", 2, 3, 3]}, {"y": ["N", 2, 3, 3]}, [weight])
    builder, network = _parsed(data)
    network.mark_output(network.get_layer(0).get_output(0))
    context = _context(builder, network, {"x": ((1, 2, 3, 3),) * 3})
    sample = np.random.default_rng(1).normal(size=(1, 2, 3, 3)).astype(np.float32)
    outputs = _run(context, {"x": sample})
    expected = np.broadcast_to(sample.sum(axis=1, keepdims=True) / 2, sample.shape)
    np.testing.assert_allclose(outputs["c"], expected, atol=1e-6)
    np.testing.assert_allclose(outputs["y"], np.maximum(expected, 0), atol=1e-6)


def test_an_input_shape_set_on_the_network_fixes_the_engine() -> None:
    builder, network = _parsed(FLATTEN)
    network.get_input(0).shape = (2, 2, 3, 4)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(LOGGER).deserialize_cuda_engine(plan)
    assert tuple(engine.get_tensor_shape("x")) == (2, 2, 3, 4)
    assert tuple(engine.get_tensor_shape("y")) == (2, 24)


def _layer_of(weight: onnx.NodeProto) -> onnx.ModelProto:
    """Return x [N, 4] times a weight that `weight`, a node, makes of the initializer "w" [4, 3] or [3, 4]."""
    stored = np.random.default_rng(4).normal(size=(3, 4) if weight.op_type == "Transpose" else (4, 3))
    nodes = [weight, helper.make_node("MatMul", ["x", "made"], ["y"], "product")]
    weights = [] if weight.op_type == "Constant" else [numpy_helper.from_array(stored.astype(np.float32), "w")]
    return onnx.load_from_string(_model(nodes, {"x": ["N", 4]}, {"y": ["N", 3]}, weights))


CONSTANT = numpy_helper.from_array(np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32))


@pytest.mark.parametrize(
    "weight",
    [
        helper.make_node("Transpose", ["w"], ["made"], "turn"),
        helper.make_node("Transpose", ["w"], ["made"], "turn", perm=[1, 0]),
        helper.make_node("Identity", ["w"], ["made"], "same"),
        helper.make_node("Constant", [], ["made"], "constant", value=CONSTANT),
    ],
    ids=["transposed", "transposed by perm", "passed on", "a constant"],
)
def test_a_weight_that_a_node_makes_is_the_layers_weight(weight: onnx.NodeProto) -> None:
    model = _layer_of(weight)
    _, network = _parsed(model.SerializeToString())
    lowered = lowering.lowered(network)
    assert [node.op_type for node in lowered.graph.node] == ["MatMul"]
    assert [tensor.name for tensor in lowered.graph.initializer] == ["made"]
    data = np.random.default_rng(6).normal(size=(2, 4)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, {"x": data}
        )
        for each in (model, lowered)
    )
    np.testing.assert_array_equal(before[0], after[0])


def test_a_transposed_activation_stays_a_layer() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"], "turn"), helper.make_node("Relu", ["t"], ["y"], "relu")]
    _, network = _parsed(_model(nodes, {"x": ["N", 4]}, {"y": [4, "N"]}))
    assert [node.name for node in lowering.lowered(network).graph.node] == ["turn", "relu"]
