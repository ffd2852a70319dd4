"""CUDA graphs against a driver that is simulated: what is called in which order, and what is freed when."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.engine import cuda_graphs
from helpers.engine.backend import ENGINE
from helpers.engine.cuda_graphs import capture, why_no_graphs
from trtcpu.errors import EngineError

STREAM = SimpleNamespace(handle=0x57)
GRAPH, EXECUTABLE = 0x100, 0x200
NOT_SUPPORTED = 900


class Driver:
    """The driver's functions for graphs. A stream that records collects work; launching repeats it."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.recording: list[str] | None = None
        self.graphs: set[int] = set()
        self.executables: dict[int, list[str]] = {}
        self.done: list[str] = []

    def work(self, what: str) -> None:
        """Put work on the stream."""
        (self.done if self.recording is None else self.recording).append(what)

    def _code(self, name: str) -> int:
        return NOT_SUPPORTED if name == self.refuses else 0

    def cuStreamBeginCapture_v2(self, stream: Any, mode: int) -> int:
        assert stream.value == STREAM.handle and mode == 2
        self.recording = []
        return self._code("cuStreamBeginCapture_v2")

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        self.recorded, self.recording = self.recording, None
        if code := self._code("cuStreamEndCapture"):
            return code
        graph._obj.value = GRAPH
        self.graphs.add(GRAPH)
        return 0

    def cuGraphInstantiateWithFlags(self, executable: Any, graph: Any, flags: Any) -> int:
        assert graph.value == GRAPH and flags.value == 0
        if code := self._code("cuGraphInstantiateWithFlags"):
            return code
        executable._obj.value = EXECUTABLE
        self.executables[EXECUTABLE] = self.recorded
        return 0

    def cuGraphLaunch(self, executable: Any, stream: Any) -> int:
        assert stream.value == STREAM.handle
        if code := self._code("cuGraphLaunch"):
            return code
        self.done += self.executables[executable.value]
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        self.graphs.remove(graph.value)
        return 0

    def cuGraphExecDestroy(self, executable: Any) -> int:
        del self.executables[executable.value]
        return 0

    def cuGetErrorName(self, code: int, text: Any) -> int:
        text._obj.value = b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" if code == NOT_SUPPORTED else None
        return 0


def test_recording_executes_nothing_and_each_launch_repeats_it_all_in_order() -> None:
    driver = Driver()

    def work() -> None:
        driver.work("copy")
        driver.work("execute")

    graph = capture(STREAM, work, driver)
    assert driver.done == [] and driver.graphs == set()
    graph.launch(STREAM)
    graph.launch(STREAM)
    assert driver.done == ["copy", "execute"] * 2
    graph.close()
    graph.close()
    assert driver.executables == {}


@pytest.mark.parametrize(
    "function", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"]
)
def test_a_refusal_names_the_call_and_the_error_and_leaves_no_graph(function: str) -> None:
    driver = Driver(refuses=function)
    with pytest.raises(EngineError, match=f"{function} failed with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        capture(STREAM, lambda: driver.work("execute"), driver).launch(STREAM)
    assert driver.graphs == set()


def test_work_that_fails_ends_the_recording_and_its_own_error_is_raised() -> None:
    driver = Driver()

    def work() -> None:
        raise EngineError("engine x refused to run")

    with pytest.raises(EngineError, match="refused to run"):
        capture(STREAM, work, driver)
    assert driver.recording is None and driver.graphs == set() and driver.executables == {}


@pytest.mark.skipif(ENGINE != "cpu", reason="the CPU engine has no graphs")
def test_the_cpu_engine_says_that_it_has_none() -> None:
    assert "CPU engine has no CUDA graphs" in why_no_graphs()


def test_a_machine_without_the_drivers_library_or_with_an_old_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "ENGINE", "tensorrt")
    monkeypatch.setattr(cuda_graphs, "_LIBRARY", "libno-such-driver.so.1")
    cuda_graphs._library.cache_clear()
    assert "need the driver's library libno-such-driver.so.1" in why_no_graphs()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuStreamBeginCapture_v2=None))
    assert "the NVIDIA driver has no cuStreamEndCapture" in why_no_graphs()
    cuda_graphs._library.cache_clear()
