"""A strongly typed model in FP32 for OpenVINO: the same results by ONNX Runtime, names and ends kept."""

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import trtcpu.tensorrt as trt
from trtcpu import _openvino
from trtcpu.builder.strong_types import float_layers, half_types, without_halves

FLOAT, FP16, BF16, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT64
X = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)


def model(nodes: list[tuple], inputs: dict[str, int], outputs: dict[str, int], kind: int = FP16) -> onnx.ModelProto:
    """Return a checked model of (operator, inputs, output, attributes) nodes, with a weight `w` [8, 8] of `kind`."""
    values = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    made = [helper.make_node(op, ins.split(), [out], out, **about) for op, ins, out, about in nodes]
    ends = [
        [helper.make_tensor_value_info(name, of, [2, 8]) for name, of in named.items()] for named in (inputs, outputs)
    ]
    graph = helper.make_graph(made, "net", *ends, [helper.make_tensor("w", kind, [8, 8], values.ravel())])
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(found, full_check=True)
    return onnx.shape_inference.infer_shapes(found)


def run(found: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(found.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


BETWEEN_CASTS = model(
    [
        ("Cast", "x", "h", {"to": FP16}),
        ("MatMul", "h w", "m", {}),
        ("Relu", "m", "r", {}),
        ("Cast", "r", "y", {"to": FLOAT}),
    ],
    {"x": FLOAT},
    {"y": FLOAT},
)
MODELS = {
    "between casts": BETWEEN_CASTS,
    "ends in FP16": model([("MatMul", "x w", "m", {}), ("Relu", "m", "y", {})], {"x": FP16}, {"y": FP16}),
    "a layer in FP32": model(
        [("Cast", "x", "h", {"to": FP16}), ("MatMul", "h w", "m", {}), ("Cast", "m", "f", {"to": FLOAT})]
        + [("Sigmoid", "f", "s", {}), ("Cast", "s", "g", {"to": FP16}), ("Relu", "g", "r", {})]
        + [("Cast", "r", "y", {"to": FLOAT})],
        {"x": FLOAT},
        {"y": FLOAT},
    ),
    "an input that is only cast": model([("Cast", "x", "y", {"to": FLOAT})], {"x": FP16}, {"y": FLOAT}),
    "one tensor, an output in each type": model(
        [("MatMul", "x w", "y", {}), ("Cast", "y", "z", {"to": FLOAT})], {"x": FP16}, {"y": FP16, "z": FLOAT}
    ),
    "an output cast twice": model(
        [("Relu", "x", "y", {}), ("Cast", "y", "h", {"to": FP16}), ("Cast", "h", "z", {"to": FLOAT})],
        {"x": FLOAT},
        {"y": FLOAT, "z": FLOAT},
    ),
    "integers between": model(
        [("Cast", "x", "i", {"to": INT64}), ("Cast", "i", "h", {"to": FP16}), ("MatMul", "h w", "y", {})],
        {"x": FP16},
        {"y": FP16},
    ),
    "a constant": model(
        [("Constant", "", "c", {"value": numpy_helper.from_array(np.float16(3))}), ("Mul", "x c", "m", {})]
        + [("MatMul", "m w", "y", {})],
        {"x": FP16},
        {"y": FP16},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_results_are_those_of_the_typed_model(name: str) -> None:
    typed = MODELS[name]
    lowered = without_halves(typed)
    onnx.checker.check_model(lowered, full_check=True)
    x = X.astype(np.float16 if typed.graph.input[0].type.tensor_type.elem_type == FP16 else np.float32)
    for expected, found in zip(run(typed, x), run(lowered, x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", MODELS)
def test_inputs_and_outputs_keep_name_and_type_and_nothing_else_is_half(name: str) -> None:
    lowered = without_halves(MODELS[name])
    assert (lowered.graph.input, lowered.graph.output) == (MODELS[name].graph.input, MODELS[name].graph.output)
    ends = {value.name for value in (*lowered.graph.input, *lowered.graph.output)}
    inferred = onnx.shape_inference.infer_shapes(lowered).graph
    assert not [
        value for value in inferred.value_info if value.type.tensor_type.elem_type == FP16 and value.name not in ends
    ]
    assert {tensor.data_type for tensor in lowered.graph.initializer} == {FLOAT}


def test_casts_between_floats_are_gone_and_the_layers_keep_their_names() -> None:
    assert [node.name for node in without_halves(BETWEEN_CASTS).graph.node] == ["m", "r"]


def test_the_layers_in_fp32_are_those_that_give_it() -> None:
    assert float_layers(MODELS["a layer in FP32"]) == {"f", "s", "y"}
    assert half_types(MODELS["a layer in FP32"]) == {FP16} and half_types(without_halves(BETWEEN_CASTS)) == set()


def test_weights_in_bf16_are_read_as_the_numbers_that_they_are() -> None:
    typed = model(
        [("Cast", "x", "h", {"to": BF16}), ("MatMul", "h w", "m", {}), ("Cast", "m", "y", {"to": FLOAT})],
        {"x": FLOAT},
        {"y": FLOAT},
        BF16,
    )
    weight = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    np.testing.assert_allclose(run(without_halves(typed), X)[0], X @ weight, rtol=2e-2, atol=5e-2)


def _layers(typed: onnx.ModelProto) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the layers and the warnings of a strongly typed build."""

    class Log(trt.ILogger):
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.warnings: list[str] = []

        def log(self, severity: Any, msg: str) -> None:
            self.warnings += [msg] if severity == trt.ILogger.WARNING else []

    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert trt.OnnxParser(network, log).parse(typed.SerializeToString())
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    plan = builder.build_serialized_network(network, config)
    inspector = trt.Runtime(log).deserialize_cuda_engine(plan).create_engine_inspector()
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    return json.loads(text)["Layers"], log.warnings


def test_where_no_half_arithmetic_is_the_engine_stores_fp16_and_runs_fp32_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_openvino, "half_precision", lambda asked="FP16": "FP32")
    layers, warnings = _layers(BETWEEN_CASTS)
    product = next(layer for layer in layers if "m" in layer["Name"].split(" + "))
    assert product["Precision"] == "FP32" and product["Weights"]["Type"] == "Half"
    assert warnings == ["this processor has no fast FP16 or BF16 arithmetic: layers compute in FP32"]


def test_where_half_arithmetic_is_the_layers_between_the_casts_run_in_it() -> None:
    half = _openvino.half_precision()
    layers, _ = _layers(BETWEEN_CASTS)
    product = next(layer for layer in layers if "m" in layer["Name"].split(" + "))
    assert product["Precision"] == half and product["Weights"]["Type"] in ("Half", "BFloat16")
