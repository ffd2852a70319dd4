"""The pool of buffers: memory is allocated once, used again, and all of it is freed."""

import numpy as np
import pytest

from helpers.engine.backend import ENGINE, cuda
from trtcpu.errors import EngineError
from trtlab.timing.buffers import BufferPool


def test_a_buffer_given_back_is_used_again_for_what_fits_into_it() -> None:
    with BufferPool() as pool:
        first = pool.take(4096)
        pool.give(first)
        assert pool.take(1024) is first
        assert pool.allocations == 1 and pool.allocated_bytes == 4096


def test_the_smallest_that_fits_is_taken_and_a_larger_wish_allocates() -> None:
    with BufferPool() as pool:
        large, small = pool.take(8192), pool.take(1024)
        pool.give(large)
        pool.give(small)
        assert pool.take(1000) is small and pool.take(1000) is large
        assert pool.take(1000) not in (small, large) and pool.allocations == 3


def test_host_and_device_hold_the_same_bytes_and_a_view_shares_them() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with BufferPool() as pool:
        buffer = pool.take(200)
        view = buffer.view(values.shape, values.dtype)
        view[:] = values
        cuda.memcpy_htod(buffer.device, view)
        view[:] = 0
        cuda.memcpy_dtoh(view, buffer.device)
        assert np.array_equal(buffer.host[:96].view(np.float32), values.ravel())


def test_a_buffer_is_given_back_once_and_to_its_own_pool() -> None:
    with BufferPool() as pool, BufferPool() as other:
        buffer = pool.take(64)
        with pytest.raises(ValueError, match="did not hand out"):
            other.give(buffer)
        pool.give(buffer)
        with pytest.raises(ValueError, match="each back once"):
            pool.give(buffer)


@pytest.mark.skipif(ENGINE != "cpu", reason="the CPU engine counts its device memory exactly")
def test_closing_frees_all_device_memory_also_what_is_in_use() -> None:
    from trtcpu.device.memory import allocated_bytes

    before = allocated_bytes()
    pool = BufferPool()
    pool.give(pool.take(1000))
    pool.take(50_000)
    assert allocated_bytes() == before + 51_000
    pool.close()
    pool.close()
    assert allocated_bytes() == before


def test_memory_that_is_not_there_is_one_error_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(nbytes: int) -> None:
        raise getattr(cuda, "MemoryError", MemoryError)("out of memory")

    with BufferPool() as pool:
        monkeypatch.setattr(cuda, "mem_alloc", refuse)
        with pytest.raises(EngineError, match=r"a buffer of 5\.0 MB cannot be had .* fewer streams"):
            pool.take(5_000_000)
        assert pool.allocations == pool.allocated_bytes == 0
