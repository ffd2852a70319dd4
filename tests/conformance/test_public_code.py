"""What code that others wrote leans on: unusual graphs, outputs sized by data, names asked for with hasattr."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from helpers.engine.backend import network_flags, trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    VERSION,
    Buffers,
    build,
    captured,
    load,
    needs,
    refused_on_cpu,
    run,
    warnings_in,
)

X = np.array([[3, 0, 1]], np.float32)


def graph(nodes: list, outputs: dict[str, list], weights: dict[str, np.ndarray] | None = None, **more: Any) -> bytes:
    """Return a model of these nodes on x [1,3] and what else is given by name and shape; `kinds` are types by name."""
    inputs = {"x": [1, 3], **more.get("inputs", {})}
    kinds = more.get("kinds", {})
    made = helper.make_graph(
        nodes,
        "public",
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opset = [helper.make_opsetid("", more.get("opset", 17))]
    return helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString()


def refused(model: bytes) -> Any:
    """Return the first error of a model that must not parse."""
    builder = trt.Builder(LOG)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, LOG)
    assert parser.parse(model) is False and parser.num_errors
    return parser.get_error(0)


def test_input_that_nothing_reads_stays_an_input_of_the_engine() -> None:
    model = graph([helper.make_node("Relu", ["x"], ["y"], "relu")], {"y": [1, 3]}, inputs={"mask": [1, 3]})
    engine = load(build(model))
    assert "mask" in [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    np.testing.assert_array_equal(run(engine.serialize(), x=X, mask=X), X)


def test_one_operand_sum_beside_another_reader_of_the_input() -> None:
    nodes = [helper.make_node("Sum", ["x"], ["y"], "sum"), helper.make_node("Relu", ["x"], ["z"], "relu")]
    plan = build(graph(nodes, {"y": [1, 3], "z": [1, 3]}))
    for name in ("y", "z"):
        np.testing.assert_array_equal(run(plan, name, x=X), X)


def test_clip_behind_an_operator_that_is_not_known_is_a_parser_error_and_no_crash() -> None:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["m"], "first", domain="test"),
        helper.make_node("Clip", ["m", "low"], ["y"], "clip"),
    ]
    error = refused(graph(nodes, {"y": [1, 3]}, {"low": np.float32(0)}))
    assert error.node() == 0


@pytest.mark.skipif(VERSION < (10,), reason="8.6 parses it; whether it heeds the layout was not tried")
def test_lstm_of_another_layout_is_refused() -> None:
    weights = {"w": np.ones((1, 20, 3), np.float32), "r": np.ones((1, 20, 5), np.float32)}
    node = helper.make_node("LSTM", ["x3", "w", "r"], ["y"], "lstm", layout=1, hidden_size=5)
    refused(graph([node], {"y": [1, 2, 1, 5]}, weights, inputs={"x3": [1, 2, 3]}))


def test_zero_point_that_is_not_zero_is_refused() -> None:
    weights = {"scale": np.float32(0.05), "zero": np.int8(5)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "Q"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], "DQ"),
    ]
    refused(graph(nodes, {"y": [1, 3]}, weights))


@pytest.mark.skipif(VERSION < (10,), reason="8.6 asks for a zero point: vector::_M_range_check")
def test_default_zero_point_quantises_to_int8() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], "Q"),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"], "DQ"),
    ]
    plan = build(
        graph(nodes, {"y": [1, 3]}, {"scale": np.float32(0.05)}),
        flags=["INT8"] if hasattr(trt.BuilderFlag, "INT8") else [],
    )
    np.testing.assert_allclose(run(plan, x=np.array([[-1, 1, 9]], np.float32)), [[-1, 1, 6.35]], atol=1e-5)


def test_double_weights_are_cast_to_float() -> None:
    nodes = [
        helper.make_node("Cast", ["d"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"], "add"),
    ]
    plan = build(graph(nodes, {"y": [1, 3]}, {"d": np.full((1, 3), 0.5)}))
    np.testing.assert_array_equal(run(plan, x=X), X + 0.5)


@needs("ITensor.dynamic_range")
def test_model_in_fp16_is_built_in_int8() -> None:
    def ranges(network: Any, config: Any) -> None:
        network.get_input(0).dynamic_range = (-4, 4)
        for layer in network:
            layer.get_output(0).dynamic_range = (-30, 30)

    plan = build(models.fp16_gemm(), flags=["FP16", "INT8"], customize=ranges)
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float16)
    expected = models.reference(models.fp16_gemm(), x=x).astype(np.float32)
    assert np.abs(run(plan, x=x) - expected).max() < 0.1 * np.abs(expected).max()


def test_tensor_format_is_what_was_allowed_or_refused_by_name() -> None:
    def attempt() -> None:
        def allow(network: Any, config: Any) -> None:
            network.get_input(0).allowed_formats = 1 << int(trt.TensorFormat.HWC)

        engine = load(build(models.conv_relu(1), customize=allow))
        assert engine.get_tensor_format("x") == trt.TensorFormat.HWC

    refused_on_cpu(attempt, "allowed_formats")


@pytest.mark.skipif(VERSION < (10,), reason="8.6 builds with a scale of 0 and says nothing")
@needs("IInt8MinMaxCalibrator")
def test_tensor_that_was_zero_throughout_is_named() -> None:
    from tests.conformance.calibrators import make_calibrator

    zeros = [{"x": np.zeros((2, 3, 8, 8), np.float32)}] * 2
    with captured() as messages:
        build(models.conv_relu(2), flags=["INT8"], calibrator=make_calibrator("entropy2", zeros))
    assert any("uniformly zero" in text for _, text in messages), messages


class Allocator(trt.IOutputAllocator):
    """Gives what is asked for, and keeps what it is told."""

    def __init__(self) -> None:
        trt.IOutputAllocator.__init__(self)
        self.memory: Any = None
        self.shapes: list[tuple[int, ...]] = []

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        from helpers.engine.backend import cuda

        self.memory = cuda.mem_alloc(max(size, 1))
        return int(self.memory)

    def notify_shape(self, tensor_name: str, shape: Any) -> None:
        self.shapes.append(tuple(shape))


def nonzero() -> bytes:
    """x [N,3] → its places that are above zero, y [2,n]; 8.6 makes no context for one of a fixed shape."""
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("NonZero", ["r"], ["y"], "nonzero")]
    return graph(nodes, {"y": [2, "n"]}, inputs={"x": ["N", 3]}, kinds={"y": TensorProto.INT64})


@needs("IOutputAllocator")
def test_output_sized_by_data_goes_to_its_allocator() -> None:
    from helpers.engine.backend import cuda

    plan = build(nonzero(), profiles=[{"x": ((1, 3), (1, 3), (2, 3))}])
    buffers, allocator = Buffers(load(plan)), Allocator()
    assert buffers.context.set_input_shape("x", X.shape)
    buffers._place("x", X)
    assert tuple(buffers.context.get_tensor_shape("y")) == (2, -1)
    assert buffers.context.set_output_allocator("y", allocator)
    assert buffers.context.execute_async_v3(buffers.stream.handle) and allocator.shapes[-1] == (2, 2)
    buffers.stream.synchronize()
    found = np.zeros((2, 2), trt.nptype(buffers.engine.get_tensor_dtype("y")))
    cuda.memcpy_dtoh(found, allocator.memory)
    np.testing.assert_array_equal(found, [[0, 0], [0, 2]])
    assert tuple(buffers.context.get_tensor_shape("y")) == (2, -1)  # the next values may give another


@needs("IOutputAllocator")
def test_allocator_of_an_output_whose_shape_is_known() -> None:
    buffers, allocator = Buffers(load(build(models.conv_relu(2)))), Allocator()
    buffers._place("x", np.zeros((2, 3, 8, 8), np.float32))
    assert buffers.context.set_output_allocator("y", allocator)
    assert buffers.execute() and allocator.shapes[-1] == (2, 8, 8, 8)


@pytest.mark.parametrize(
    "owner", [trt, trt.IExecutionContext, trt.INetworkDefinition], ids=["module", "context", "network"]
)
def test_name_that_never_was_is_not_there(owner: Any) -> None:
    assert hasattr(owner, "frobnicate") is False and getattr(owner, "frobnicate", 7) == 7


def test_timing_cache_serializes_to_host_memory() -> None:
    config = trt.Builder(LOG).create_builder_config()
    assert isinstance(config.create_timing_cache(b"").serialize(), trt.IHostMemory)


@needs("IBuilderConfig.get_quantization_flag")
def test_quantization_flag_is_kept() -> None:
    config, flag = trt.Builder(LOG).create_builder_config(), trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION
    assert config.get_quantization_flag(flag) is False
    config.set_quantization_flag(flag)
    assert config.get_quantization_flag(flag) is True
    config.clear_quantization_flag(flag)
    assert config.get_quantization_flag(flag) is False


def test_plugin_registry_is_there() -> None:
    assert trt.get_plugin_registry() is not None


def test_weights_know_their_type_and_size() -> None:
    weights = trt.Weights(np.zeros((2, 3), np.float32))
    assert (weights.dtype, weights.size, weights.nbytes) == (trt.float32, 6, 24)
    assert trt.Weights().size == 0


def test_permutation_has_a_place_for_every_dimension() -> None:
    assert list(trt.Permutation([1, 0])) == [1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.skipif(VERSION < (10,), reason="8.6 casts INT64 down without a way to tell")
def test_int64_goes_in_and_comes_out() -> None:
    kinds = {"x": TensorProto.INT64, "y": TensorProto.INT64}
    model = graph([helper.make_node("Add", ["x", "x"], ["y"], "add")], {"y": [1, 3]}, kinds=kinds)
    found = run(build(model), x=np.array([[1, 2, 2**29]]))
    np.testing.assert_array_equal(found, [[2, 4, 2**30]])


@needs("IInt8MinMaxCalibrator")
def test_calibrator_of_a_quantised_model_is_not_used_and_that_is_said() -> None:
    from tests.conformance.calibrators import make_calibrator

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "Q"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], "DQ"),
    ]
    model = graph(nodes, {"y": [1, 3]}, {"scale": np.float32(0.05), "zero": np.int8(0)})
    with captured() as messages:
        assert build(model, flags=["INT8"], calibrator=make_calibrator("minmax", [{"x": X}]))
    assert "alibrator" in warnings_in(messages)
