"""Serialized engines: what the runtime takes, what it refuses, and what an engine tells."""

import numpy as np
import pytest

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    ON_GPU,
    VERSION,
    build,
    captured,
    errors_in,
    load,
    needs,
    parsed,
    relative_error,
    run,
)

IMAGE = (3, 8, 8)
X = np.random.default_rng(0).standard_normal((4, *IMAGE)).astype(np.float32)


@pytest.fixture(scope="module")
def plan() -> bytes:
    return build(models.conv_relu(), profiles=[{"x": ((1, *IMAGE), (4, *IMAGE), (8, *IMAGE))}])


def deserialize(data: bytes) -> object:
    return trt.Runtime(LOG).deserialize_cuda_engine(data)


@pytest.mark.parametrize("data", [b"x" * 4096, b"", b"x"], ids=["garbage", "empty", "one byte"])
def test_bytes_that_are_no_plan_give_none(data: bytes) -> None:
    with captured() as messages:
        assert deserialize(data) is None
    assert errors_in(messages)


def test_onnx_file_is_no_plan() -> None:
    with captured() as messages:
        assert deserialize(models.residual()) is None
    assert errors_in(messages)


def test_truncated_plan_gives_none(plan: bytes) -> None:
    with captured() as messages:
        assert deserialize(plan[: len(plan) // 2]) is None
    assert errors_in(messages)


@pytest.mark.skipif(ON_GPU, reason="TensorRT has no checksum over the whole plan; a changed byte may crash it")
def test_plan_with_one_changed_byte_gives_none(plan: bytes) -> None:
    broken = bytearray(plan)
    broken[-100] ^= 1
    with captured() as messages:
        assert deserialize(bytes(broken)) is None
    assert errors_in(messages)


def test_plan_of_the_other_engine_gives_none() -> None:
    """Each engine's plans begin with its own magic bytes; the CPU engine says whose plan it was given."""
    with captured() as messages:
        assert deserialize((b"TRTCPUPL" if ON_GPU else b"ftrt") + bytes(4096)) is None
    assert errors_in(messages)
    assert ON_GPU or "GPU" in errors_in(messages) or "TensorRT" in errors_in(messages)


def test_plan_supports_the_buffer_protocol() -> None:
    builder, network, parser = parsed(models.conv_relu(4))
    memory = builder.build_serialized_network(network, builder.create_builder_config())
    assert memory.nbytes == len(bytes(memory)) == len(memoryview(memory))
    assert deserialize(memory) is not None


def test_serialize_of_an_engine_loads_again(plan: bytes) -> None:
    again = bytes(load(plan).serialize())
    np.testing.assert_array_equal(run(again, x=X), run(plan, x=X))


def test_engine_lists_its_tensors(plan: bytes) -> None:
    engine = load(plan)
    assert engine.num_io_tensors == 2
    assert [engine.get_tensor_name(i) for i in range(2)] == ["x", "y"]
    assert [engine.get_tensor_mode(n) for n in "xy"] == [trt.TensorIOMode.INPUT, trt.TensorIOMode.OUTPUT]
    assert [tuple(engine.get_tensor_shape(n)) for n in "xy"] == [(-1, *IMAGE), (-1, 8, 8, 8)]
    assert engine.get_tensor_dtype("x") == trt.DataType.FLOAT
    assert engine.get_tensor_location("x") == trt.TensorLocation.DEVICE
    assert engine.get_tensor_format("x") == trt.TensorFormat.LINEAR
    assert isinstance(engine.get_tensor_format_desc("x"), str)


def test_unknown_tensor_has_mode_none(plan: bytes) -> None:
    assert load(plan).get_tensor_mode("nobody") == trt.TensorIOMode.NONE


def test_engine_counts_layers_and_memory(plan: bytes) -> None:
    engine = load(plan)
    size = "device_memory_size_v2" if VERSION >= (11,) else "device_memory_size"
    assert engine.num_layers >= 1 and getattr(engine, size) >= 0
    assert getattr(engine, "has_implicit_batch_dimension", False) is False and engine.refittable is False


@needs("ICudaEngine.device_memory_size")
@needs("ICudaEngine.device_memory_size_v2")
def test_second_memory_size_equals_the_first(plan: bytes) -> None:
    engine = load(plan)
    assert engine.device_memory_size_v2 == engine.device_memory_size


def test_workspace_limit_is_kept_and_readable() -> None:
    config = trt.Builder(LOG).create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 64 << 20)
    assert config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE) == 64 << 20


def test_settings_without_effect_are_kept_and_readable() -> None:
    config = trt.Builder(LOG).create_builder_config()
    config.avg_timing_iterations = 4
    config.builder_optimization_level = 2
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    assert (config.avg_timing_iterations, config.builder_optimization_level) == (4, 2)
    assert config.profiling_verbosity == trt.ProfilingVerbosity.DETAILED
    sources = 1 << int(trt.TacticSource.JIT_CONVOLUTIONS)
    assert config.set_tactic_sources(sources) is True and config.get_tactic_sources() == sources


@pytest.mark.parametrize("level", range(6))
def test_every_optimization_level_gives_the_right_result(level: int) -> None:
    def customize(network: object, config: object) -> None:
        config.builder_optimization_level = level

    plan = build(models.conv_relu(4), customize=customize)
    assert relative_error(run(plan, x=X), models.reference(models.conv_relu(), x=X)) < 1e-5


def test_good_network_is_supported() -> None:
    builder, network, parser = parsed(models.conv_relu(4))
    assert builder.is_network_supported(network, builder.create_builder_config()) is True
