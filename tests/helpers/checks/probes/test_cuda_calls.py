"""The watch of CUDA's calls: what the host sees before and after a wait, and what counts as alive."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from helpers.checks.probes.cuda_calls import NoProfileError, Watch, watched
from helpers.engine.backend import cuda, trt
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx

NUMBERS = np.arange(6, dtype=np.float32)


@pytest.fixture
def watch() -> Iterator[Watch]:
    with watched() as found:
        yield found


class Lane:
    """A stream with pinned buffers and device memory of its own."""

    def __init__(self) -> None:
        self.stream, self.device = cuda.Stream(), cuda.mem_alloc(NUMBERS.nbytes)
        self.source, self.target = (cuda.pagelocked_empty(6, np.float32) for _ in range(2))
        self.source[...] = NUMBERS
        cuda.memcpy_htod_async(self.device, self.source, self.stream)
        cuda.memcpy_dtoh_async(self.target, self.device, self.stream)

    @property
    def arrived(self) -> bool:
        return np.array_equal(self.target, NUMBERS)


def test_an_output_is_there_once_its_stream_was_waited_for_and_not_before(watch: Watch) -> None:
    lane, other = Lane(), Lane()
    assert np.isnan(lane.target).all() and len(watch.under_way) == 4
    lane.stream.synchronize()
    assert lane.arrived and np.isnan(other.target).all()
    while not other.stream.is_done():
        pass
    assert other.arrived and not watch.under_way


def test_an_event_waits_for_what_came_before_it_alone(watch: Watch) -> None:
    lane, event = Lane(), cuda.Event()
    event.record(lane.stream)
    late = cuda.pagelocked_zeros(6, np.float32)
    cuda.memcpy_dtoh_async(late[:4], lane.device, lane.stream)
    event.synchronize()
    assert lane.arrived and np.isnan(late[:4]).all()


@pytest.mark.parametrize(
    "wait", [lambda: cuda.Context.synchronize(), lambda: cuda.memcpy_htod(cuda.mem_alloc(8), NUMBERS[:2])]
)
def test_what_waits_for_the_whole_device_waits_for_every_stream(watch: Watch, wait: Callable[[], None]) -> None:
    lanes = Lane(), Lane()
    wait()
    assert all(lane.arrived for lane in lanes)


def test_what_is_alive_and_a_context_that_has_no_profile(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = probe_engine(tiny_onnx(0, image=(1, 24, 24)), (1, 2, 4))
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    context, buffers = engine.create_execution_context(), [cuda.mem_alloc(64) for _ in range(3)]
    buffers.pop().free()
    del buffers
    assert watch.alive() == {"device buffers": 0, "engines": 1, "contexts": 1, "contexts made": 1}
    monkeypatch.setattr(trt.IExecutionContext, "active_optimization_profile", -1)  # a second one's on TensorRT 8.6
    with pytest.raises(NoProfileError):
        context.set_input_shape("input", (1, 1, 24, 24))
