"""The network that calibration runs, against ONNX Runtime's values of the original."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.calibration.probe import probe
from trtcpu.calibration.tensors import calibration_plan

# After fusion a ReLU is observed itself, before fusion through its convolution.
OBSERVED = {
    CalibrationAlgoType.ENTROPY_CALIBRATION: ["relu", "mean", "output"],
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: ["conv", "mean", "output"],
}


def network() -> onnx.ModelProto:
    """Convolution, ReLU, global mean, flattening and a matrix product, of random weights and a dynamic batch."""
    draw = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (5, 3, 3, 3)), ("b", (5,)), ("g", (4, 5)), ("c", (4,)))
    ]
    nodes = [
        helper.make_node("Conv", ["input", "w", "b"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "g", "c"], ["output"], transB=1),
    ]
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("input", ["batch", 3, 6, 7]), ("output", ["batch", 4]))
    ]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def outputs_of(model: onnx.ModelProto, names: list[str], images: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(names, {"input": images})


def exposed(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """The model with more outputs, in the original order of dimensions."""
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return model


@pytest.mark.parametrize("algorithm", OBSERVED)
def test_observed_tensors_keep_their_values_with_channels_last(algorithm: CalibrationAlgoType) -> None:
    images = np.random.default_rng(1).standard_normal((3, 3, 6, 7)).astype(np.float32)
    observed = OBSERVED[algorithm]
    expected = outputs_of(exposed(network(), observed), observed, images)
    probed, names = probe(network(), calibration_plan(network(), algorithm))
    assert list(names) == observed
    assert [output.name for output in probed.graph.output] == list(names.values())
    for value, original in zip(outputs_of(probed, list(names.values()), images), expected, strict=True):
        assert np.array_equal(value, original.transpose(0, 2, 3, 1) if original.ndim == 4 else original)


def test_the_model_itself_stays_as_it_is() -> None:
    model = network()
    probe(model, calibration_plan(model, CalibrationAlgoType.ENTROPY_CALIBRATION))
    assert model == network()


def test_a_model_whose_shapes_are_unknown_is_probed_as_it_is() -> None:
    model = network()
    model.graph.node[0].domain = "unknown"
    _, names = probe(model, calibration_plan(model, CalibrationAlgoType.ENTROPY_CALIBRATION_2))
    assert names["conv"] == "conv"
