"""A pool of buffers: page-locked host memory with as much device memory beside it, allocated once and used again.

Allocating page-locked memory costs milliseconds, and freeing device memory may wait for the whole GPU: neither belongs
into a loop that serves batches. A buffer that was given back serves the next who needs no more than it holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.engine.backend import cuda
from trtcpu.errors import EngineError


@dataclass(frozen=True, eq=False)
class Buffer:
    """`host` is page-locked memory, uint8 [nbytes]; `device` is device memory of that size."""

    host: np.ndarray
    device: Any

    @property
    def nbytes(self) -> int:
        """Bytes on either side."""
        return self.host.nbytes

    def view(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return the start of the host memory as an array; it shares the memory."""
        return self.host[: int(np.prod(shape, dtype=np.int64)) * dtype.itemsize].view(dtype).reshape(shape)


class BufferPool:
    """Buffers that are taken and given back; `close` frees all of them.

    Attributes:
        allocations: how often memory was allocated, for what `take` could not serve from what was given back.
        allocated_bytes: what the pool holds on the device; as much is page-locked on the host.
    """

    def __init__(self) -> None:
        self.allocations = 0
        self._owned: list[Buffer] = []
        self._idle: list[Buffer] = []

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the pool holds on the device, idle ones included."""
        return sum(buffer.nbytes for buffer in self._owned)

    def take(self, nbytes: int) -> Buffer:
        """Return the smallest idle buffer of at least `nbytes`, else a new one of exactly as many.

        Raises:
            EngineError: there is not so much memory.
        """
        fitting = [buffer for buffer in self._idle if buffer.nbytes >= nbytes]
        if fitting:
            best = min(fitting, key=lambda buffer: buffer.nbytes)
            self._idle.remove(best)
            return best
        try:
            buffer = Buffer(cuda.pagelocked_empty((max(nbytes, 1),), np.uint8), cuda.mem_alloc(max(nbytes, 1)))
        except (MemoryError, getattr(cuda, "MemoryError", MemoryError)) as error:
            raise EngineError(
                f"a buffer of {nbytes / 1e6:,.1f} MB cannot be had beside the pool's {self.allocated_bytes / 1e6:,.0f} "
                "MB; choose smaller batches or fewer streams"
            ) from error
        self.allocations += 1
        self._owned.append(buffer)
        return buffer

    def give(self, buffer: Buffer) -> None:
        """Take a buffer back; nothing that is still running may use it.

        Raises:
            ValueError: it is not the pool's, or was given back already.
        """
        if buffer in self._idle or buffer not in self._owned:
            raise ValueError("a buffer was given back that the pool did not hand out; give each back once")
        self._idle.append(buffer)

    def close(self) -> None:
        """Free everything, also what was not given back; calling it again does nothing."""
        owned, self._owned, self._idle = self._owned, [], []
        for buffer in owned:
            buffer.device.free()

    def __enter__(self) -> "BufferPool":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
