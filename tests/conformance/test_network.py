"""INetworkDefinition, its tensors and layers."""

import numpy as np

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    build,
    captured,
    errors_in,
    load,
    needs,
    parsed,
    relative_error,
    run,
)

X = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype(np.float32)


def layer_named(network: object, name: str) -> object:
    return next(layer for i in range(network.num_layers) if (layer := network.get_layer(i)).name == name)


@needs("NetworkDefinitionCreationFlag.EXPLICIT_BATCH")
def test_explicit_batch_flag_is_accepted_and_builds() -> None:
    builder = trt.Builder(LOG)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert network.has_implicit_batch_dimension is False
    assert build(models.conv_relu(4)) is not None


def test_tensors_tell_name_shape_and_type() -> None:
    _, network, parser = parsed(models.conv_relu())
    x, y = network.get_input(0), network.get_output(0)
    assert (x.name, tuple(x.shape), x.dtype) == ("x", (-1, 3, 8, 8), trt.float32)
    assert (y.name, tuple(y.shape)) == ("y", (-1, 8, 8, 8))
    assert x.is_network_input and y.is_network_output and not x.is_network_output


def test_layers_tell_name_type_and_tensors() -> None:
    _, network, parser = parsed(models.conv_relu())
    conv, relu = layer_named(network, "conv1"), layer_named(network, "relu1")
    assert (conv.type, relu.type) == (trt.LayerType.CONVOLUTION, trt.LayerType.ACTIVATION)
    assert conv.num_outputs == 1 and conv.get_output(0).name == "c"
    assert conv.get_input(0).name == "x" and relu.get_input(0).name == "c"


def test_marked_tensor_becomes_an_output() -> None:
    def mark(network: object, config: object) -> None:
        network.mark_output(layer_named(network, "conv1").get_output(0))
        assert network.num_outputs == 2

    plan = build(models.conv_relu(4), customize=mark)
    conv = run(plan, "c", x=X)
    assert relative_error(np.maximum(conv, 0), models.reference(models.conv_relu(), x=X)) < 1e-5
    assert conv.min() < 0


def test_unmarked_output_is_gone() -> None:
    def move(network: object, config: object) -> None:
        network.mark_output(layer_named(network, "conv1").get_output(0))
        network.unmark_output(network.get_output(0))

    engine = load(build(models.conv_relu(4), customize=move))
    assert [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)] == ["x", "c"]


def test_fixing_a_dynamic_input_shape_makes_a_static_engine() -> None:
    def fix(network: object, config: object) -> None:
        network.get_input(0).shape = (4, 3, 8, 8)

    plan = build(models.conv_relu(), customize=fix)
    assert tuple(load(plan).get_tensor_shape("x")) == (4, 3, 8, 8)
    assert relative_error(run(plan, x=X), models.reference(models.conv_relu(), x=X)) < 1e-5


@needs("ILayer.precision")
def test_layer_precision_is_kept_and_reset() -> None:
    _, network, parser = parsed(models.conv_relu())
    layer = layer_named(network, "conv1")
    assert layer.precision_is_set is False
    layer.precision = trt.float16
    assert layer.precision == trt.float16 and layer.precision_is_set is True
    layer.reset_precision()
    assert layer.precision_is_set is False


@needs("ILayer.set_output_type")
def test_layer_output_type_is_kept_and_reset() -> None:
    _, network, parser = parsed(models.conv_relu())
    layer = layer_named(network, "conv1")
    assert layer.output_type_is_set(0) is False
    layer.set_output_type(0, trt.float16)
    assert layer.get_output_type(0) == trt.float16 and layer.output_type_is_set(0) is True
    layer.reset_output_type(0)
    assert layer.output_type_is_set(0) is False


@needs("ITensor.dynamic_range")
def test_dynamic_range_is_kept_and_reset() -> None:
    _, network, parser = parsed(models.conv_relu())
    x = network.get_input(0)
    assert x.dynamic_range is None
    assert x.set_dynamic_range(-3.0, 3.0) is True
    assert x.dynamic_range == (-3.0, 3.0)
    x.reset_dynamic_range()
    assert x.dynamic_range is None


@needs("NetworkDefinitionCreationFlag.STRONGLY_TYPED")
def test_strongly_typed_network_takes_its_types_from_onnx() -> None:
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    plan = build(models.fp16_gemm(), network_flags=flags)
    engine = load(plan)
    assert engine.get_tensor_dtype("x") == engine.get_tensor_dtype("y") == trt.float16
    x = np.random.default_rng(1).standard_normal((4, 32)).astype(np.float16)
    assert relative_error(run(plan, x=x), models.reference(models.fp16_gemm(), x=x).astype(np.float32)) < 1e-2


@needs("BuilderFlag.FP16")
@needs("NetworkDefinitionCreationFlag.STRONGLY_TYPED")
def test_strongly_typed_network_rejects_precision_flags() -> None:
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    with captured() as messages:
        assert build(models.gemm(4), network_flags=flags, flags=["FP16"]) is None
    assert errors_in(messages)
