"""Strong typing: the model's types and Q/DQ nodes decide. On TensorRT 10 a network asks for it, on 11 each has it."""

import json

import numpy as np
import pytest
from onnx import TensorProto

from helpers.engine.backend import API, network_flags, trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    ON_GPU,
    build,
    inspect,
    load,
    needs,
    parsed,
    relative_error,
    run,
)

pytestmark = needs("NetworkDefinitionCreationFlag.STRONGLY_TYPED")
FP16, BF16 = TensorProto.FLOAT16, TensorProto.BFLOAT16
IMAGES = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)
SMALL = np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype(np.float32)
PROFILES = [{"x": ((1, 3, 8, 8), (4, 3, 8, 8), (8, 3, 8, 8))}]
INSTEAD_OF_HALF = ("FP16", "HALF", "BF16", "BFLOAT16", "F16")


def strong(model: bytes, **options: object) -> bytes | None:
    flag = int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    return build(model, network_flags=network_flags() | 1 << flag, **options)


def error_of(plan: bytes | None, model: bytes, x: np.ndarray) -> float:
    return relative_error(run(plan, x=x), models.reference(model, x=x))


def names_half(found: object) -> bool:
    return any(name in json.dumps(found).upper() for name in INSTEAD_OF_HALF)


def test_float_model_is_exact() -> None:
    assert error_of(strong(models.residual(4)), models.residual(), IMAGES) < 1e-5


@pytest.mark.parametrize(("kind", "limit"), [(FP16, 2e-2), (BF16, 5e-2)], ids=["FP16", "BF16"])
def test_model_that_was_cast_is_close_to_the_float_model(kind: int, limit: float) -> None:
    assert 1e-5 < error_of(strong(models.cast(models.residual(4), kind)), models.residual(), IMAGES) < limit


def test_casts_at_the_ends_keep_inputs_and_outputs_in_fp32() -> None:
    engine = load(strong(models.cast(models.residual(4), FP16)))
    assert engine.get_tensor_dtype("x") == engine.get_tensor_dtype("y") == trt.float32


def test_ends_in_fp16_stay_so() -> None:
    engine = load(strong(models.fp16_gemm()))
    assert engine.get_tensor_dtype("x") == engine.get_tensor_dtype("y") == trt.float16


def test_half_weights_are_stored_in_half() -> None:
    sizes = [len(strong(model)) for model in (models.cast(models.heavy(), FP16), models.heavy())]
    assert sizes[0] < 0.8 * sizes[1]


def test_inspector_shows_that_half_is_stored_or_ran() -> None:
    """On a processor without half arithmetic the layers say FP32 and their weights Half."""
    layers = inspect(strong(models.cast(models.heavy(), FP16)))["Layers"]
    convolutions = [layer for layer in layers if "conv" in layer["Name"] and "Weights" in layer]
    assert all(map(names_half, convolutions)) and (convolutions or ON_GPU)


def test_float_model_has_no_half_in_it() -> None:
    assert not names_half(inspect(strong(models.residual(4)))["Layers"])


def test_layer_between_casts_to_fp32_is_exact_where_fp16_overflows() -> None:
    x = (500 * np.random.default_rng(2).standard_normal((2, 16))).astype(np.float32)
    model = models.cast(models.overflowing(), FP16, float_layers=("big", "small"))
    # x itself goes through FP16, which keeps eleven bits; both products are in FP32
    assert error_of(strong(model), models.overflowing(), x) < 1e-3


def test_layers_keep_their_names_between_casts() -> None:
    names = " + ".join(layer["Name"] for layer in inspect(strong(models.cast(models.residual(4), FP16)))["Layers"])
    assert ON_GPU or {"stem", "stem_relu", "a", "b", "add", "fc"} <= set(names.split(" + "))


def test_quantize_nodes_run_in_int8_without_any_flag() -> None:
    plan = strong(models.quantized(), profiles=PROFILES)
    assert error_of(plan, models.quantized(), SMALL) < 8e-2
    assert "INT8" in json.dumps(inspect(plan)).upper()


def test_quantize_nodes_between_casts_give_int8_and_half() -> None:
    plan = strong(models.cast(models.quantized(), FP16, opset=21), profiles=PROFILES)
    assert error_of(plan, models.quantized(), SMALL) < 8e-2
    shown = json.dumps(inspect(plan)["Layers"]).upper()
    assert "INT8" in shown and (names_half(shown) or not ON_GPU)


def test_bias_of_32_bits_behind_dequantize_is_refused_by_the_parser_and_its_node_named() -> None:
    network = trt.Builder(LOG).create_network(network_flags())
    parser = trt.OnnxParser(network, LOG)
    assert parser.parse(models.quantized_bias()) is False
    error = parser.get_error(0)
    assert "conv1_b_dq" in error.desc() + str(error) and error.code() != trt.ErrorCode.SUCCESS


@pytest.mark.skipif(API < 11, reason="on TensorRT 10 a network is weakly typed unless it asks")
def test_network_that_asks_for_nothing_is_strongly_typed() -> None:
    plan = build(models.cast(models.residual(4), FP16))
    assert len(plan) < len(build(models.residual(4))) and names_half(inspect(plan))


@pytest.mark.skipif(API < 11, reason="TensorRT 10 lets an input's type be set")
def test_type_of_an_input_cannot_be_set() -> None:
    _, network, parser = parsed(models.conv_relu())
    with pytest.raises(AttributeError):
        network.get_input(0).dtype = trt.float16
