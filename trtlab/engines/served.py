"""The outputs of an engine or a model by calls, so that they can run where strangers' files are loaded.

`opened` keeps an engine open to be timed; every other call loads what it is given.
"""

import hashlib
import timeit
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.engine.memory import keep_freed_memory
from helpers.tools.outputs import onnx_outputs
from trtcpu.errors import EngineError
from trtlab.engines.inference import InferenceEngine

_MOST_OPEN = 4

_open: dict[str, InferenceEngine] = {}  # by their plans' hashes; the one that was opened last is the last


@loads
def inferred(plan: bytes, images: np.ndarray) -> np.ndarray:
    """Return `InferenceEngine.infer`'s outputs [N, …] of a plan.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.infer(images)


@loads
def predicted(plan: bytes, images: np.ndarray) -> np.ndarray:
    """Return `InferenceEngine.predict`'s outputs [N, …] of a plan.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.predict(images)


@loads
def ran(plan: bytes, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `InferenceEngine.run`'s outputs of a plan by name.

    Raises:
        LabError: as that does.
    """
    with InferenceEngine(plan) as engine:
        return engine.run(feeds)


@loads
def batches_of(plan: bytes) -> list[int]:
    """Return the least, best and largest batch of a plan.

    Raises:
        LabError: it is no engine of this TensorRT.
    """
    with InferenceEngine(plan) as engine:
        return [engine.min_batch, engine.opt_batch, engine.max_batch]


@loads
def model_outputs(model: bytes, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes] of an ONNX model."""
    return onnx_outputs(model, images)


class Ran(TypedDict):
    """What executions gave: the milliseconds of each, and the distinct values of the first output: [distinct, N, …]."""

    times: list[float]
    outputs: np.ndarray


@dataclass(frozen=True)
class Timed:
    """An engine that is open, and its profile's batches."""

    key: str
    min_batch: int
    opt_batch: int
    max_batch: int

    def executions(self, images: np.ndarray, number: int) -> Ran:
        """Execute `number` times on images [N, …], which are on the device before.

        Raises:
            LabError: it cannot take the batch, or has been closed since.
        """
        return _executions(self.key, images, number)

    def inferences(self, images: np.ndarray, number: int) -> list[float]:
        """Return the milliseconds of each of `number` inferences on images [N, …], copies included; one warms up.

        Raises:
            LabError: as `executions`.
        """
        return _inferences(self.key, images, number)


def opened(plan: bytes) -> Timed:
    """Open a plan; the last few that were opened stay so.

    Raises:
        LabError: it cannot be loaded.
    """
    key = hashlib.sha256(plan).hexdigest()
    return Timed(key, *_opened(key, plan))


@loads(repeatable=False)
def _opened(key: str, plan: bytes) -> tuple[int, int, int]:
    engine = _open.pop(key, None)
    while len(_open) >= _MOST_OPEN:
        _open.pop(next(iter(_open))).close()
    _open[key] = engine or InferenceEngine(plan)
    return _open[key].min_batch, _open[key].opt_batch, _open[key].max_batch


def _engine(key: str) -> InferenceEngine:
    if key not in _open:
        raise EngineError("the engine was closed, since too many others were opened or their process broke")
    return _open[key]


@loads(repeatable=False)
def _executions(key: str, images: np.ndarray, number: int) -> Ran:
    engine = _engine(key)
    engine.upload(engine.named(images))
    engine.synchronize()
    times: list[float] = []
    outputs: list[np.ndarray] = []
    for _ in range(number):
        times.append(engine.execute_ms())
        found = engine.download()[engine.output_name].astype(np.float32, copy=False)
        if not any(np.array_equal(found, other) for other in outputs):
            outputs.append(found)
    return {"times": times, "outputs": np.stack(outputs)}


@loads(repeatable=False)
def _inferences(key: str, images: np.ndarray, number: int) -> list[float]:
    keep_freed_memory()
    seconds = timeit.repeat(partial(_engine(key).infer, images), number=1, repeat=number + 1)
    return [each * 1e3 for each in seconds[1:]]
