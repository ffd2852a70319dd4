"""Optimization profiles: their checks when set, when built and when executed."""

import numpy as np
import pytest

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import (
    LOG,
    VERSION,
    Buffers,
    build,
    captured,
    errors_in,
    load,
    refused_on_cpu,
    relative_error,
    run,
)

IMAGE = (3, 8, 8)
ONE_TO_EIGHT = {"x": ((1, *IMAGE), (4, *IMAGE), (8, *IMAGE))}
SIXTEEN_UP = {"x": ((16, *IMAGE), (16, *IMAGE), (32, *IMAGE))}


def images(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, *IMAGE)).astype(np.float32)


@pytest.fixture(scope="module")
def dynamic_plan() -> bytes:
    return build(models.conv_relu(), profiles=[ONE_TO_EIGHT])


@pytest.fixture(scope="module")
def two_profile_plan() -> bytes:
    return build(models.conv_relu(), profiles=[ONE_TO_EIGHT, SIXTEEN_UP])


def test_dynamic_input_without_a_profile_does_not_build() -> None:
    with captured() as messages:
        assert build(models.conv_relu()) is None
    assert "profile" in errors_in(messages)


def test_min_above_opt_is_refused_by_the_profile_and_the_config() -> None:
    builder = trt.Builder(LOG)
    profile, config = builder.create_optimization_profile(), builder.create_builder_config()
    assert profile  # nothing is out of order yet
    with captured() as messages:
        assert profile.set_shape("x", (8, *IMAGE), (4, *IMAGE), (8, *IMAGE)) is None
        assert bool(profile) is False
        assert config.add_optimization_profile(profile) == -1
    assert "MIN<=OPT<=MAX" in errors_in(messages).replace(" ", "")
    assert config.num_optimization_profiles == 0


def test_good_profile_is_true_and_gets_index_zero() -> None:
    builder = trt.Builder(LOG)
    profile, config = builder.create_optimization_profile(), builder.create_builder_config()
    profile.set_shape("x", *ONE_TO_EIGHT["x"])
    assert profile and [tuple(shape) for shape in profile.get_shape("x")] == list(ONE_TO_EIGHT["x"])
    assert config.add_optimization_profile(profile) == 0 and config.num_optimization_profiles == 1


def test_shape_input_values_are_kept_or_refused_by_name() -> None:
    profile = trt.Builder(LOG).create_optimization_profile()

    def attempt() -> None:
        profile.set_shape_input("size", (1,), (2,), (4,))
        assert [list(values) for values in profile.get_shape_input("size")] == [[1], [2], [4]]

    refused_on_cpu(attempt, "set_shape_input")


def test_profile_against_a_fixed_dimension_does_not_build() -> None:
    shapes = {"x": ((1, 1, 8, 8), (4, 3, 8, 8), (8, 3, 8, 8))}
    with captured() as messages:
        assert build(models.conv_relu(), profiles=[shapes]) is None
    assert errors_in(messages)


def test_profile_of_the_wrong_rank_does_not_build() -> None:
    with captured() as messages:
        assert build(models.conv_relu(), profiles=[{"x": ((1, 3, 8), (4, 3, 8), (8, 3, 8))}]) is None
    assert errors_in(messages)


def test_profile_that_misses_a_dynamic_input_does_not_build() -> None:
    with captured() as messages:
        assert build(models.two_inputs(), profiles=[{"a": ((1, 4), (2, 4), (4, 4))}]) is None
    assert "b" in errors_in(messages)


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_every_batch_of_the_profile_gives_the_right_result(dynamic_plan: bytes, batch: int) -> None:
    x = images(batch)
    assert relative_error(run(dynamic_plan, x=x), models.reference(models.conv_relu(), x=x)) < 1e-5


def test_one_context_takes_batches_one_after_another(dynamic_plan: bytes) -> None:
    buffers = Buffers(load(dynamic_plan))
    for batch in (8, 1, 5):
        x = images(batch)
        buffers.upload({"x": x})
        assert buffers.execute()
        assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=x)) < 1e-5


def test_two_inputs_keep_their_own_profiles() -> None:
    shapes = {name: ((1, 4), (2, 4), (4, 4)) for name in "ab"}
    plan = build(models.two_inputs(), profiles=[shapes])
    a, b = np.ones((3, 4), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(run(plan, a=a, b=b), a + 2 * b)


@pytest.mark.parametrize("batch", [0, 9])
def test_batch_outside_the_profile_is_refused_and_the_shape_stays(dynamic_plan: bytes, batch: int) -> None:
    context = load(dynamic_plan).create_execution_context()
    assert context.set_input_shape("x", (2, *IMAGE)) is True
    with captured() as messages:
        assert context.set_input_shape("x", (batch, *IMAGE)) is False
    assert errors_in(messages)
    assert tuple(context.get_tensor_shape("x")) == (2, *IMAGE)


def test_changed_fixed_dimension_is_refused(dynamic_plan: bytes) -> None:
    context = load(dynamic_plan).create_execution_context()
    assert context.set_input_shape("x", (1, 3, 9, 8)) is False


def test_engine_tells_its_profiles(two_profile_plan: bytes) -> None:
    engine = load(two_profile_plan)
    assert engine.num_optimization_profiles == 2
    for index, shapes in enumerate((ONE_TO_EIGHT, SIXTEEN_UP)):
        assert [tuple(shape) for shape in engine.get_tensor_profile_shape("x", index)] == list(shapes["x"])
    assert tuple(engine.get_tensor_shape("x")) == (-1, *IMAGE)


def test_context_starts_with_profile_zero_and_switches(two_profile_plan: bytes) -> None:
    buffers = Buffers(load(two_profile_plan))
    assert buffers.context.active_optimization_profile == 0
    # Any profile's range will do here; the active profile counts at execution.
    assert buffers.context.set_input_shape("x", (16, *IMAGE)) is True
    assert buffers.context.set_input_shape("x", (12, *IMAGE)) is False
    assert buffers.context.set_optimization_profile_async(1, buffers.stream.handle) is True
    buffers.stream.synchronize()
    assert buffers.context.active_optimization_profile == 1
    x = images(16)
    buffers.upload({"x": x})
    assert buffers.execute()
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=x)) < 1e-5


@pytest.mark.skipif(VERSION < (10,), reason="TensorRT 8.6 ends the process")
def test_profile_that_does_not_exist_is_refused(two_profile_plan: bytes) -> None:
    buffers = Buffers(load(two_profile_plan))
    with captured() as messages:
        assert buffers.context.set_optimization_profile_async(2, buffers.stream.handle) is False
    assert errors_in(messages) and buffers.context.active_optimization_profile == 0
