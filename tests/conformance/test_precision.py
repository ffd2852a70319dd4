"""Precisions: FP32, TF32, FP16, BF16, INT8 from dynamic ranges and Q/DQ, and per-layer constraints."""

import json

import numpy as np
import pytest

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    ON_GPU,
    build,
    captured,
    errors_in,
    inspect,
    load,
    needs,
    refused_on_cpu,
    relative_error,
    run,
)

IMAGES = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)
SMALL = np.random.default_rng(1).standard_normal((4, 3, 8, 8)).astype(np.float32)
DYNAMIC = {"x": ((1, 3, 8, 8), (4, 3, 8, 8), (8, 3, 8, 8))}


def error_of(plan: bytes | None, model: bytes, x: np.ndarray) -> float:
    return relative_error(run(plan, x=x), models.reference(model, x=x))


def set_ranges(network: object, config: object) -> None:
    """Give every tensor a range that the test images stay in."""
    tensors = [network.get_input(i) for i in range(network.num_inputs)]
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        tensors += [layer.get_output(i) for i in range(layer.num_outputs)]
    for tensor in tensors:
        assert tensor.set_dynamic_range(-5.0, 5.0)


def constrain(kind: str) -> object:
    """Return a customisation that pins every layer to `kind`."""

    def pin(network: object, config: object) -> None:
        for index in range(network.num_layers):
            layer = network.get_layer(index)
            if layer.type not in (trt.LayerType.CONSTANT, trt.LayerType.SHAPE, trt.LayerType.SHUFFLE):
                layer.precision = getattr(trt, kind)

    return pin


def test_config_starts_with_tf32_and_without_other_precisions() -> None:
    config = trt.Builder(LOG).create_builder_config()
    assert config.get_flag(trt.BuilderFlag.TF32) is True
    there = trt.BuilderFlag.__members__
    assert not any(config.get_flag(there[name]) for name in ("FP16", "INT8") if name in there)


@needs("BuilderFlag.FP16")
def test_flags_are_set_cleared_and_read_as_a_mask() -> None:
    config = trt.Builder(LOG).create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.set_flag(trt.BuilderFlag.FP16)
    config.set_flag(trt.BuilderFlag.INT8)
    assert config.flags == 1 << int(trt.BuilderFlag.FP16) | 1 << int(trt.BuilderFlag.INT8)
    config.clear_flag(trt.BuilderFlag.FP16)
    assert not config.get_flag(trt.BuilderFlag.FP16) and config.get_flag(trt.BuilderFlag.INT8)
    config.flags = 0
    assert not config.get_flag(trt.BuilderFlag.INT8)


@needs("Builder.platform_has_fast_fp16")
def test_platform_precisions_are_booleans() -> None:
    builder = trt.Builder(LOG)
    assert {type(builder.platform_has_fast_fp16), type(builder.platform_has_fast_int8)} == {bool}
    assert type(builder.platform_has_tf32) is bool


def test_fp32_equals_onnx_runtime() -> None:
    assert error_of(build(models.residual(4)), models.residual(), IMAGES) < 1e-5


def test_tf32_is_close_to_onnx_runtime() -> None:
    assert error_of(build(models.residual(4), flags=["TF32"]), models.residual(), IMAGES) < 5e-3


@needs("BuilderFlag.FP16")
def test_fp16_is_close_to_onnx_runtime() -> None:
    assert error_of(build(models.residual(4), flags=["FP16"]), models.residual(), IMAGES) < 2e-2


@needs("BuilderFlag.FP16")
def test_fp16_engine_is_smaller_than_fp32() -> None:
    sizes = {flags: len(build(models.heavy(), flags=flags)) for flags in ((), ("FP16",))}
    assert sizes[("FP16",)] < sizes[()]


@needs("BuilderFlag.BF16")
def test_bf16_is_close_to_onnx_runtime() -> None:
    assert error_of(build(models.residual(4), flags=["BF16"]), models.residual(), IMAGES) < 5e-2


@pytest.mark.parametrize("flag", [pytest.param(flag, marks=needs(f"BuilderFlag.{flag}")) for flag in ("FP8", "INT4")])
def test_precision_that_no_cpu_has_is_refused_by_name(flag: str) -> None:
    """On a GPU the flag is taken; whether a layer uses it is the builder's business."""
    refused_on_cpu(lambda: build(models.gemm(4), flags=[flag]), flag)
    config = trt.Builder(LOG).create_builder_config()
    refused_on_cpu(lambda: setattr(config, "flags", config.flags | 1 << int(getattr(trt.BuilderFlag, flag))), flag)


@needs("BuilderFlag.INT8")
def test_int8_without_any_scales_does_not_build() -> None:
    with captured() as messages:
        assert build(models.conv_relu(4), flags=["INT8"]) is None
    assert "alibrat" in errors_in(messages) or "scal" in errors_in(messages)


@needs("ITensor.dynamic_range")
def test_int8_from_dynamic_ranges_is_close() -> None:
    plan = build(models.residual(4), flags=["INT8"], customize=set_ranges)
    assert 1e-4 < error_of(plan, models.residual(), IMAGES) < 0.15


@needs("BuilderFlag.INT8")
def test_int8_from_quantize_nodes_is_close() -> None:
    plan = build(models.quantized(), flags=["INT8"], profiles=[DYNAMIC])
    # 6 % where weights of eight bits become such of seven, on a processor that adds products in 16 bits; else under 3 %
    assert error_of(plan, models.quantized(), SMALL) < 8e-2


@needs("ITensor.dynamic_range")
def test_int8_weights_are_scaled_per_channel() -> None:
    """Every channel is accurate by itself, though the channels' magnitudes span four orders."""

    def wide(network: object, config: object) -> None:
        network.get_input(0).set_dynamic_range(-4.0, 4.0)
        for index in range(network.num_layers):
            network.get_layer(index).get_output(0).set_dynamic_range(-300.0, 300.0)
        layer = network.get_layer(network.num_layers - 1)
        layer.get_output(0).reset_dynamic_range()

    found = run(build(models.wide_channels(), flags=["INT8"], profiles=[DYNAMIC], customize=wide), x=SMALL)
    expected = models.reference(models.wide_channels(), x=SMALL)
    errors = [relative_error(found[:, channel], expected[:, channel]) for channel in range(4, 8)]
    assert max(errors) < 0.5 and errors[-1] < 0.1


@needs("ITensor.dynamic_range")
def test_layers_outside_int8_run_in_fp32_without_the_fp16_flag() -> None:
    plan = build(models.mixed(), flags=["INT8"], profiles=[DYNAMIC], customize=set_ranges)
    text = json.dumps(inspect(plan)).upper()
    assert not any(name in text for name in ("FP16", "HALF", "BF16", "F16"))
    assert error_of(plan, models.mixed(), SMALL) < 0.15


@needs("ITensor.dynamic_range")
def test_int8_and_fp16_together_build_and_are_close() -> None:
    plan = build(models.mixed(), flags=["INT8", "FP16"], profiles=[DYNAMIC], customize=set_ranges)
    assert error_of(plan, models.mixed(), SMALL) < 0.15


@needs("BuilderFlag.OBEY_PRECISION_CONSTRAINTS")
@pytest.mark.parametrize("rule", ["OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS"])
def test_layers_pinned_to_fp32_are_exact_in_an_fp16_engine(rule: str) -> None:
    """Values near 1e6 overflow FP16, so the result is right only if the constraint is kept."""
    x = (500 * np.random.default_rng(2).standard_normal((2, 16))).astype(np.float32)
    plan = build(models.overflowing(), flags=["FP16", rule], customize=constrain("float32"))
    assert error_of(plan, models.overflowing(), x) < 1e-5


@needs("BuilderFlag.OBEY_PRECISION_CONSTRAINTS")
def test_inspector_shows_a_pinned_layer_in_fp32() -> None:
    def pin_stem(network: object, config: object) -> None:
        layers = [network.get_layer(index) for index in range(network.num_layers)]
        next(layer for layer in layers if layer.name == "stem").precision = trt.float32

    plan = build(models.residual(4), flags=["FP16", "OBEY_PRECISION_CONSTRAINTS"], customize=pin_stem)
    pinned = [layer for layer in inspect(plan)["Layers"] if layer["Name"] == "stem + stem_relu"]
    assert [layer["Weights"]["Type"] for layer in pinned] == ["Float"]


@needs("BuilderFlag.OBEY_PRECISION_CONSTRAINTS")
def test_layers_pinned_to_fp32_are_exact_in_an_int8_engine() -> None:
    def customize(network: object, config: object) -> None:
        set_ranges(network, config)
        constrain("float32")(network, config)

    plan = build(models.residual(4), flags=["INT8", "OBEY_PRECISION_CONSTRAINTS"], customize=customize)
    assert error_of(plan, models.residual(), IMAGES) < 1e-5


@needs("BuilderFlag.FP16")
def test_layer_pinned_to_fp16_needs_the_fp16_flag_when_obeyed() -> None:
    """TensorRT refuses, or builds FP16 layers nonetheless; the result stays close either way."""
    plan = build(models.gemm(4), flags=["OBEY_PRECISION_CONSTRAINTS"], customize=constrain("float16"))
    x = np.random.default_rng(3).standard_normal((4, 32)).astype(np.float32)
    assert plan is None or error_of(plan, models.gemm(), x) < 2e-2


@needs("BuilderFlag.FP16")
def test_inputs_and_outputs_stay_fp32_in_reduced_precision() -> None:
    engine = load(build(models.residual(4), flags=["FP16"]))
    assert engine.get_tensor_dtype("x") == engine.get_tensor_dtype("y") == trt.float32


@needs("BuilderFlag.FP16")
def test_inspector_shows_half_precision_where_it_ran() -> None:
    """TensorRT may keep a tiny network in FP32 when that is faster; the CPU engine follows the flag."""
    text = json.dumps(inspect(build(models.heavy(), flags=["FP16"]))).upper()
    half = any(name in text for name in ("FP16", "HALF", "F16"))
    assert half or ON_GPU or trt.half_precision() == "FP32"
