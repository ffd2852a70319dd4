"""One engine for several contexts and threads, and one context used by two threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from helpers.engine.backend import cuda
from tests.conformance import models
from tests.conformance.support import ON_GPU, Buffers, build, load, relative_error

IMAGE = (3, 8, 8)
PROFILE = {"x": ((1, *IMAGE), (4, *IMAGE), (8, *IMAGE))}
X = np.random.default_rng(0).standard_normal((4, *IMAGE)).astype(np.float32)


@pytest.fixture
def engine() -> Any:
    """Two profiles: on 8.6 each context needs one of its own, and using a context without one ends the process."""
    return load(build(models.conv_relu(), profiles=[PROFILE, PROFILE]))


def test_two_contexts_of_one_engine_keep_apart(engine: Any) -> None:
    first, second = Buffers(engine, 0), Buffers(engine, 1)
    first.upload({"x": X})
    second.upload({"x": 2 * X[:2]})
    assert first.execute() and second.execute()
    assert relative_error(first.fetch(), models.reference(models.conv_relu(), x=X)) < 1e-5
    assert relative_error(second.fetch(), models.reference(models.conv_relu(), x=2 * X[:2])) < 1e-5


def test_two_contexts_run_in_two_streams_at_once(engine: Any) -> None:
    pair = [Buffers(engine, 0), Buffers(engine, 1)]
    for index, buffers in enumerate(pair):
        buffers.upload({"x": (index + 1) * X})
    for _ in range(20):
        for buffers in pair:
            assert buffers.context.execute_async_v3(buffers.stream.handle)
    for index, buffers in enumerate(pair):
        buffers.stream.synchronize()
        assert relative_error(buffers.fetch(), models.reference(models.conv_relu(), x=(index + 1) * X)) < 1e-5


@pytest.mark.skipif(ON_GPU, reason="pycuda's context is current in one thread only; TensorRT itself allows this")
def test_two_threads_use_a_context_each(engine: Any) -> None:
    pair = [Buffers(engine, 0), Buffers(engine, 1)]

    def work(index: int) -> float:
        worst = 0.0
        for scale in range(1, 11):
            x = X * scale * (index + 1)
            pair[index].upload({"x": x})
            assert pair[index].execute()
            worst = max(worst, relative_error(pair[index].fetch(), models.reference(models.conv_relu(), x=x)))
        return worst

    with ThreadPoolExecutor(2) as pool:
        assert max(pool.map(work, range(2))) < 1e-5


@pytest.mark.skipif(ON_GPU, reason="undefined behaviour in TensorRT: it may crash or give wrong results")
def test_one_context_used_by_two_threads_at_once_raises() -> None:
    buffers = Buffers(load(build(models.heavy())))
    buffers.upload({"x": np.zeros((4, 64, 48, 48), np.float32)})
    errors: list[Exception] = []
    addresses = [int(buffers.memory[name]) for name in ("x", "y")]
    start = threading.Barrier(2)

    def work() -> None:
        start.wait()
        try:
            for _ in range(5):
                buffers.context.execute_v2(addresses)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and "thread" in str(errors[0])


def test_context_keeps_its_engine_alive() -> None:
    engine = load(build(models.conv_relu(4)))
    buffers = Buffers(engine)
    buffers.upload({"x": X})
    shape = tuple(engine.get_tensor_shape("y"))
    del engine, buffers.engine
    assert buffers.execute()
    found = np.empty(shape, np.float32)
    cuda.memcpy_dtoh(found, buffers.memory["y"])
    assert relative_error(found, models.reference(models.conv_relu(), x=X)) < 1e-5
