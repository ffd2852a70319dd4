"""pycuda.driver's names on the CPU engine: allocations, copies, page-locked arrays and the device."""

import gc

import numpy as np
import pytest

from tests.trtcpu.support import A
from trtcpu import cuda
from trtcpu.errors import UnsupportedError


def test_copy_past_the_end_is_refused_before_anything_is_enqueued(stream: cuda.Stream) -> None:
    memory = cuda.mem_alloc(16)
    for copy in (lambda: cuda.memcpy_htod_async(memory, A, stream), lambda: cuda.memcpy_dtoh(A.copy(), memory)):
        with pytest.raises(cuda.LogicError, match="leaves its 16 bytes"):
            copy()
    with pytest.raises(cuda.LogicError, match="leaves"):
        cuda.memset_d8(memory, 0, 17)
    with pytest.raises(cuda.LogicError, match="leaves"):
        cuda.memcpy_dtod(memory, memory, 17)
    assert stream.idle()


def test_memory_is_freed_with_the_last_reference_to_its_object() -> None:
    address = int(cuda.mem_alloc(64))
    gc.collect()
    with pytest.raises(cuda.LogicError, match="freed"):
        cuda.memcpy_dtoh(np.empty(4, np.float32), address)


def test_freeing_memory_in_use_by_a_stream_is_harmless(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    host = cuda.pagelocked_zeros_like(A)
    cuda.memcpy_dtoh_async(host, memory, stream)
    memory.free()
    unblock()
    stream.synchronize()
    np.testing.assert_array_equal(host, A)


def test_double_free_is_refused() -> None:
    memory = cuda.mem_alloc(64)
    memory.free()
    with pytest.raises(cuda.LogicError, match="freed already"):
        memory.free()


@pytest.mark.parametrize("array", [np.zeros((4, 6), np.float32)[:, ::2], np.zeros((4, 6), np.float32).T])
def test_array_that_is_not_in_c_order_is_refused(array: np.ndarray) -> None:
    memory = cuda.mem_alloc(96)
    with pytest.raises(ValueError, match="ascontiguousarray"):
        cuda.memcpy_htod(memory, array)
    with pytest.raises(cuda.LogicError, match="contiguous"):
        cuda.memcpy_dtoh_async(array, memory)


def test_read_only_target_is_refused() -> None:
    target = np.zeros(4, np.float32)
    target.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        cuda.memcpy_dtoh(target, cuda.mem_alloc(16))


@pytest.mark.parametrize("data", [b"12345678", bytearray(8), memoryview(b"12345678"), np.ones((), "f8")])
def test_anything_with_a_buffer_can_be_copied(data: object) -> None:
    memory, back = cuda.to_device(data), np.empty(8, np.uint8)
    cuda.memcpy_dtoh(back, memory)
    assert back.tobytes() == bytes(memoryview(data))


def test_round_trip_helpers_keep_shape_and_type() -> None:
    image = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float16)
    memory = cuda.to_device(image)
    np.testing.assert_array_equal(cuda.from_device(memory, image.shape, image.dtype), image)
    np.testing.assert_array_equal(cuda.from_device_like(memory, image), image)


def test_pagelocked_arrays_have_shape_type_and_alignment() -> None:
    array = cuda.pagelocked_zeros((3, 5), np.float32)
    assert array.shape == (3, 5) and array.dtype == np.float32 and not array.any() and array.ctypes.data % 64 == 0
    assert cuda.pagelocked_empty(7, np.int8).shape == (7,) and cuda.pagelocked_empty((0, 3), np.int8).size == 0
    assert cuda.pagelocked_empty_like(array).shape == cuda.pagelocked_zeros_like(array).shape == (3, 5)


def test_names_that_need_a_gpu_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"CPU engine has no cuda\.Function"):
        cuda.Function  # noqa: B018
    with pytest.raises(UnsupportedError, match="compute capability"):
        cuda.Device(0).compute_capability()
    with pytest.raises(AttributeError, match="no_such"):
        cuda.no_such  # noqa: B018


def test_there_is_one_device_named_as_the_cpu_engine() -> None:
    assert cuda.Device.count() == 1 and cuda.Device(0).name().startswith("CPU engine, ")
    with pytest.raises(cuda.LogicError, match="no device 1"):
        cuda.Device(1)
    cuda.init()
    context = cuda.Device(0).make_context()
    context.push()
    cuda.Context.pop()
    context.detach()


def test_all_is_sorted_and_complete() -> None:
    assert cuda.__all__ == sorted(cuda.__all__) and all(hasattr(cuda, name) for name in cuda.__all__)
