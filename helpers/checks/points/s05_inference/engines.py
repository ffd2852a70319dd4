"""The engines that step 5's points run the class on, and how results are compared with ONNX Runtime's."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s05_inference.probes import Call, Result, images_of
from helpers.engine.backend import ENGINE
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import EDGE, shuffled, tiny_onnx

MOST = 32
"""The largest batch of the profiles, as in the lab's engines from step 3 on."""

LEAST = 2
"""The smallest batch of the second engine."""

FIXED_BATCH = 7
_TRIES = 5  # pairs of builds: in a new process the first two plans differ in size, most later ones do not
_TOLERANCE = 5e-5  # of a row; FP32 engines were seen to differ from ONNX Runtime by 1e-6, scores in FP16 by 2e-4


@dataclass(frozen=True)
class Small:
    """A small FP32 engine: its plan, the ONNX model that it was built from, and an image's channels, height, width."""

    plan: bytes
    onnx: bytes
    image: tuple[int, int, int]

    def expected(self, images: np.ndarray) -> np.ndarray:
        """Return ONNX Runtime's scores [N, classes]."""
        return onnx_outputs(self.onnx, images)


def usual(case: Case, purpose: str = "inference.usual", most: int = MOST) -> Small:
    """Return an engine like the lab's: 3×224×224, ten classes, batches 1 to `most`; another one for each purpose."""
    return _usual(tiny_onnx(case.number(purpose)), most)


def alike(case: Case) -> tuple[Small, Small]:
    """Return the usual engine and one with other weights, where possible with a plan of the same size.

    On the CPU engine a plan holds names that OpenVINO counts in a process: one digit more, and the next plan is larger.
    """
    for attempt in range(_TRIES if ENGINE == "cpu" else 1):
        first = usual(case, "inference.usual" if not attempt else f"inference.usual{attempt}")
        second = _usual(shuffled(first.onnx, case.number("inference.alike")), MOST)
        if len(first.plan) == len(second.plan):
            break
    return first, second


def _usual(onnx: bytes, most: int) -> Small:
    return Small(probe_engine(onnx, (1, 8, most)), onnx, (3, EDGE, EDGE))


def wide(case: Case) -> Small:
    """Return an engine of one channel and another size, for batches from 2, whose scores take 16 KB a row.

    Copying the scores takes as long as computing them: who reads too early reads old ones.
    """
    image = (1, 40, 56)
    onnx = tiny_onnx(case.number("inference.wide"), 4096, image=image)
    return Small(probe_engine(onnx, (LEAST, 3, MOST)), onnx, image)


def fixed(case: Case) -> Small:
    """Return an engine for batches of seven images of 96×96 and no others, whose tensors have other names."""
    image = (3, 96, 96)
    onnx = tiny_onnx(case.number("inference.fixed"), 17, FIXED_BATCH, image, ("pixels", "scores"))
    return Small(probe_engine(onnx), onnx, image)


def calls(case: Case, purpose: str, *numbers: int, **more: Any) -> list[Call]:
    """Return a call for each of the numbers of images, each with images of its own."""
    return [{"seed": case.number(f"{purpose}.{i}"), "number": number, **more} for i, number in enumerate(numbers)]


def judge(result: Result, small: Small, call: Call, what: str) -> float:
    """Return the largest relative error of a row; raise Missed where `result` is not the engine's outputs."""
    expected = small.expected(images_of(call, small.image))
    if isinstance(result, np.ndarray) and result.dtype.kind in "SU":
        result = {"type": "NumPy array of text"}
    if not isinstance(result, np.ndarray) or result.shape != expected.shape:
        found = f"an array of shape {result.shape}" if isinstance(result, np.ndarray) else f"a {result['type']}"
        advice = "return one row of scores an image, whatever the batch"
        raise Missed(f"{what}: a NumPy array of shape {expected.shape}", found, advice)
    wrong = ~(row_errors(result, expected) <= _TOLERANCE)
    if wrong.any():
        found = f"{wrong.sum()} of {len(wrong)} rows are others, the first is row {wrong.argmax()}"
        advice = "follow one image: host array, device buffer, execution, device buffer, wait, host array"
        raise Missed(f"{what}: the network's outputs for these images", found, advice)
    return float(row_errors(result, expected).max())


def row_errors(outputs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return each row's relative L2 error, [N]: a single wrong row must not drown among right ones."""
    expected = expected.astype(np.float64)  # memory that was never written may hold numbers whose square overflows
    return np.linalg.norm(outputs - expected, axis=1) / np.maximum(np.linalg.norm(expected, axis=1), 1e-12)
