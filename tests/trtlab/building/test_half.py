"""FP16 and BF16 written into a graph: run in ONNX Runtime, and held to NumPy and PyTorch."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, numpy_helper, parser

from trtcpu.errors import InputError
from trtlab.building.half import to_half

RNG = np.random.default_rng(5)
IMAGES = RNG.normal(0, 1, (2, 3, 8, 8)).astype(np.float32)
NET = """(float[N, 3, 8, 8] x) => (float[N, 4, 16, 16] large, float[N, 4, 8, 8] both) {
    [conv] both = Conv <pads = [1, 1, 1, 1]> (x, w, b)
    [relu] r = Relu (both)
    [resize] large = Resize <mode = "nearest"> (r, , scales)
}"""


def model(text: str, opset: int = 17, **stored: object) -> onnx.ModelProto:
    """Return a network with the tensors that it has stored."""
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> net {text}')
    made.graph.initializer.extend(numpy_helper.from_array(np.asarray(values), name) for name, values in stored.items())
    return made


def network(**weights: np.ndarray) -> onnx.ModelProto:
    """Return a convolution that is an output as well, a ReLU and an operator with FP32 scales."""
    random = {"w": RNG.normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32), "b": RNG.normal(0, 0.2, 4).astype(np.float32)}
    return model(NET, scales=np.array([1, 1, 2, 2], np.float32), **{**random, **weights})


def run(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})


def types(model: onnx.ModelProto) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def test_an_fp16_model_stores_half_weights_computes_nearly_the_same_and_keeps_its_inputs_and_outputs() -> None:
    whole = network()
    half = to_half(whole, "fp16")
    for found, expected in zip(run(half, IMAGES), run(whole, IMAGES), strict=True):
        assert found.dtype == np.float32 and found.shape == expected.shape
        assert 0 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 2e-3
    assert [value.name for value in half.graph.output] == ["large", "both"]
    # ONNX wants the scales of Resize in FP32
    assert types(half) == {"w_fp16": TensorProto.FLOAT16, "b_fp16": TensorProto.FLOAT16, "scales": TensorProto.FLOAT}


def test_bf16_weights_are_rounded_as_pytorch_rounds_them() -> None:
    values = np.concatenate([RNG.normal(0, 1, 100), [1e-30, 3.3e38, -0.0, 1 + 2**-8, 1 + 3 * 2**-8]])
    weights = np.resize(values, (4, 3, 3, 3)).astype(np.float32)
    half = to_half(network(w=weights), "bf16")
    stored = next(tensor for tensor in half.graph.initializer if tensor.name == "w_bf16")
    expected = torch.from_numpy(weights).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert stored.data_type == TensorProto.BFLOAT16
    np.testing.assert_array_equal(np.frombuffer(stored.raw_data, np.uint16).reshape(weights.shape), expected)


def test_a_layer_that_stays_in_fp32_has_fp32_weights() -> None:
    whole = network()
    mixed = to_half(whole, "fp16", {"conv"})
    assert set(types(mixed).values()) == {TensorProto.FLOAT}
    np.testing.assert_array_equal(run(mixed, IMAGES)[1], run(whole, IMAGES)[1])


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_a_mask_is_clipped_and_a_tiny_number_does_not_become_zero(kind: str) -> None:
    text = "(float[N] x) => (float[N] y, float[N] z) { [add] y = Add (x, mask) [mul] z = Mul (x, tiny) }"
    masked = model(text, mask=np.array([np.finfo(np.float32).min]), tiny=np.array([1e-12], np.float32))
    mask, tiny = (
        numpy_helper.to_array(tensor).astype(np.float32) for tensor in to_half(masked, kind).graph.initializer
    )
    assert np.isfinite(mask).all() and (mask < -65000).all() and (tiny > 0).all()


def test_a_cast_a_constant_and_a_random_number_follow_the_type() -> None:
    text = """(int64[N] x) => (float[N] y) {
        c = Constant <value = float {0.5}> ()
        f = Cast <to = 1> (x)
        s = Add (f, c)
        n = RandomUniformLike <low = 0.0, high = 0.0> (s)
        y = Add (s, n)
    }"""
    half = to_half(model(text), "fp16")
    np.testing.assert_array_equal(run(half, np.arange(3))[0], np.arange(3) + 0.5)
    assert next(node for node in half.graph.node if node.output[0] == "f").attribute[0].i == TensorProto.FLOAT16


@pytest.mark.parametrize("kind, nodes", [("bf16", ["HardSwish"]), ("fp16", ["Cast", "HardSwish", "Cast"])])
def test_hard_swish_stays_in_fp32_under_bf16_since_nvidias_parser_refuses_it(kind: str, nodes: list[str]) -> None:
    half = to_half(model("(float[N] x) => (float[N] y) { y = HardSwish (x) }", 22), kind)
    assert [node.op_type for node in half.graph.node] == nodes


TINY_SCALE = "(float[N] x) => (float[N] y) { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
CONTROL_FLOW = """(bool c, float[N] x) => (float[N] y) {
    y = If (c) <
        then_branch = a () => (float[N] p) { p = Identity (x) },
        else_branch = b () => (float[N] q) { q = Neg (x) }
    >
}"""


@pytest.mark.parametrize(
    "whole, said",
    [
        (
            network(w=np.full((4, 3, 3, 3), 1e6, np.float32)),
            r"conv has weights up to 1e\+06 \(w\), FP16 ends at 65504; build it in bf16",
        ),
        (
            model(TINY_SCALE, 19, s=np.float32(1e-9), z=np.int8(0)),
            "the scale s is 1e-09, too small for FP16; build it in int8",
        ),
        (model(CONTROL_FLOW), "subgraphs or functions cannot be written in fp16"),
        (
            model(f"(float[N] x) => (float16[N] y) {{ [{'long' * 60}] y = Relu (x) }}"),
            r"fp16 needs opset 19, to which .*longlong\): .* Inferred elem type differs from .*: \(1\) vs \(10\)$",
        ),
    ],
)
def test_what_fp16_cannot_hold_is_refused(whole: onnx.ModelProto, said: str) -> None:
    with pytest.raises(InputError, match=said):
        to_half(whole, "fp16")
