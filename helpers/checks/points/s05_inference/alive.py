"""What is alive of what a student's class asked CUDA, TensorRT and Python for, counted object by object.

A GPU's free memory would not do: other processes use it too, and a pool keeps what was freed. Here an object counts
until it is freed or nobody refers to it any more, on a GPU as on the CPU engine.
"""

import contextlib
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, TypedDict
from weakref import WeakValueDictionary

import numpy as np
import torch

from helpers.engine.backend import cuda, trt


class Alive(TypedDict):
    """How many objects are alive by kind: `device` and `host` (page-locked) buffers, `engines`, `contexts`, `streams`
    (events too); the bytes of `torch` tensors on the GPU and of what `python` and NumPy allocated; and `contexts_made`,
    whether alive or not.
    """

    device: int
    host: int
    engines: int
    contexts: int
    streams: int
    torch: int
    python: int
    contexts_made: int


_MADE_BY = (
    ("device", cuda, "mem_alloc"),
    ("host", cuda, "pagelocked_empty"),
    ("host", cuda, "pagelocked_zeros"),
    ("engines", trt.Runtime, "deserialize_cuda_engine"),
    ("contexts", trt.ICudaEngine, "create_execution_context"),
    ("streams", cuda.Stream, "__init__"),
    ("streams", cuda.Event, "__init__"),
)


class _Ledger:
    """The objects that were made, each until it is freed or forgotten."""

    def __init__(self) -> None:
        self._made: dict[str, WeakValueDictionary[int, Any]] = {kind: WeakValueDictionary() for kind, _, _ in _MADE_BY}
        self._contexts_made = 0

    def recording(self, kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            returned = make(*args, **kwargs)
            found = args[0] if make.__name__ == "__init__" else returned
            if found is not None:
                self._made[kind][id(_owner(found))] = _owner(found)
                self._contexts_made += kind == "contexts"
            return returned

        return recorded

    def freeing(self, free: Callable[[Any], None]) -> Callable[[Any], None]:
        def freed(allocation: Any) -> None:
            free(allocation)
            self._made["device"].pop(id(allocation), None)

        return freed

    def now(self) -> Alive:
        gc.collect()
        found = {kind: len(objects) for kind, objects in self._made.items()}
        found |= {"torch": torch.cuda.memory_allocated(), "python": tracemalloc.get_traced_memory()[0]}
        return found | {"contexts_made": self._contexts_made}


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], Alive]]:
    """Give a function that counts what was made inside the block and is alive when it is called."""
    ledger, allocation = _Ledger(), cuda.DeviceAllocation
    with contextlib.ExitStack() as stack:
        for kind, owner, name in _MADE_BY:
            stack.enter_context(_replaced(owner, name, ledger.recording(kind, getattr(owner, name))))
        stack.enter_context(_replaced(allocation, "free", ledger.freeing(allocation.free)))
        stack.enter_context(_tracing())
        stack.enter_context(_frozen())
        yield ledger.now


def _owner(made: Any) -> Any:
    """Return the object that an array's memory is freed with: views of it may outlive the array itself."""
    while isinstance(made, np.ndarray) and made.base is not None:
        made = made.base
    return made


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Leave what exists already out of the collections inside the block: there is much of it, and none is counted."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        yield
    finally:
        if not already:
            tracemalloc.stop()
