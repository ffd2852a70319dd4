"""Device memory as a registry of host buffers: every access is checked."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cpu_engine import _memory
from helpers.cpu_engine._memory import DeviceMemoryError, LogicError, OutOfMemoryError
from helpers.errors import EngineError


@pytest.fixture
def address() -> int:
    """A kibibyte of device memory."""
    address = _memory.allocate(1024)
    yield address
    _memory.release(address)


def test_addresses_are_aligned_to_64_bytes() -> None:
    addresses = [_memory.allocate(size) for size in (1, 63, 64, 65, 1000)]
    assert [address % 64 for address in addresses] == [0] * 5
    for address in addresses:
        _memory.release(address)


def test_new_memory_is_zero(address: int) -> None:
    assert not _memory.view(address, 1024).any()


def test_view_is_the_memory_itself(address: int) -> None:
    _memory.view(address, 1024)[10] = 7
    assert _memory.view(address + 10, 1)[0] == 7
    assert _memory.view(address, 16).ctypes.data == address


@given(offset=st.integers(-2000, 3000), nbytes=st.integers(-10, 3000))
@settings(max_examples=200, deadline=None)
def test_view_is_given_exactly_for_ranges_inside_the_allocation(offset: int, nbytes: int) -> None:
    address = _memory.allocate(1024)
    try:
        inside = 0 <= offset < 1024 and 0 <= nbytes and offset + nbytes <= 1024
        if inside:
            assert _memory.view(address + offset, nbytes).nbytes == nbytes
        elif 0 <= offset < 1024:
            with pytest.raises(DeviceMemoryError):
                _memory.view(address + offset, nbytes)
    finally:
        _memory.release(address)


def test_access_past_the_end_names_offset_and_size(address: int) -> None:
    with pytest.raises(DeviceMemoryError, match=r"100 bytes at offset 1000 .* leaves its 1024 bytes"):
        _memory.view(address + 1000, 100)


def test_address_of_a_host_array_is_no_device_memory() -> None:
    host = np.zeros(16, np.float32)
    with pytest.raises(DeviceMemoryError, match="no device memory"):
        _memory.view(host.ctypes.data, 64)


def test_use_after_free_says_that_it_was_freed() -> None:
    address = _memory.allocate(1 << 20)
    _memory.release(address)
    with pytest.raises(DeviceMemoryError, match="freed"):
        _memory.view(address + 512, 4)


def test_double_free_says_so() -> None:
    address = _memory.allocate(64)
    _memory.release(address)
    with pytest.raises(DeviceMemoryError, match="freed already"):
        _memory.release(address)


def test_freeing_the_middle_of_an_allocation_is_refused(address: int) -> None:
    with pytest.raises(DeviceMemoryError, match="inside device allocation"):
        _memory.release(address + 64)


def test_freeing_an_address_that_was_never_allocated_is_refused() -> None:
    with pytest.raises(DeviceMemoryError, match="never allocated"):
        _memory.release(0x40)


def test_allocated_bytes_follow_allocations() -> None:
    before = _memory.allocated_bytes()
    address = _memory.allocate(4096)
    assert _memory.allocated_bytes() == before + 4096
    _memory.release(address)
    assert _memory.allocated_bytes() == before


def test_view_outlives_the_free_without_touching_other_memory() -> None:
    address = _memory.allocate(1 << 16)
    view = _memory.view(address, 1 << 16)
    _memory.release(address)
    other = _memory.allocate(1 << 16)
    view.fill(9)
    assert not _memory.view(other, 1 << 16).any()
    _memory.release(other)


@pytest.mark.parametrize("nbytes", [0, -1])
def test_size_that_is_not_positive_is_refused(nbytes: int) -> None:
    with pytest.raises(LogicError, match="at least 1"):
        _memory.allocate(nbytes)


def test_more_than_the_machine_has_is_refused_before_it_is_touched() -> None:
    with pytest.raises(OutOfMemoryError, match="are free"):
        _memory.allocate(1 << 50)


def test_errors_are_the_labs_engine_errors() -> None:
    assert issubclass(DeviceMemoryError, LogicError) and issubclass(LogicError, EngineError)
    assert issubclass(OutOfMemoryError, EngineError)


def test_pagelocked_memory_counts_as_such_while_a_view_of_it_lives() -> None:
    buffer = _memory.pagelocked_buffer(4096)
    inside, start = buffer[100:200], buffer.ctypes.data
    assert _memory.is_pagelocked(start) and _memory.is_pagelocked(start + 4095)
    assert not _memory.is_pagelocked(start + 4096)
    del buffer
    gc.collect()
    assert _memory.is_pagelocked(start + 150)
    del inside
    gc.collect()
    assert not _memory.is_pagelocked(start)
