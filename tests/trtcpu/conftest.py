"""Streams that a test blocks itself, and device memory for them."""

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.trtcpu.support import A, device_copy
from trtcpu import cuda


@pytest.fixture
def stream() -> cuda.Stream:
    return cuda.Stream()


@pytest.fixture
def memory() -> cuda.DeviceAllocation:
    """Device memory that holds A; to be asked for before `blocked`, since a copy waits for other streams."""
    return device_copy(A)


@pytest.fixture
def blocked() -> Iterator[tuple[cuda.Stream, Callable[[], None]]]:
    """A stream that does nothing until the function beside it is called."""
    stream, gate = cuda.Stream(), threading.Event()
    stream.submit(lambda: gate.wait(20))
    yield stream, gate.set
    gate.set()
    stream.synchronize()
