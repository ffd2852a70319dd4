"""Memory in use now, for checks that look for leaks: of the device, and of this process."""

import gc
from collections.abc import Callable
from dataclasses import dataclass

from helpers.backend import ENGINE, cuda
from helpers.memory import process_memory_bytes

__all__ = ["Growth", "device_memory_bytes", "growth_over"]

_GIVE_UP_BYTES = 384 << 20


def device_memory_bytes() -> int:
    """Return the bytes of device memory that are allocated.

    On the CPU engine this is what `cuda.mem_alloc` gave and was not freed, exactly; on a GPU everything in use on the
    device, other processes' memory too, since inside a container the driver cannot tell them apart.
    """
    if ENGINE == "tensorrt":
        free, total = cuda.mem_get_info()
        return int(total - free)
    from helpers.cpu_engine.device.memory import allocated_bytes

    return int(allocated_bytes())


@dataclass(frozen=True)
class Growth:
    """What `cycles` repetitions left behind, in bytes; fewer cycles than asked for where they took too much."""

    cycles: int
    device_bytes: int
    process_bytes: int


def growth_over(cycle: Callable[[int], None], cycles: int, warmup: int) -> Growth:
    """Run `cycle(index)` `warmup` + `cycles` times and return the growth of memory over the last `cycles`.

    The warm-up fills caches and the allocator's pools. It ends early where 384 MB are gone: a leak must not take the
    machine's memory.
    """
    for index in range(warmup):
        cycle(index)
    gc.collect()
    start = device_memory_bytes(), process_memory_bytes()
    for done in range(1, cycles + 1):
        cycle(warmup + done)
        if done % 10 == 0 or done == cycles:
            gc.collect()
            found = Growth(done, device_memory_bytes() - start[0], process_memory_bytes() - start[1])
            if max(found.device_bytes, found.process_bytes) > _GIVE_UP_BYTES:
                break
    return found
