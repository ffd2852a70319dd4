"""Which copy of the model an inference runs on, decided on requests that end when the test says so."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.conformance import models
from tests.conformance.support import Buffers, build, load, relative_error
from trtcpu import _openvino, cuda
from trtcpu.errors import EngineError
from trtcpu.runtime import loaded
from trtcpu.runtime.requests import Requests

SHAPE = (4, 64, 48, 48)


class HeldRequest:
    """An inference that runs until `wait`; `fails` is what it ends with."""

    def __init__(self) -> None:
        self.running, self.fails = False, None

    def start(self) -> None:
        self.running = True

    def done(self) -> bool:
        return not self.running

    def wait(self) -> None:
        self.running = False
        if self.fails is not None:
            raise self.fails


class Model:
    """A compiled model for so many `parts` on so many `threads`, whose requests are held."""

    def __init__(self, parts: int = 1, threads: int = 4) -> None:
        self.parts, self.threads = parts, threads

    def create_request(self) -> HeldRequest:
        return HeldRequest()


class Contexts:
    """Executions of one engine on a processor of `threads` threads; `loads` are the copies that were asked for."""

    def __init__(self, count: int, threads: int = 4) -> None:
        self.loads: list[int] = []
        self.requests = Requests(Model(1, threads), self._load)
        self.all = [self.requests.execution() for _ in range(count)]

    def _load(self, parts: int) -> Model:
        self.loads.append(parts)
        return Model(parts)

    def start(self, index: int) -> int:
        """Start an inference; return into how many parts its copy divides the cores."""
        execution = self.all[index]
        execution.start([])
        return next(copy.parts for copy, (request, _) in execution._bound.items() if request is execution._running)


def test_contexts_that_take_turns_run_on_all_cores_and_load_nothing() -> None:
    contexts = Contexts(3)
    for index in (0, 1, 0, 2, 1):
        assert contexts.start(index) == 1
        contexts.all[index].wait()
    assert contexts.loads == []


def test_contexts_that_overlap_share_one_copy_that_is_loaded_once() -> None:
    contexts = Contexts(2)
    assert contexts.start(0) == 1
    for index in (1, 0, 1, 0):
        contexts.all[index].wait()
        assert contexts.start(index) == 2
    assert contexts.loads == [2]


def test_contexts_that_are_enqueued_and_awaited_together_share_from_the_second_time() -> None:
    contexts = Contexts(2)
    found = []
    for _ in range(3):
        found.append([contexts.start(0), contexts.start(1)])
        for execution in contexts.all:
            execution.wait()
    assert found == [[1, 2], [2, 2], [2, 2]]


def test_a_context_that_is_alone_again_gets_all_cores_back() -> None:
    contexts = Contexts(2)
    for index in (0, 1):
        contexts.start(index)
    for execution in contexts.all:
        execution.wait()
    parts = []
    for _ in range(3):
        parts.append(contexts.start(0))
        contexts.all[0].wait()
    assert parts == [2, 1, 1]


def test_cores_are_divided_among_the_contexts_that_exist_but_no_finer_than_there_are_threads() -> None:
    contexts = Contexts(2, threads=3)
    contexts.start(0), contexts.start(1)
    contexts.all += [contexts.requests.execution() for _ in range(2)]
    assert [contexts.start(2), contexts.start(3)] == [3, 3]
    assert contexts.loads == [2, 3]


def test_contexts_that_are_gone_do_not_count() -> None:
    contexts = Contexts(4)
    del contexts.all[2:]
    gc.collect()
    contexts.start(0)
    assert contexts.start(1) == 2


def test_one_thread_is_never_divided() -> None:
    contexts = Contexts(2, threads=1)
    assert [contexts.start(0), contexts.start(1)] == [1, 1] and contexts.loads == []


def test_a_failed_inference_counts_as_ended() -> None:
    contexts = Contexts(2)
    contexts.start(0)
    contexts.all[0]._running.fails = ValueError("broken")
    with pytest.raises(ValueError, match="broken"):
        contexts.all[0].wait()
    assert contexts.start(1) == 1


def test_a_copy_that_cannot_be_loaded_is_an_error_that_says_what_to_do() -> None:
    contexts = Contexts(2)

    def refuse(parts: int) -> Model:
        raise RuntimeError("Exception from x.cpp\nno memory left")

    contexts.requests._load = refuse
    contexts.start(0)
    with pytest.raises(EngineError, match=r"for 2 contexts at once \(no memory left\); synchronise one context"):
        contexts.start(1)
    contexts.all[0].wait()
    assert contexts.start(1) == 1


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests at once each model was loaded for, on four threads."""
    found: list[int] = []
    load_model = _openvino.import_model

    def import_model(blob: bytes, hint: str, at_once: int = 1, profiling: bool = False) -> _openvino.Compiled:
        found.append(at_once)
        return load_model(blob, hint, at_once, profiling)

    monkeypatch.setattr(loaded._openvino, "import_model", import_model)
    monkeypatch.setattr(_openvino.Compiled, "threads", 4)
    return found


def _pair() -> list[Buffers]:
    engine = load(build(models.heavy()))
    pair = [Buffers(engine) for _ in range(2)]
    rng = np.random.default_rng(0)
    for buffers in pair:
        buffers.upload({"x": rng.standard_normal(SHAPE).astype(np.float32)})
    return pair


def test_results_are_the_same_on_all_cores_and_on_a_part_of_them(loads: list[int]) -> None:
    pair = _pair()
    loads.clear()
    alone = []
    for buffers in pair:
        assert buffers.execute()
        alone.append(buffers.fetch())
    assert loads == [], "contexts that take turns load no second copy"
    for buffers in pair:
        cuda.memset_d8(buffers.memory["y"], 0, 4 * np.prod(alone[0].shape, dtype=int))
    for _ in range(8):
        for buffers in pair:
            assert buffers.context.execute_async_v3(buffers.stream.handle)
    for buffers, expected in zip(pair, alone, strict=True):
        buffers.stream.synchronize()
        assert relative_error(buffers.fetch(), expected) < 1e-5
    assert loads in ([2], [])  # for two at once, if they met


def test_threads_that_execute_at_once_share_and_keep_their_results_apart(loads: list[int]) -> None:
    pair = _pair()
    for buffers in pair:
        assert buffers.execute()
    alone = [buffers.fetch() for buffers in pair]
    together = threading.Barrier(2)

    def work(index: int) -> float:
        buffers = pair[index]
        addresses = [int(buffers.memory[name]) for name in ("x", "y")]
        together.wait()
        for _ in range(6):
            assert buffers.context.execute_v2(addresses)
        return relative_error(buffers.fetch(), alone[index])

    with ThreadPoolExecutor(2) as pool:
        assert max(pool.map(work, range(2))) < 1e-5
    assert set(loads) <= {1, 2}
