"""Device memory as a registry of host buffers: every access is checked."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.device import memory
from trtcpu.device.memory import DeviceMemoryError, LogicError, OutOfMemoryError
from trtcpu.errors import EngineError


@pytest.fixture
def address() -> int:
    """A kibibyte of device memory."""
    address = memory.allocate(1024)
    yield address
    memory.release(address)


def test_addresses_are_aligned_to_64_bytes() -> None:
    addresses = [memory.allocate(size) for size in (1, 63, 64, 65, 1000)]
    assert [address % 64 for address in addresses] == [0] * 5
    for address in addresses:
        memory.release(address)


def test_new_memory_is_zero(address: int) -> None:
    assert not memory.view(address, 1024).any()


def test_view_is_the_memory_itself(address: int) -> None:
    memory.view(address, 1024)[10] = 7
    assert memory.view(address + 10, 1)[0] == 7
    assert memory.view(address, 16).ctypes.data == address


@given(offset=st.integers(-2000, 3000), nbytes=st.integers(-10, 3000))
@settings(max_examples=200)
def test_view_is_given_exactly_for_ranges_inside_the_allocation(offset: int, nbytes: int) -> None:
    address = memory.allocate(1024)
    try:
        inside = 0 <= offset < 1024 and 0 <= nbytes and offset + nbytes <= 1024
        if inside:
            assert memory.view(address + offset, nbytes).nbytes == nbytes
        elif 0 <= offset < 1024:
            with pytest.raises(DeviceMemoryError):
                memory.view(address + offset, nbytes)
    finally:
        memory.release(address)


def test_access_past_the_end_names_offset_and_size(address: int) -> None:
    with pytest.raises(DeviceMemoryError, match=r"100 bytes at offset 1000 .* leaves its 1024 bytes"):
        memory.view(address + 1000, 100)


def test_address_of_a_host_array_is_no_device_memory() -> None:
    host = np.zeros(16, np.float32)
    # The host's allocator may have given the place of freed device memory; then that is what is said.
    with pytest.raises(DeviceMemoryError, match="no device memory|freed"):
        memory.view(host.ctypes.data, 64)


def test_use_after_free_says_that_it_was_freed() -> None:
    address = memory.allocate(1 << 20)
    memory.release(address)
    with pytest.raises(DeviceMemoryError, match="freed"):
        memory.view(address + 512, 4)


def test_double_free_says_so() -> None:
    address = memory.allocate(64)
    memory.release(address)
    with pytest.raises(DeviceMemoryError, match="freed already"):
        memory.release(address)


def test_freeing_the_middle_of_an_allocation_is_refused(address: int) -> None:
    with pytest.raises(DeviceMemoryError, match="inside device allocation"):
        memory.release(address + 64)


def test_freeing_an_address_that_was_never_allocated_is_refused() -> None:
    with pytest.raises(DeviceMemoryError, match="never allocated"):
        memory.release(0x40)


def test_allocated_bytes_follow_allocations() -> None:
    before = memory.allocated_bytes()
    address = memory.allocate(4096)
    assert memory.allocated_bytes() == before + 4096
    memory.release(address)
    assert memory.allocated_bytes() == before


def test_view_outlives_the_free_without_touching_other_memory() -> None:
    address = memory.allocate(1 << 16)
    view = memory.view(address, 1 << 16)
    memory.release(address)
    other = memory.allocate(1 << 16)
    view.fill(9)
    assert not memory.view(other, 1 << 16).any()
    memory.release(other)


@pytest.mark.parametrize("nbytes", [0, -1])
def test_size_that_is_not_positive_is_refused(nbytes: int) -> None:
    with pytest.raises(LogicError, match="at least 1"):
        memory.allocate(nbytes)


def test_more_than_the_machine_has_is_refused_before_it_is_touched() -> None:
    with pytest.raises(OutOfMemoryError, match="are free"):
        memory.allocate(1 << 50)


def test_errors_are_the_labs_engine_errors() -> None:
    assert issubclass(DeviceMemoryError, LogicError) and issubclass(LogicError, EngineError)
    assert issubclass(OutOfMemoryError, EngineError)


def test_pagelocked_memory_counts_as_such_while_a_view_of_it_lives() -> None:
    buffer = memory.pagelocked_buffer(4096)
    inside, start = buffer[100:200], buffer.ctypes.data
    assert memory.is_pagelocked(start) and memory.is_pagelocked(start + 4095)
    assert not memory.is_pagelocked(start + 4096)
    del buffer
    gc.collect()
    assert memory.is_pagelocked(start + 150)
    del inside
    gc.collect()
    assert not memory.is_pagelocked(start)


def test_pagelocked_memory_leaves_no_class_behind() -> None:
    before = len(object.__subclasses__())
    kept = [memory.pagelocked_buffer(64) for _ in range(8)]
    assert len(object.__subclasses__()) == before
    del kept
