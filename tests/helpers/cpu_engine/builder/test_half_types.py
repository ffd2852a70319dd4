"""Half types taken out of a graph: the same numbers in ONNX Runtime, and the names and bytes of the engine."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper, parser

from helpers import cpu_engine as trt
from helpers.cpu_engine.builder.half_types import has_half_types, in_single_types
from helpers.layers import engine_layers, weights_precision

RNG = np.random.default_rng(2)
INNER = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[4, 256] x) => (float[4, 256] y) {
    [in] h = Cast <to = 10> (x)
    [product] p = MatMul (h, w)
    [sum] s = Add (p, b)
    [out] y = Cast <to = 1> (s)
}
"""
ENDS = """
<ir_version: 8, opset_import: ["" : 17]>
net (float16[4, 256] x) => (float16[4, 256] y) {
    [product] p = MatMul (x, w)
    [y] y = Add (p, b)
}
"""


def network(text: str) -> onnx.ModelProto:
    model = parser.parse_model(text)
    for name, shape in (("w", (256, 256)), ("b", (256,))):
        values = RNG.normal(0, 0.1, shape).astype(np.float16)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return onnx.shape_inference.infer_shapes(model)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("text", [INNER, ENDS])
def test_the_model_computes_the_same_and_its_ends_keep_their_types(text: str) -> None:
    model = network(text)
    single = in_single_types(model)
    onnx.checker.check_model(single, full_check=True)
    x = RNG.normal(0, 1, (4, 256)).astype(np.float32 if text == INNER else np.float16)
    found, expected = run(single, x), run(model, x)
    assert found.dtype == expected.dtype
    assert np.linalg.norm(found.astype(np.float32) - expected) / np.linalg.norm(expected.astype(np.float32)) < 2e-3


def test_no_cast_is_left_inside_and_the_last_layer_gives_the_output() -> None:
    single = in_single_types(network(INNER))
    assert [node.name for node in single.graph.node] == ["product", "sum"]
    assert single.graph.node[-1].output[0] == "y"
    assert {tensor.data_type for tensor in single.graph.initializer} == {TensorProto.FLOAT}


def test_a_cast_that_changes_the_type_stays() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (int64[4] x) => (int64[4] y) { h = Cast <to = 10> (x) s = Add (h, h) y = Cast <to = 7> (s) }
    """
    model = onnx.shape_inference.infer_shapes(parser.parse_model(text))
    single = in_single_types(model)
    assert [node.op_type for node in single.graph.node] == ["Cast", "Add", "Cast"]
    np.testing.assert_array_equal(run(single, np.arange(4)), 2 * np.arange(4))


def test_an_input_that_is_only_cast_is_still_given() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[4] x) => (float16[4] y) { y = Cast <to = 10> (x) }'
    single = in_single_types(parser.parse_model(text))
    onnx.checker.check_model(single, full_check=True)
    assert run(single, np.ones(4, np.float32)).dtype == np.float16


def test_a_model_without_half_types_is_left_alone() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[4] x) => (float[4] y) { y = Relu (x) }'
    model = parser.parse_model(text)
    assert in_single_types(model) is model and not has_half_types(model)


def test_a_strongly_typed_engine_stores_half_the_bytes_and_names_its_layer() -> None:
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network_ = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert trt.OnnxParser(network_, logger).parse(network(INNER).SerializeToString())
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    plan = builder.build_serialized_network(network_, config)
    layers = engine_layers(trt.Runtime(logger).deserialize_cuda_engine(plan))
    weighted = {layer["Name"]: weights_precision(layer) for layer in layers if weights_precision(layer)}
    assert list(weighted) == ["product + sum"] and set(weighted.values()) <= {"fp16", "bf16"}
    assert 2 * 256 * 256 < plan.nbytes < 3 * 256 * 256
