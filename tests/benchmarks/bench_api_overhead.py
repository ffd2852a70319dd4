"""What the API costs: `execute_async_v3` + synchronise against OpenVINO's own `infer` on the same compiled model.

Both run in one process with the same threads, in turns, round by round; the figure is the median of the paired ratios.
Models: ResNet-50 in FP32 at batch 1, and a small convolutional net that takes about a millisecond.
A stream's own cost stands beside: enqueue and synchronise of empty work against one hand-over between two threads.
"""

import io
import queue
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino as ov

from tests.benchmarks.fidelity import recorded_network
from tests.benchmarks.nets import build_engine, small_net
from trtcpu import cuda
from trtcpu import tensorrt as trt
from trtcpu.plan import Plan


def measure(rounds: int = 200) -> dict[str, Any]:
    """Return `api_overhead` (the paired ratio by model), `api_overhead_ms` (the medians) and `stream_cost`."""
    models = {
        "resnet50": (recorded_network(), (1, 3, 224, 224), rounds),
        "one_millisecond": (small_net(), (1, 3, 224, 224), rounds * 10),
    }
    found = {name: _paired(*arguments) for name, arguments in models.items()}
    return {
        "api_overhead": {name: entry.pop("ratio") for name, entry in found.items()},
        "api_overhead_ms": found,
        "stream_cost": _stream_cost(rounds * 10),
    }


def _stream_cost(rounds: int) -> dict[str, float]:
    """Return what empty work on a stream costs, as a ratio to a round trip through two queues and a thread.

    `on_the_caller` is an inference's way: it starts on the calling thread, and the worker waits for its end.
    `on_the_worker` is a copy's. Both hand a future to the worker and back, and on a virtual machine that costs more
    than a round trip, in which the caller sleeps at once and both threads stay on one core.
    """
    stream = cuda.Stream()
    there: queue.SimpleQueue[bool] = queue.SimpleQueue()
    back: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def echo() -> None:
        while there.get():
            back.put(True)

    worker = threading.Thread(target=echo, daemon=True)
    worker.start()
    ways: dict[str, Callable[[], object]] = {
        "on_the_caller": lambda: (stream.submit_external(lambda: None, lambda: None), stream.synchronize()),
        "on_the_worker": lambda: (stream.submit(lambda: None), stream.synchronize()),
        "round_trip": lambda: (there.put(True), back.get()),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    there.put(False)
    worker.join()
    median = {name: statistics.median(found) for name, found in times.items()}
    return {name: median[name] / median["round_trip"] for name in ("on_the_caller", "on_the_worker")}


def _through_the_api(engine: trt.ICudaEngine, data: np.ndarray) -> tuple[Callable[[], None], list]:
    context, stream = engine.create_execution_context(), cuda.Stream()
    context.set_input_shape("input", data.shape)
    device_input = cuda.mem_alloc(data.nbytes)
    device_output = cuda.mem_alloc(4 * trt.volume(context.get_tensor_shape("output")))
    cuda.memcpy_htod(device_input, data)
    context.set_tensor_address("input", int(device_input))
    context.set_tensor_address("output", int(device_output))

    def run() -> None:
        context.execute_async_v3(stream.handle)
        stream.synchronize()

    return run, [device_input, device_output, context]


def _raw(engine: trt.ICudaEngine, data: np.ndarray) -> Callable[[], object]:
    """OpenVINO's own inference of the very model that the engine holds."""
    config = {"INFERENCE_PRECISION_HINT": ov.Type.f32, "PERFORMANCE_HINT": "LATENCY"}
    blob = Plan.deserialize(bytes(engine.serialize())).blob
    request = ov.Core().import_model(io.BytesIO(blob), "CPU", config).create_infer_request()
    request.set_tensor("input", ov.Tensor(data.copy()))
    return request.infer


def _paired(model: bytes, shape: tuple[int, ...], rounds: int) -> dict[str, float]:
    engine = build_engine(model, shape)
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    api, keep = _through_the_api(engine, data)
    raw = _raw(engine, data)
    times: dict[str, list[float]] = {"api": [], "raw": []}
    for number in range(rounds + rounds // 10):
        for name, run in (("api", api), ("raw", raw)) if number % 2 else (("raw", raw), ("api", api)):
            started = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - started) * 1e3)
    skip = rounds // 10
    pairs = zip(times["api"][skip:], times["raw"][skip:], strict=True)
    keep.clear()
    return {
        "api_ms": statistics.median(times["api"][skip:]),
        "openvino_ms": statistics.median(times["raw"][skip:]),
        "ratio": statistics.median(a / b for a, b in pairs),
    }
