"""Step 10's points without a notebook: what the watch lets the host see, and which order of calls overlaps."""

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s10_profiles_and_streams import profiles, streams
from helpers.checks.points.s10_profiles_and_streams.watch import NoProfileError, Row, Watch, watched
from helpers.checks.probes.student import Student
from helpers.engine.backend import cuda, trt
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx

NUMBERS = np.arange(6, dtype=np.float32)


@pytest.fixture
def watch() -> Iterator[Watch]:
    with watched() as found:
        yield found


def pinned(values: np.ndarray = NUMBERS) -> np.ndarray:
    array = cuda.pagelocked_empty(values.shape, values.dtype)
    array[...] = values
    return array


class Lane:
    """A stream with pinned buffers and device memory of its own."""

    def __init__(self) -> None:
        self.stream, self.device = cuda.Stream(), cuda.mem_alloc(NUMBERS.nbytes)
        self.source, self.target = pinned(), pinned(0 * NUMBERS)

    def start(self, stream: object = None) -> None:
        cuda.memcpy_htod_async(self.device, self.source, stream or self.stream)
        cuda.memcpy_dtoh_async(self.target, self.device, stream or self.stream)


def test_an_output_is_there_once_its_stream_was_waited_for_and_not_before(watch: Watch) -> None:
    lane, other = Lane(), Lane()
    lane.start()
    other.start()
    assert np.isnan(lane.target).all() and watch.unawaited == 4
    lane.stream.synchronize()
    assert np.array_equal(lane.target, NUMBERS) and np.isnan(other.target).all()
    other.stream.synchronize()
    assert np.array_equal(other.target, NUMBERS) and watch.unawaited == 0


def test_a_copy_to_a_pageable_array_has_waited_for_its_stream_alone(watch: Watch) -> None:
    lane, other = Lane(), Lane()
    other.start()
    lane.start()
    host = 0 * NUMBERS
    cuda.memcpy_dtoh_async(host, lane.device, lane.stream)
    assert np.array_equal(host, NUMBERS) and np.array_equal(lane.target, NUMBERS)
    assert np.isnan(other.target).all() and watch.unawaited == 2


def test_an_event_waits_for_what_came_before_it_alone(watch: Watch) -> None:
    lane, event = Lane(), cuda.Event()
    lane.start()
    event.record(lane.stream)
    late = pinned(0 * NUMBERS)
    cuda.memcpy_dtoh_async(late, lane.device, lane.stream)
    event.synchronize()
    assert np.array_equal(lane.target, NUMBERS) and np.isnan(late).all()


def test_a_stream_that_follows_an_event_has_waited_for_it(watch: Watch) -> None:
    lane, other, event = Lane(), Lane(), cuda.Event()
    lane.start()
    event.record(lane.stream)
    other.stream.wait_for_event(event)
    other.stream.synchronize()
    assert np.array_equal(lane.target, NUMBERS)


def test_who_asks_until_a_stream_is_done_has_waited(watch: Watch) -> None:
    lane = Lane()
    lane.start()
    while not lane.stream.is_done():
        pass
    assert np.array_equal(lane.target, NUMBERS)


@pytest.mark.parametrize("wait", ["context", "copy"])
def test_what_waits_for_the_whole_device_waits_for_every_stream(watch: Watch, wait: str) -> None:
    lanes = Lane(), Lane()
    for lane in lanes:
        lane.start()
    if wait == "context":
        cuda.Context.synchronize()
    else:
        cuda.memcpy_htod(cuda.mem_alloc(NUMBERS.nbytes), NUMBERS)
    assert all(np.array_equal(lane.target, NUMBERS) for lane in lanes) and watch.unawaited == 0
    assert sum(row["what"] == "blocking" for row in watch.log) == (wait == "copy")


def test_the_default_stream_waits_for_the_others_and_they_for_it(watch: Watch) -> None:
    lane, other = Lane(), Lane()
    lane.start()
    cuda.memcpy_htod_async(other.device, other.source)  # in the default stream, after the lane's copies
    cuda.memcpy_dtoh_async(other.target, other.device, other.stream)
    other.stream.synchronize()
    assert watch.unawaited == 0 and np.array_equal(lane.target, NUMBERS)


def test_a_pinned_input_that_is_filled_before_the_wait_is_counted_and_the_device_has_the_first(watch: Watch) -> None:
    lane = Lane()
    lane.start()
    lane.source[...] = 7
    lane.stream.synchronize()
    assert watch.refilled == 1 and np.array_equal(lane.target, NUMBERS)
    lane.start()
    lane.stream.synchronize()
    lane.source[...] = 8
    assert watch.refilled == 1


def test_memory_that_two_streams_use_at_once_is_counted(watch: Watch) -> None:
    lane, other = Lane(), Lane()
    other.target = lane.target
    lane.start()
    lane.stream.synchronize()
    other.start()
    assert watch.shared == 0
    lane.start()
    assert watch.shared == 1


def test_copies_say_whether_their_array_is_pinned_a_part_of_one_included(watch: Watch) -> None:
    device, source = cuda.mem_alloc(NUMBERS.nbytes), pinned()
    for array in (NUMBERS, source, source[2:4]):
        cuda.memcpy_htod_async(device, array, cuda.Stream())
    assert [row["pinned"] for row in watch.log if row["what"] == "in"] == [False, True, True]


def test_everything_is_as_it_was_after_the_block() -> None:
    owners = (cuda, cuda.Stream, cuda.Event, cuda.Context, trt.IExecutionContext)
    before = [dict(vars(owner)) for owner in owners]
    with watched():
        assert cuda.memcpy_htod_async is not before[0]["memcpy_htod_async"]
    assert [dict(vars(owner)) for owner in owners] == before


def test_a_context_without_a_profile_raises_before_it_is_used() -> None:
    plan = probe_engine(tiny_onnx(0, image=(1, 24, 24)), (1, 2, 4))
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    with watched() as watch, pytest.MonkeyPatch.context() as patch:
        context = engine.create_execution_context()
        patch.setattr(trt.IExecutionContext, "active_optimization_profile", -1)  # as a second one on TensorRT 8.6
        with pytest.raises(NoProfileError):
            context.set_input_shape("input", (1, 1, 24, 24))
        with pytest.raises(NoProfileError):
            context.execute_async_v3(cuda.Stream().handle)
    assert not any(row["what"] == "run" for row in watch.log)


def calls(number: int, lanes: int, *, together: bool = False, at_once: bool = False) -> list[Row]:
    """Return the log of batches that take the lanes in turn; `together` waits for all lanes before their next turn."""
    log: list[Row] = [{"what": "draw"}] * number if at_once else []
    for index in range(number):
        lane = index % lanes
        beside = lane if together else min(index, lanes - 1)
        about = {"stream": lane + 1, "context": 10 + lane, "profile": lane, "beside": beside}
        log += [] if at_once else [{"what": "draw"}]
        log += [{"what": "in", "stream": lane + 1}, {"what": "run", **about}, {"what": "out", "stream": lane + 1}]
    return log


@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_lanes_in_turn_overlap(lanes: int) -> None:
    assert "9 runs" in streams._overlaps(calls(9, lanes), lanes)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (calls(7, 1), "7 batches in 2 streams"),
        (calls(7, 3), "7 batches in 2 streams"),
        (calls(7, 2, together=True), "under way"),
        (calls(7, 2, at_once=True), "drawn as they are used"),
        ([row | {"context": 10} if "context" in row else row for row in calls(7, 2)], "a context and a profile"),
        ([row | {"profile": 0} if "profile" in row else row for row in calls(7, 2)], "a context and a profile"),
        ([row | {"stream": 2 - row["stream"]} if "stream" in row else row for row in calls(7, 2)], "streams of yours"),
        ([row | {"stream": 1} if row["what"] == "in" else row for row in calls(7, 2)], "in one stream"),
        ([row for row in calls(7, 2) if row["what"] != "out"], "in one stream"),
    ],
)
def test_what_does_not_overlap_is_told_by_what_is_wrong_with_it(log: list[Row], said: str) -> None:
    with pytest.raises(Missed, match=said):
        streams._overlaps(log, 2)


def test_the_triples_are_in_no_order_of_size_for_any_seed() -> None:
    for seed in range(200):
        found = profiles.triples(Case(Student.in_process({}), seed))
        assert found not in (sorted(found), sorted(found)[::-1]) and len(set(found)) == 3
        assert all(least <= best <= largest for least, best, largest in found)
