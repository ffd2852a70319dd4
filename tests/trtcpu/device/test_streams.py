"""Streams and events of the CPU engine, with streams that the test itself blocks."""

import gc
import threading
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

from tests.trtcpu.support import A, device_copy
from trtcpu import cuda
from trtcpu.device import streams


def test_work_runs_in_order_on_one_thread_that_is_not_the_callers(stream: cuda.Stream) -> None:
    seen: list[tuple[int, int]] = []
    for index in range(50):
        stream.submit(lambda index=index: seen.append((index, threading.get_ident())))
    stream.synchronize()
    assert [index for index, _ in seen] == list(range(50))
    assert len({thread for _, thread in seen}) == 1 and seen[0][1] != threading.get_ident()


def test_pinned_output_read_before_synchronise_is_the_old_data(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    host = cuda.pagelocked_empty_like(A)
    host.fill(-1)
    cuda.memcpy_dtoh_async(host, memory, stream)
    assert (host == -1).all() and not stream.is_done()
    unblock()
    stream.synchronize()
    np.testing.assert_array_equal(host, A)


@pytest.mark.parametrize("made", [cuda.Stream, lambda: None], ids=["stream", "default"])
def test_copy_to_pageable_memory_returns_when_it_is_done(memory: cuda.DeviceAllocation, made: Callable) -> None:
    """It waits by itself: what watches or replaces `Stream.synchronize` sees no call."""
    stream, host = made(), np.zeros_like(A)
    (stream or streams.DEFAULT_STREAM).submit(lambda: time.sleep(0.05))
    cuda.memset_d8_async(memory, 1, A.nbytes // 2, stream)
    with mock.patch.object(cuda.Stream, "synchronize") as watched:
        cuda.memcpy_dtoh_async(host, memory, stream)
    assert not watched.called
    half = A.size // 2
    assert (host[:half].view(np.uint8) == 1).all()
    np.testing.assert_array_equal(host[half:], A[half:])


def test_copy_to_pageable_memory_waits_for_the_default_stream(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    host = np.ones_like(A)
    cuda.memset_d8_async(memory, 0, A.nbytes)  # in the default stream, which waits for the blocked one
    threading.Timer(0.05, unblock).start()
    cuda.memcpy_dtoh_async(host, memory, cuda.Stream())
    assert not host.any()


def test_copy_to_pageable_memory_raises_the_error_of_earlier_work(
    memory: cuda.DeviceAllocation, stream: cuda.Stream
) -> None:
    stream.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cuda.memcpy_dtoh_async(np.empty_like(A), memory, stream)


def test_pagelocked_source_is_read_when_the_stream_gets_there(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    source, back = cuda.pagelocked_empty(A.shape, A.dtype), np.empty_like(A)
    source[:] = 1
    cuda.memcpy_htod_async(memory, source[:128], stream)
    source[:] = 2
    unblock()
    stream.synchronize()
    cuda.memcpy_dtoh(back, memory)
    assert (back[:128] == 2).all() and (back[128:] == A[128:]).all()


def test_pageable_source_is_copied_before_the_call_returns(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    source, back = np.ones_like(A), np.empty_like(A)
    cuda.memcpy_htod_async(memory, source, stream)
    source[:] = 2
    unblock()
    stream.synchronize()
    cuda.memcpy_dtoh(back, memory)
    assert (back == 1).all()


def test_pageable_copy_on_a_blocked_stream_keeps_its_place_in_the_order(
    memory: cuda.DeviceAllocation, blocked: tuple
) -> None:
    stream, unblock = blocked
    first, second = cuda.pagelocked_empty_like(A), cuda.pagelocked_empty_like(A)
    cuda.memcpy_dtoh_async(first, memory, stream)
    cuda.memcpy_htod_async(memory, 2 * A, stream)
    cuda.memcpy_dtoh_async(second, memory, stream)
    unblock()
    stream.synchronize()
    np.testing.assert_array_equal(first, A)
    np.testing.assert_array_equal(second, 2 * A)


def test_synchronous_copy_waits_for_blocking_streams(memory: cuda.DeviceAllocation, blocked: tuple) -> None:
    stream, unblock = blocked
    back = np.empty_like(A)
    cuda.memset_d8_async(memory, 0, A.nbytes, stream)
    threading.Timer(0.05, unblock).start()
    cuda.memcpy_dtoh(back, memory)
    assert not back.any()


def test_default_stream_and_others_wait_for_each_other(blocked: tuple) -> None:
    stream, unblock = blocked
    seen: list[str] = []
    stream.submit(lambda: seen.append("stream"))
    streams.DEFAULT_STREAM.submit(lambda: seen.append("default"))
    stream.submit(lambda: seen.append("stream again"))
    assert seen == []
    unblock()
    stream.synchronize()
    assert seen == ["stream", "default", "stream again"]


def test_non_blocking_stream_does_not_wait_for_the_default_stream() -> None:
    gate, seen = threading.Event(), []
    streams.DEFAULT_STREAM.submit(lambda: gate.wait(20))
    free = cuda.Stream(1)
    free.submit(lambda: seen.append("free"))
    free.synchronize()
    assert seen == ["free"]
    gate.set()
    streams.DEFAULT_STREAM.synchronize()


def test_error_of_enqueued_work_surfaces_once_at_synchronise(stream: cuda.Stream) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("kernel failed")

    stream.submit(fail)
    stream.submit(lambda: ran.append("after"))
    with pytest.raises(ValueError, match="kernel failed"):
        stream.synchronize()
    assert ran == []
    stream.submit(lambda: ran.append("later"))
    stream.synchronize()
    assert ran == ["later"]


def test_error_surfaces_at_a_synchronous_copy_too(stream: cuda.Stream) -> None:
    memory = device_copy(A)
    stream.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cuda.memcpy_dtoh(np.empty_like(A), memory)


def test_external_work_starts_on_the_callers_thread_when_the_stream_is_idle(stream: cuda.Stream) -> None:
    threads: list[int] = []
    stream.submit_external(lambda: threads.append(threading.get_ident()), lambda: None)
    assert threads == [threading.get_ident()]
    stream.synchronize()


def test_external_work_waits_its_turn_when_the_stream_is_busy(blocked: tuple) -> None:
    stream, unblock = blocked
    seen: list[str] = []
    stream.submit_external(lambda: seen.append("start"), lambda: seen.append("wait"))
    stream.submit(lambda: seen.append("next"))
    assert seen == []
    unblock()
    stream.synchronize()
    assert seen == ["start", "wait", "next"]


def test_work_after_external_work_waits_for_it(stream: cuda.Stream) -> None:
    gate, seen = threading.Event(), []
    stream.submit_external(lambda: seen.append("start"), lambda: (gate.wait(20), seen.append("done")))
    stream.submit(lambda: seen.append("next"))
    stream.submit_external(lambda: seen.append("start 2"), lambda: seen.append("done 2"))
    assert seen == ["start"] and not stream.idle()
    gate.set()
    stream.synchronize()
    assert seen == ["start", "done", "next", "start 2", "done 2"] and stream.idle()


def test_external_work_is_waited_for_once_by_any_number_of_threads(stream: cuda.Stream) -> None:
    waits: list[int] = []
    stream.submit_external(lambda: None, lambda: (time.sleep(0.02), waits.append(1)))
    threads = [threading.Thread(target=stream.synchronize) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert waits == [1] and stream.idle()


def test_polling_finishes_external_work_that_nobody_waits_for(stream: cuda.Stream) -> None:
    stream.submit_external(lambda: None, lambda: time.sleep(0.01))
    deadline = time.monotonic() + 10
    while not stream.is_done() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert stream.is_done()


def test_error_of_external_work_surfaces_at_synchronise(stream: cuda.Stream) -> None:
    stream.submit_external(lambda: None, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stream.synchronize()
    stream.synchronize()


def test_error_when_external_work_starts_is_raised_at_once(stream: cuda.Stream) -> None:
    with pytest.raises(ZeroDivisionError):
        stream.submit_external(lambda: 1 / 0, lambda: None)
    assert stream.idle()


def test_events_are_reached_in_the_streams_order(blocked: tuple) -> None:
    stream, unblock = blocked
    event = cuda.Event().record(stream)
    assert event.query() is False
    unblock()
    assert event.synchronize() is event and event.query() is True


def _ms_since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1e3


def test_event_times_are_those_of_the_work_between(stream: cuda.Stream) -> None:
    begun = time.perf_counter()
    start = cuda.Event().record(stream)
    stream.submit(lambda: time.sleep(0.05))
    end = cuda.Event().record(stream)
    end.synchronize()
    assert 50 <= start.time_till(end) <= _ms_since(begun)
    assert end.time_since(start) == start.time_till(end)


def test_event_after_external_work_is_timed_when_that_is_done(stream: cuda.Stream) -> None:
    begun = time.perf_counter()
    start = cuda.Event().record(stream)
    stream.submit_external(lambda: None, lambda: time.sleep(0.03))
    end = cuda.Event().record(stream)
    deadline = time.monotonic() + 10
    while not end.query() and time.monotonic() < deadline:
        time.sleep(0.001)
    reached_ms = _ms_since(begun)
    time.sleep(0.01)
    end.synchronize()
    assert 30 <= start.time_till(end) <= reached_ms


def test_event_that_was_not_recorded_or_reached_has_no_time(blocked: tuple) -> None:
    pending = cuda.Event().record(blocked[0])
    with pytest.raises(cuda.LogicError, match="never recorded"):
        cuda.Event().time_till(cuda.Event())
    with pytest.raises(cuda.LogicError, match="not reached"):
        pending.time_till(pending)


def test_unrecorded_event_counts_as_reached() -> None:
    assert cuda.Event().query() is True and cuda.Event().synchronize()


def test_stream_waits_for_another_streams_event(blocked: tuple, stream: cuda.Stream) -> None:
    first, unblock = blocked
    seen: list[str] = []
    first.submit(lambda: seen.append("first"))
    stream.wait_for_event(cuda.Event().record(first))
    stream.submit(lambda: seen.append("second"))
    unblock()
    stream.synchronize()
    assert seen == ["first", "second"]


def test_event_synchronise_raises_the_streams_error(stream: cuda.Stream) -> None:
    stream.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cuda.Event().record(stream).synchronize()


def test_stream_is_found_by_its_handle_while_it_lives(stream: cuda.Stream) -> None:
    assert cuda.stream_from_handle(stream.handle) is stream
    handle = cuda.Stream().handle
    gc.collect()
    with pytest.raises(cuda.LogicError, match="no live stream"):
        cuda.stream_from_handle(handle)


def test_handle_zero_is_the_default_stream() -> None:
    assert cuda.stream_from_handle(0) is streams.DEFAULT_STREAM


def workers_of(*handles: int) -> list[threading.Thread]:
    names = {f"cpu-engine-stream-{handle}_0" for handle in handles}
    return [thread for thread in threading.enumerate() if thread.name in names]


def test_worker_ends_with_its_stream_after_its_work() -> None:
    done: list[int] = []
    stream = cuda.Stream()
    stream.submit(lambda: (time.sleep(0.02), done.append(1)))
    (worker,) = workers_of(stream.handle)
    del stream
    worker.join(10)
    assert not worker.is_alive() and done == [1]


def test_stream_that_never_worked_starts_no_thread() -> None:
    streams = [cuda.Stream() for _ in range(100)]
    for stream in streams:
        assert stream.try_now(lambda: None)
        stream.synchronize()
    assert workers_of(*(stream.handle for stream in streams)) == []


def test_stream_cannot_wait_for_itself(stream: cuda.Stream) -> None:
    stream.submit(stream.synchronize)
    with pytest.raises(cuda.LogicError, match="wait for itself"):
        stream.synchronize()


def test_many_threads_may_enqueue_to_one_stream(stream: cuda.Stream) -> None:
    seen: list[int] = []

    def enqueue() -> None:
        for index in range(200):
            if index % 3:
                stream.submit(lambda: seen.append(1))
            else:
                stream.submit_external(lambda: seen.append(1), lambda: None)

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.synchronize()
    assert len(seen) == 800 and stream.idle()
