"""Q/DQ models for any engine: run in ONNX Runtime, and read node by node."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.explicit import explicit_int8, naive_int8, quantised_layers
from trtlab.building.scales import float_model

IMAGES = np.random.default_rng(4).standard_normal((8, 3, SIZE, SIZE), dtype=np.float32)


def run(model: onnx.ModelProto, outputs: list[str] | None = None) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(outputs, {"input": IMAGES})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    path = tiny_onnx(tmp_path_factory.mktemp("model"))
    return float_model(path.read_bytes(), str(path))


@pytest.fixture(scope="module")
def scales(model: onnx.ModelProto) -> dict[str, float]:
    """The largest magnitude of each tensor, as ONNX Runtime computes it."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = [node.output[0] for node in model.graph.node if node.output[0] != "output"]
    probe.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    found = dict(zip(names, run(probe, names), strict=True)) | {"input": IMAGES}
    return {name: float(np.abs(values).max()) / 127 for name, values in found.items()}


def producers(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    return {name: node for node in model.graph.node for name in node.output}


def test_an_explicit_model_computes_nearly_the_same(model: onnx.ModelProto, scales: dict[str, float]) -> None:
    expected = run(model)[0]
    for quantised in (
        explicit_int8(model, scales),
        explicit_int8(model, scales, stored=True),
        naive_int8(model, scales),
    ):
        onnx.checker.check_model(quantised, full_check=True)
        assert 1e-4 < np.linalg.norm(run(quantised)[0] - expected) / np.linalg.norm(expected) < 0.05


def test_every_weighted_layer_reads_its_input_and_its_weights_through_dq(
    model: onnx.ModelProto, scales: dict[str, float]
) -> None:
    quantised = explicit_int8(model, scales)
    made, stored = producers(quantised), {tensor.name: tensor for tensor in quantised.graph.initializer}
    weighted = [node for node in quantised.graph.node if node.op_type in ("Conv", "Gemm")]
    assert len(weighted) == 3
    for node in weighted:
        for name in node.input[:2]:
            dequantise = made[name]
            quantise = made[dequantise.input[0]]
            assert (quantise.op_type, dequantise.op_type) == ("QuantizeLinear", "DequantizeLinear")
            assert quantise.input[1:] == dequantise.input[1:]
            zero = numpy_helper.to_array(stored[quantise.input[2]])
            assert zero.dtype == np.int8 and not zero.any()
        assert stored[node.input[2]].data_type == onnx.TensorProto.FLOAT  # the bias


def test_weights_as_codes_and_as_floats_behind_q_are_the_same_model(
    model: onnx.ModelProto, scales: dict[str, float]
) -> None:
    floats, codes = explicit_int8(model, scales), explicit_int8(model, scales, stored=True)
    np.testing.assert_array_equal(run(floats)[0], run(codes)[0])
    assert len(codes.SerializeToString()) < len(floats.SerializeToString())


def test_a_residual_add_reads_a_quantised_skip_branch_and_a_naive_one_reads_floats(
    model: onnx.ModelProto, scales: dict[str, float]
) -> None:
    for quantise, expected in ((explicit_int8, {"Conv", "DequantizeLinear"}), (naive_int8, {"Conv", "Relu"})):
        quantised = quantise(model, scales)
        add = next(node for node in quantised.graph.node if node.op_type == "Add")
        assert {producers(quantised)[name].op_type for name in add.input} == expected


def test_the_layers_that_are_to_run_in_int8_are_named(model: onnx.ModelProto, scales: dict[str, float]) -> None:
    quantised = explicit_int8(model, scales, {"/head/Gemm"})
    assert quantised_layers(quantised) == ["/stem/stem.0/Conv", "/block/block.0/Conv"]
    assert quantised_layers(model) == []


def test_a_layer_that_is_to_stay_in_float_does(model: onnx.ModelProto, scales: dict[str, float]) -> None:
    quantised = explicit_int8(model, scales, {"/head/Gemm"})
    head = next(node for node in quantised.graph.node if node.name == "/head/Gemm")
    assert head.input[1] in {tensor.name for tensor in model.graph.initializer}


def test_a_model_that_is_quantised_already_or_has_no_scales_is_refused(
    model: onnx.ModelProto, scales: dict[str, float]
) -> None:
    with pytest.raises(InputError, match="has Q/DQ nodes already"):
        explicit_int8(explicit_int8(model, scales), scales)
    with pytest.raises(InputError, match="has an input with a scale; calibrate again"):
        explicit_int8(model, {"of another model": 0.1})


def test_a_file_that_cannot_be_rewritten_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m\.onnx cannot be rewritten"):
        float_model(b"garbage" * 9, str(tmp_path / "m.onnx"))
