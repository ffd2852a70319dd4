"""What two contexts in two streams reach at batch 1, against OpenVINO's throughput mode on the same compiled model.

Ours: two host threads, each with a context and a stream, take the next image, enqueue and synchronise. OpenVINO's: the
infer queue with as many requests as it finds best. Both have inputs and outputs in place and compute in the same
precision, in one process, in short turns of random order; a turn's times make a paired ratio. The interval is the 95 %
bootstrap interval of the ratios' median.
"""

import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import openvino as ov

from tests.benchmarks.fidelity import CACHE_FILES, RECORDING, calibrated_engine, make_calibrator, recorded_network
from tests.benchmarks.nets import build_engine, load_engine, small_net
from trtcpu import cuda
from trtcpu import tensorrt as trt
from trtcpu.plan import Plan

_SHAPE = (1, 3, 224, 224)
_TYPES = {"f32": ov.Type.f32, "f16": ov.Type.f16, "bf16": ov.Type.bf16}
_RESAMPLES = 2000
_WARM_UP = 3  # turns
_SETTLE = 6  # inferences before each turn: the weights of the copy that runs come into the cache


def measure(turns: int = 60) -> dict[str, Any]:
    """Return `streams`: by model and precision, what `_paired` measures."""
    half = trt.BuilderFlag.FP16
    cases: dict[str, tuple[Callable[[], trt.ICudaEngine], int]] = {
        "resnet50_fp32": (lambda: build_engine(recorded_network(), _SHAPE), 24),
        "resnet50_fp16": (lambda: build_engine(recorded_network(), _SHAPE, half), 80),
        "resnet50_int8": (_int8_engine, 80),
        "small_fp32": (lambda: build_engine(small_net(), _SHAPE), 600),
        "small_fp16": (lambda: build_engine(small_net(), _SHAPE, half), 600),
    }
    return {"streams": {name: _paired(build(), turns, images) for name, (build, images) in cases.items()}}


def _int8_engine() -> trt.ICudaEngine:
    """ResNet-50 in INT8 and FP16, with the scales that TensorRT wrote."""
    shape = (8, *_SHAPE[1:])
    cache = (RECORDING / CACHE_FILES["entropy2"]).read_bytes()
    calibrator = make_calibrator("entropy2", np.zeros(shape, np.float32), shape[0], cache)
    return load_engine(calibrated_engine(recorded_network(), calibrator, shape))


def _paired(engine: trt.ICudaEngine, turns: int, images: int) -> dict[str, Any]:
    """Run turns of `images` each in three ways.

    Returns:
        Images per second of one context, of two, and of OpenVINO's throughput mode with its `requests` (medians of the
        turns); `ratio`, the median of two contexts' speed over that mode's in the same turn; `interval`, its 95 %.
    """
    data = np.random.default_rng(0).normal(size=_SHAPE).astype(np.float32)
    lanes = [_Lane(engine, data) for _ in range(2)]
    hosts, queue = ThreadPoolExecutor(len(lanes)), _openvino_queue(engine, data)
    ways: dict[str, Callable[[int], None]] = {
        "one_context": lambda count: _through_streams(hosts, lanes[:1], count),
        "two_contexts": lambda count: _through_streams(hosts, lanes, count),
        "openvino": lambda count: _through_the_queue(queue, count),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    chance = np.random.default_rng(0)
    with hosts:
        for _ in range(_WARM_UP + turns):
            for name in chance.permutation(list(ways)):
                ways[name](_SETTLE)
                started = time.perf_counter()
                ways[name](images)
                seconds[name].append(time.perf_counter() - started)
    kept = {name: np.array(found[_WARM_UP:]) for name, found in seconds.items()}
    ratios = kept["openvino"] / kept["two_contexts"]
    return {
        **{f"{name}_images_per_s": float(images / np.median(found)) for name, found in kept.items()},
        "requests": len(queue),
        "ratio": float(np.median(ratios)),
        "interval": interval(ratios),
    }


def interval(ratios: np.ndarray) -> list[float]:
    """Return the 95 % bootstrap interval of the median of `ratios` [turns]."""
    chosen = np.random.default_rng(0).integers(0, len(ratios), (_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[chosen], axis=1), [2.5, 97.5])
    return [float(low), float(high)]


class _Lane:
    """A context with its stream and its buffers."""

    def __init__(self, engine: trt.ICudaEngine, data: np.ndarray) -> None:
        self.context, self.stream = engine.create_execution_context(), cuda.Stream()
        self.context.set_input_shape("input", data.shape)
        output_bytes = 4 * trt.volume(self.context.get_tensor_shape("output"))
        self.buffers = {"input": cuda.to_device(data), "output": cuda.mem_alloc(output_bytes)}
        for name, buffer in self.buffers.items():
            self.context.set_tensor_address(name, int(buffer))

    def enqueue(self) -> None:
        if not self.context.execute_async_v3(self.stream.handle):
            raise RuntimeError("the engine refused to run")


def _through_streams(hosts: ThreadPoolExecutor, lanes: list[_Lane], images: int) -> None:
    left = iter(range(images))

    def serve(lane: _Lane) -> None:
        for _ in left:
            lane.enqueue()
            lane.stream.synchronize()

    list(hosts.map(serve, lanes))


def _openvino_queue(engine: trt.ICudaEngine, data: np.ndarray) -> ov.AsyncInferQueue:
    """OpenVINO's throughput mode for the very model that the engine holds."""
    plan = Plan.deserialize(bytes(engine.serialize()))
    config = {"INFERENCE_PRECISION_HINT": _TYPES[plan.hint], "PERFORMANCE_HINT": "THROUGHPUT"}
    queue = ov.AsyncInferQueue(ov.Core().import_model(io.BytesIO(plan.blob), "CPU", config))
    for request in queue:
        request.set_tensor("input", ov.Tensor(data.copy()))
    return queue


def _through_the_queue(queue: ov.AsyncInferQueue, images: int) -> None:
    for _ in range(images):
        queue.start_async()
    queue.wait_all()
