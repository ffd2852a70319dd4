"""Q/DQ placement: checked by running the rewritten ONNX model in ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtcpu.builder import quantization

RNG = np.random.default_rng(3)
_WEIGHT_SEED = 7


def _residual_net(opset: int = 17) -> onnx.ModelProto:
    """conv1 → relu → max-pool → (conv2 → relu → conv3) + skip → relu → average pool → gemm."""
    rng = np.random.default_rng(_WEIGHT_SEED)
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 8, 1, 1), "wf": (5, 8)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.2, s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(numpy_helper.from_array(rng.normal(0, 0.1, 5).astype(np.float32), "bf"))
    pads = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", ["input", "w1"], ["c1"], "conv1", pads=pads),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], "conv2", pads=pads),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("Conv", ["r2", "w3"], ["c3"], "conv3"),
        helper.make_node("Add", ["c3", "p1"], ["a1"], "add1"),
        helper.make_node("Relu", ["a1"], ["r3"], "relu3"),
        helper.make_node("GlobalAveragePool", ["r3"], ["g1"], "gap"),
        helper.make_node("Flatten", ["g1"], ["f1"], "flatten"),
        helper.make_node("Gemm", ["f1", "wf", "bf"], ["output"], "fc", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 5])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _activations(model: onnx.ModelProto, data: np.ndarray) -> dict[str, np.ndarray]:
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output if name != "output"]
    probe.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names)
    return dict(zip(["output", *names], _run(probe, data), strict=True))


def _run(model: onnx.ModelProto, data: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"input": data})


@pytest.fixture
def data() -> np.ndarray:
    return RNG.normal(0, 1, (4, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def scales(data: np.ndarray) -> dict[str, float]:
    found = {name: float(np.abs(x).max()) / 127 for name, x in _activations(_residual_net(), data).items()}
    return {**found, "input": float(np.abs(data).max()) / 127}


def test_the_quantised_model_computes_nearly_the_same_in_onnxruntime(
    data: np.ndarray, scales: dict[str, float]
) -> None:
    model = _residual_net()
    quantised, missing = quantization.quantize(model, scales)
    onnx.checker.check_model(quantised)
    before, after = _run(model, data)[0], _run(quantised, data)[0]
    error = np.linalg.norm(after - before) / np.linalg.norm(before)
    assert missing == []
    assert 1e-4 < error < 0.05


def test_the_skip_branch_is_quantised_and_the_fused_branch_is_not(scales: dict[str, float]) -> None:
    quantised, _ = quantization.quantize(_residual_net(), scales)
    add = next(node for node in quantised.graph.node if node.name == "add1")
    assert add.input[0] == "c3"
    assert add.input[1] == "p1"  # the max-pool's output: already on the INT8 grid of its own input
    assert not any(node.input[0] == "c3" for node in quantised.graph.node if node.op_type == "QuantizeLinear")


def test_a_max_pool_is_quantised_once_in_front(scales: dict[str, float]) -> None:
    quantised, _ = quantization.quantize(_residual_net(), scales)
    quantisers = [node.input[0] for node in quantised.graph.node if node.op_type == "QuantizeLinear"]
    assert sorted(quantisers) == ["f1", "input", "r1", "r2", "r3"]


@pytest.mark.parametrize(("saturates", "most"), [(False, 127), (True, 64)])
def test_weights_are_int8_per_output_channel(
    scales: dict[str, float], saturates: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantization._openvino, "saturates_int8", lambda: saturates)
    quantised, _ = quantization.quantize(_residual_net(), scales)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantised.graph.initializer}
    original = numpy_helper.to_array(_weight(_residual_net(), "w2"))
    assert "w2" not in stored
    codes, scale = stored["w2_axis0_quantized"], stored["w2_axis0_scale"]
    assert codes.dtype == np.int8 and scale.shape == (8,)
    assert np.abs(codes).max() == most
    restored = codes * scale.reshape(-1, 1, 1, 1)
    assert restored.shape == original.shape


def test_restored_weights_differ_by_half_a_step_at_most(scales: dict[str, float]) -> None:
    model = _residual_net()
    quantised, _ = quantization.quantize(model, scales)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantised.graph.initializer}
    scale = stored["wf_axis0_scale"].reshape(-1, 1)
    difference = np.abs(stored["wf_axis0_quantized"] * scale - numpy_helper.to_array(_weight(model, "wf")))
    assert (difference <= scale * 0.5001).all()


def test_layers_that_must_stay_in_float_keep_their_inputs(scales: dict[str, float]) -> None:
    quantised, _ = quantization.quantize(_residual_net(), scales, {"conv2", "fc"})
    inputs = {node.name: list(node.input) for node in quantised.graph.node}
    assert inputs["conv2"] == ["p1", "w2"]
    assert inputs["fc"] == ["f1", "wf", "bf"]
    assert inputs["conv3"][1] != "w3"


def test_a_tensor_without_a_scale_is_named_and_its_layer_stays_in_float(scales: dict[str, float]) -> None:
    del scales["r2"]
    quantised, missing = quantization.quantize(_residual_net(), scales)
    assert missing == ["r2"]
    assert next(list(n.input) for n in quantised.graph.node if n.name == "conv3") == ["r2", "w3"]


def test_a_flattened_tensor_takes_the_scale_of_what_it_flattens(scales: dict[str, float]) -> None:
    del scales["f1"]
    quantised, missing = quantization.quantize(_residual_net(), scales)
    assert missing == []
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantised.graph.initializer}
    assert stored["f1_scale"] == np.float32(scales["g1"])


def test_an_old_opset_is_raised_to_one_with_per_channel_scales(scales: dict[str, float], data: np.ndarray) -> None:
    model = _residual_net(opset=11)
    quantised, _ = quantization.quantize(model, scales)
    assert quantised.opset_import[0].version >= 13
    error = np.abs(_run(quantised, data)[0] - _run(model, data)[0]).max()
    assert error < 0.2


def test_the_given_model_is_left_as_it_was(scales: dict[str, float]) -> None:
    model = _residual_net()
    before = model.SerializeToString(deterministic=True)
    quantization.quantize(model, scales)
    assert model.SerializeToString(deterministic=True) == before


def _weight(model: onnx.ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def test_weights_that_share_a_scale_keep_their_values_within_half_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization._openvino, "saturates_int8", lambda: True)
    codes = {"large": np.array([[127, -128], [3, 90]], np.int8), "small": np.array([[5, -60], [64, 1]], np.int8)}
    stored = [numpy_helper.from_array(values, name) for name, values in codes.items()]
    stored.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    nodes = [helper.make_node("DequantizeLinear", [name, "scale"], [f"{name}_out"]) for name in codes]
    outputs = [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [2, 2]) for name in codes]
    model = helper.make_model(
        helper.make_graph(nodes, "shared", [], outputs, stored), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    large, small = onnxruntime.InferenceSession(quantization.fit_weights(model).SerializeToString()).run(None, {})
    assert np.abs(large - codes["large"] * 0.5).max() <= 0.5
    assert np.array_equal(small, codes["small"] * np.float32(0.5))


@pytest.mark.parametrize(("saturates", "most"), [(False, 127), (True, 64)])
def test_weights_in_front_of_q_and_dq_are_stored_as_the_codes_that_are_multiplied(
    scales: dict[str, float], data: np.ndarray, saturates: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, missing = quantization.explicit(_residual_net(), scales)
    monkeypatch.setattr(quantization._openvino, "saturates_int8", lambda: saturates)
    fitted = quantization.fit_weights(model)
    codes = [numpy_helper.to_array(t) for t in fitted.graph.initializer if t.data_type == TensorProto.INT8]
    assert missing == [] and max(int(np.abs(values.astype(int)).max()) for values in codes) == most
    before, after = _run(model, data)[0], _run(fitted, data)[0]
    assert np.abs(after - before).max() <= (0.05 * np.abs(before).max() if saturates else 0)


def test_seven_bits_of_a_weight_that_is_given_as_floats_are_rounded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization._openvino, "saturates_int8", lambda: True)
    weight = np.linspace(-1.0, 1.0, 2001, dtype=np.float32)
    step = np.float32(1 / 127)
    stored = [(weight, "weight"), (step, "step"), (np.int8(0), "zero")]
    nodes = [
        helper.make_node("QuantizeLinear", ["weight", "step", "zero"], ["codes"]),
        helper.make_node("DequantizeLinear", ["codes", "step", "zero"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes,
        "given_as_floats",
        [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, weight.shape)],
        [numpy_helper.from_array(np.asarray(values), name) for values, name in stored],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    (once,) = onnxruntime.InferenceSession(quantization.fit_weights(model).SerializeToString()).run(None, {})
    assert np.abs(once - weight).max() <= step * 1.001  # half of a step that is twice as large


def test_an_explicit_model_has_eight_bits_whatever_this_processor_multiplies(
    scales: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []
    for saturates in (False, True):
        monkeypatch.setattr(quantization._openvino, "saturates_int8", lambda here=saturates: here)
        models.append(quantization.explicit(_residual_net(), scales, stored=True)[0].SerializeToString())
    assert models[0] == models[1]
