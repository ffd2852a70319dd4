"""Device memory under pycuda.driver's names."""

import numpy as np
import pytest

from helpers.engine.backend import cuda


def test_bytes_come_back_as_they_went() -> None:
    data = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)
    memory, back = cuda.mem_alloc(data.nbytes), np.zeros_like(data)
    cuda.memcpy_htod(memory, data)
    cuda.memcpy_dtoh(back, memory)
    np.testing.assert_array_equal(back, data)


def test_device_to_device_copy() -> None:
    data, back = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    source, target = cuda.mem_alloc(data.nbytes), cuda.mem_alloc(data.nbytes)
    cuda.memcpy_htod(source, data)
    cuda.memcpy_dtod(target, source, data.nbytes)
    cuda.memcpy_dtoh(back, target)
    np.testing.assert_array_equal(back, data)


def test_memset_sets_bytes() -> None:
    memory, back = cuda.mem_alloc(64), np.zeros(64, np.uint8)
    cuda.memset_d8(memory, 7, 64)
    cuda.memcpy_dtoh(back, memory)
    assert set(back) == {7}


def test_address_is_an_integer_and_offsets_reach_inside() -> None:
    data, back = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
    memory = cuda.mem_alloc(data.nbytes)
    cuda.memcpy_htod(memory, data)
    cuda.memcpy_dtoh(back, int(memory) + 16)
    np.testing.assert_array_equal(back, data[4:8])


def test_size_may_come_from_numpy() -> None:
    data = np.zeros((2, 3), np.float32)
    assert int(cuda.mem_alloc(int(np.prod(data.shape)) * data.itemsize)) > 0


def test_array_that_is_not_contiguous_is_refused() -> None:
    memory, image = cuda.mem_alloc(8 * 8 * 3 * 4), np.zeros((8, 8, 3), np.float32)
    with pytest.raises(ValueError):
        cuda.memcpy_htod(memory, image.transpose(2, 0, 1))


def test_read_only_target_is_refused() -> None:
    target = np.zeros(4, np.float32)
    target.flags.writeable = False
    with pytest.raises((ValueError, BufferError, TypeError)):
        cuda.memcpy_dtoh(target, cuda.mem_alloc(16))


def test_second_free_is_refused() -> None:
    memory = cuda.mem_alloc(64)
    memory.free()
    with pytest.raises(cuda.LogicError):
        memory.free()


def test_null_pointer_is_refused() -> None:
    with pytest.raises(cuda.LogicError):
        cuda.memcpy_htod(0, np.zeros(4, np.float32))


def test_more_memory_than_there_is_is_refused() -> None:
    with pytest.raises(cuda.MemoryError):
        cuda.mem_alloc(1 << 46)


def test_free_memory_is_below_the_total() -> None:
    free, total = cuda.mem_get_info()
    assert 0 < free <= total


@pytest.mark.parametrize("shape", [8, (2, 4)], ids=["number", "tuple"])
def test_pagelocked_arrays_are_numpy_arrays(shape: object) -> None:
    array = cuda.pagelocked_zeros(shape, np.float32)
    assert array.dtype == np.float32 and not array.any() and array.flags.c_contiguous
    assert cuda.pagelocked_empty(shape, np.int8).dtype == np.int8


def test_device_has_a_name_and_memory() -> None:
    device = cuda.Context.get_device()
    assert device.name() and device.total_memory() > 0 and cuda.Device.count() >= 1
