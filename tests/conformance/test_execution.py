"""IExecutionContext: shapes, addresses, synchronous and asynchronous execution, and what it refuses."""

import numpy as np
import pytest

from helpers.engine.backend import cuda, trt
from tests.conformance import models
from tests.conformance.support import ON_GPU, VERSION, Buffers, build, captured, errors_in, load, relative_error

IMAGE = (3, 8, 8)
X = np.random.default_rng(0).standard_normal((4, *IMAGE)).astype(np.float32)


@pytest.fixture(scope="module")
def plan() -> bytes:
    return build(models.conv_relu(), profiles=[{"x": ((1, *IMAGE), (4, *IMAGE), (8, *IMAGE))}])


@pytest.fixture
def buffers(plan: bytes) -> Buffers:
    return Buffers(load(plan))


def test_enqueue_and_synchronise_give_the_right_result(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    assert buffers.context.execute_async_v3(buffers.stream.handle) is True
    buffers.stream.synchronize()
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=X)) < 1e-5


def test_argument_can_be_named_stream_handle(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    assert buffers.context.execute_async_v3(stream_handle=buffers.stream.handle) is True
    buffers.stream.synchronize()


def test_execute_v2_takes_the_addresses_in_the_order_of_the_tensors(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    assert buffers.context.execute_v2([int(buffers.memory[name]) for name in ("x", "y")]) is True
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=X)) < 1e-5


def test_same_input_gives_the_same_output_every_time(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    assert buffers.execute()
    first = buffers.fetch()
    assert buffers.execute()
    np.testing.assert_array_equal(buffers.fetch(), first)


def test_new_data_at_the_same_address_is_seen(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    assert buffers.execute()
    cuda.memcpy_htod(buffers.memory["x"], 2 * X)
    assert buffers.execute()
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=2 * X)) < 1e-5


def test_moved_output_address_is_used(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    other = cuda.mem_alloc(4 * 8 * 8 * 8 * 4)
    assert buffers.context.set_tensor_address("y", int(other)) is True
    assert buffers.context.get_tensor_address("y") == int(other)
    assert buffers.execute()
    found = np.empty((4, 8, 8, 8), np.float32)
    cuda.memcpy_dtoh(found, other)
    assert relative_error(found, models.reference(models.conv_relu(), x=X)) < 1e-5


def test_offset_into_an_allocation_is_an_address(buffers: Buffers) -> None:
    buffers.upload({"x": X})
    pool = cuda.mem_alloc(1024 + X.nbytes)
    cuda.memcpy_htod(int(pool) + 1024, X)
    assert buffers.context.set_tensor_address("x", int(pool) + 1024)
    assert buffers.execute()
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=X)) < 1e-5


def test_unset_address_is_refused(plan: bytes) -> None:
    context, stream = load(plan).create_execution_context(), cuda.Stream()
    assert context.set_input_shape("x", X.shape)
    with captured() as messages:
        assert context.execute_async_v3(stream.handle) is False
    assert errors_in(messages)


def test_unset_shape_is_refused(plan: bytes) -> None:
    context, stream = load(plan).create_execution_context(), cuda.Stream()
    memory = {name: cuda.mem_alloc(8 * 8 * 8 * 8 * 4) for name in "xy"}
    for name, allocation in memory.items():
        assert context.set_tensor_address(name, int(allocation))
    with captured() as messages:
        assert context.execute_async_v3(stream.handle) is False
    assert errors_in(messages)


def test_unknown_names_are_refused(buffers: Buffers) -> None:
    memory = cuda.mem_alloc(16)
    with captured() as messages:
        assert buffers.context.set_tensor_address("nobody", int(memory)) is False
        assert buffers.context.set_input_shape("nobody", (1, *IMAGE)) is False
    assert errors_in(messages)


def test_output_shape_is_not_an_input_shape(buffers: Buffers) -> None:
    assert buffers.context.set_input_shape("y", (1, 8, 8, 8)) is False


def test_output_shape_follows_the_input(buffers: Buffers) -> None:
    for batch in (1, 8):
        assert buffers.context.set_input_shape("x", (batch, *IMAGE))
        assert tuple(buffers.context.get_tensor_shape("x")) == (batch, *IMAGE)
        assert tuple(buffers.context.get_tensor_shape("y")) == (batch, 8, 8, 8)


def test_output_shape_before_the_inputs_has_no_rank(buffers: Buffers) -> None:
    """Rank -1 in 8.6, so that len() raises ValueError; a version may give the rank with -1 for the unknown batch."""
    shape = buffers.context.get_tensor_shape("y")
    try:
        assert tuple(shape) == (-1, 8, 8, 8)
    except ValueError:
        with pytest.raises(ValueError):
            len(shape)


def test_missing_shapes_are_listed_by_infer_shapes(buffers: Buffers) -> None:
    assert buffers.context.all_binding_shapes_specified is False
    assert buffers.context.infer_shapes() == ["x"]
    assert buffers.context.set_input_shape("x", X.shape)
    assert buffers.context.infer_shapes() == []
    if VERSION >= (10,) or buffers.engine.num_optimization_profiles == 1:  # 8.6 counts the bindings of every profile
        assert buffers.context.all_binding_shapes_specified is True


def test_static_engine_needs_no_shapes() -> None:
    context = load(build(models.conv_relu(4))).create_execution_context()
    assert context.all_binding_shapes_specified is True
    assert tuple(context.get_tensor_shape("y")) == (4, 8, 8, 8)


def test_context_knows_its_engine_and_keeps_its_name(plan: bytes) -> None:
    engine = load(plan)
    context = engine.create_execution_context()
    context.name = "first"
    assert context.name == "first" and context.engine.num_io_tensors == 2


def test_tensor_strides_are_those_of_a_packed_array(buffers: Buffers) -> None:
    assert buffers.context.set_input_shape("x", X.shape)
    assert tuple(buffers.context.get_tensor_strides("x")) == (192, 64, 8, 1)


def test_failed_execution_leaves_the_context_usable(plan: bytes) -> None:
    buffers = Buffers(load(plan))
    with captured() as messages:
        assert buffers.context.execute_async_v3(buffers.stream.handle) is False
    assert errors_in(messages)
    buffers.upload({"x": X})
    assert buffers.execute()
    assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=X)) < 1e-5


def test_shapes_are_taken_as_tuple_list_or_dims(buffers: Buffers) -> None:
    for shape in ((2, *IMAGE), [3, *IMAGE], trt.Dims([4, *IMAGE])):
        assert buffers.context.set_input_shape("x", shape) is True
        assert tuple(buffers.context.get_tensor_shape("x")) == tuple(shape)


@pytest.mark.skipif(ON_GPU, reason="an illegal access ends the CUDA context, and with it every later case")
@pytest.mark.parametrize("wrong", ["host", "short", "freed"])
def test_address_that_is_no_device_memory_of_that_size_is_an_error(buffers: Buffers, wrong: str) -> None:
    buffers.upload({"x": X})
    host, short, freed = np.zeros_like(X), cuda.mem_alloc(8), cuda.mem_alloc(X.nbytes)
    freed.free()
    addresses = {"host": host.ctypes.data, "short": int(short), "freed": int(freed)}
    assert buffers.context.set_tensor_address("x", addresses[wrong])
    # The host array may lie where an allocation was freed before; then that is what is found.
    reason = {"host": "no device memory|freed", "short": "8 bytes", "freed": "freed"}[wrong]
    with pytest.raises(cuda.LogicError, match=reason):
        buffers.execute()
