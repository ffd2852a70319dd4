"""Device memory with known content, for the tests of copies and streams."""

import numpy as np

from trtcpu import cuda

A = np.arange(256, dtype=np.float32)


def device_copy(array: np.ndarray) -> cuda.DeviceAllocation:
    """Return device memory that holds `array`."""
    memory = cuda.mem_alloc(array.nbytes)
    cuda.memcpy_htod(memory, array)
    return memory
