"""pycuda.driver's names on cuda-python, with a CUDA in memory: what is freed when, what keeps what, which error."""

import gc
import inspect
import re
import sys
import threading

import numpy as np
import pytest

from helpers.engine import cuda_python as cuda
from helpers.engine.cuda_python import driver
from tests.conformance import test_memory as conformance
from tests.fake_cuda import CUresult, FakeDriver
from trtcpu import cuda as cpu_cuda

CASES = {name: case for name, case in vars(conformance).items() if name.startswith("test_")}
WITHOUT_ARGUMENTS = [name for name, case in CASES.items() if not inspect.signature(case).parameters]


@pytest.mark.parametrize("name", WITHOUT_ARGUMENTS)
def test_a_conformance_case_of_memory_holds(name: str, gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "cuda", cuda)
    CASES[name]()


def test_every_name_that_the_cpu_engine_has_of_pycuda_is_here() -> None:
    ours = {"DeviceMemoryError", "stream_from_handle"}  # the CPU engine's own
    assert set(cpu_cuda.__all__) - ours <= set(cuda.__all__)


def test_a_name_of_pycuda_alone_says_that_pycuda_has_it() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Module'.* pip install pycuda"):
        _ = cuda.Module


def test_memory_is_freed_with_its_object_and_not_before(gpu: FakeDriver) -> None:
    memory = cuda.mem_alloc(64)
    kept = memory
    del memory
    gc.collect()
    assert list(gpu.device) == [int(kept)]
    del kept
    gc.collect()
    assert not gpu.device


def test_memory_that_was_freed_is_not_freed_again_with_its_object(gpu: FakeDriver) -> None:
    memory = cuda.mem_alloc(64)
    address = int(memory)
    memory.free()
    gpu.device[address] = "somebody else's memory at the same address"
    del memory
    gc.collect()
    assert address in gpu.device


def test_memory_collected_in_another_thread_is_freed(gpu: FakeDriver) -> None:
    box = [cuda.mem_alloc(64)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert not gpu.device


def test_another_thread_has_no_context_until_it_pushes_one(gpu: FakeDriver) -> None:
    found = []

    def work() -> None:
        with pytest.raises(cuda.LogicError):
            cuda.mem_alloc(64)
        cuda.Device(0).retain_primary_context().push()
        found.append(cuda.mem_alloc(64))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_context_that_is_current_already_stays_the_current_one(gpu: FakeDriver) -> None:
    before = gpu.cuCtxGetCurrent()
    cuda.use_primary_context()
    assert gpu.cuCtxGetCurrent() == before and len(gpu._stack()) == 1


def test_page_locked_memory_lives_as_long_as_a_view_of_it(gpu: FakeDriver) -> None:
    array = cuda.pagelocked_zeros((4, 8), np.float32)
    view = array[1:, ::2].reshape(-1)[:1], array.T, array[2]
    del array
    gc.collect()
    assert len(gpu.pinned) == 1
    view[2][...] = 7
    del view
    gc.collect()
    assert not gpu.pinned


@pytest.mark.parametrize("order", ["C", "F"])
def test_page_locked_arrays_are_aligned_and_have_the_order_asked_for(gpu: FakeDriver, order: str) -> None:
    array = cuda.pagelocked_empty((3, 5), np.float64, order)
    assert array.flags.aligned and array.flags[f"{order}_CONTIGUOUS"] and array.flags.writeable
    like = cuda.pagelocked_zeros_like(array)
    assert like.shape == (3, 5) and like.strides == array.strides and not like.any()


def test_streams_and_events_are_destroyed_with_their_objects(gpu: FakeDriver) -> None:
    stream, event = cuda.Stream(), cuda.Event()
    event.record(stream)
    stream.synchronize()
    del stream, event
    gc.collect()
    assert list(gpu.streams) == [0] and not gpu.events


def test_work_of_a_stream_is_done_in_order_once_it_is_synchronised(gpu: FakeDriver) -> None:
    stream, memory, host = cuda.Stream(), cuda.mem_alloc(16), cuda.pagelocked_zeros(4, np.uint32)
    cuda.memset_d32_async(memory, 5, 4, stream)
    cuda.memcpy_dtoh_async(host, memory, stream)
    event = cuda.Event().record(stream)
    assert not stream.is_done() and not event.query() and not host.any()
    with pytest.raises(cuda.RuntimeError):
        event.time_since(event)
    stream.synchronize()
    assert stream.is_done() and event.query() and (host == 5).all()


def test_one_stream_waits_for_the_event_of_another(gpu: FakeDriver) -> None:
    first, second, memory, host = cuda.Stream(), cuda.Stream(), cuda.mem_alloc(4), np.zeros(4, np.uint8)
    cuda.memset_d8_async(memory, 3, 4, first)
    event = cuda.Event().record(first)
    second.wait_for_event(event)
    cuda.memcpy_dtoh_async(host, memory, second)
    second.synchronize()
    assert set(host) == {3}


def test_time_runs_from_one_event_to_the_next(gpu: FakeDriver) -> None:
    start, end = cuda.Event().record(), cuda.Event().record()
    assert end.synchronize() is end
    assert start.time_till(end) == end.time_since(start) > 0


def test_fortran_order_is_copied_as_its_bytes_lie(gpu: FakeDriver) -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    memory, back = cuda.mem_alloc(array.nbytes), np.empty(6, np.float32)
    cuda.memcpy_htod(memory, array)
    cuda.memcpy_dtoh(back, memory)
    np.testing.assert_array_equal(back, array.reshape(-1, order="F"))


@pytest.mark.parametrize(
    "source",
    [b"12345678", bytearray(8), memoryview(b"12345678"), np.float64(3)],
    ids=lambda source: type(source).__name__,
)
def test_whatever_is_a_buffer_can_be_copied(gpu: FakeDriver, source: object) -> None:
    back = cuda.from_device(cuda.to_device(source), 8, np.uint8)
    assert back.tobytes() == bytes(memoryview(source))


def test_what_is_no_buffer_is_a_type_error(gpu: FakeDriver) -> None:
    with pytest.raises(TypeError):
        cuda.memcpy_htod(cuda.mem_alloc(8), [1, 2])
    with pytest.raises(TypeError):
        cuda.memcpy_htod(1.5, np.zeros(1))


def test_a_copy_past_the_allocation_is_a_logic_error_with_pycudas_text(gpu: FakeDriver) -> None:
    with pytest.raises(cuda.LogicError) as error:
        cuda.memcpy_htod(cuda.mem_alloc(8), np.zeros(2))
    assert str(error.value) == "cuMemcpyHtoD failed: invalid argument"


def test_a_second_free_has_pycudas_text(gpu: FakeDriver) -> None:
    memory = cuda.mem_alloc(8)
    memory.free()
    with pytest.raises(cuda.LogicError, match=re.escape("device_allocation::free failed: invalid resource handle")):
        memory.free()


@pytest.mark.parametrize(
    "result, kind",
    [
        (CUresult.CUDA_ERROR_OUT_OF_MEMORY, cuda.MemoryError),
        (CUresult.CUDA_ERROR_OUT_OF_MEMORY, MemoryError),
        (CUresult.CUDA_ERROR_NO_DEVICE, cuda.RuntimeError),
        (CUresult.CUDA_ERROR_LAUNCH_FAILED, cuda.LaunchError),
        (CUresult.CUDA_ERROR_UNKNOWN, cuda.Error),
        (CUresult.CUDA_ERROR_INVALID_CONTEXT, cuda.LogicError),
    ],
)
def test_each_result_is_the_class_that_pycuda_raises(gpu: FakeDriver, result: CUresult, kind: type) -> None:
    gpu.cuInit = lambda flags: (result,)
    with pytest.raises(kind) as error:
        cuda.init()
    assert isinstance(error.value, cuda.Error) and str(error.value).startswith("cuInit failed: ")


def test_the_device_says_what_it_is(gpu: FakeDriver) -> None:
    device = cuda.Context.get_device()
    assert device == cuda.Device(0) and device.name() == "A GPU in memory"
    assert device.compute_capability() == (9, 0) and device.multiprocessor_count == 132
    assert cuda.get_version() == (13, 0, 0) and cuda.get_driver_version() == 13020


def test_there_is_no_device_beyond_the_last(gpu: FakeDriver) -> None:
    with pytest.raises(cuda.LogicError):
        cuda.Device(1)


def test_the_room_can_be_imported_without_cuda_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_api", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(ImportError):
        cuda.init()
