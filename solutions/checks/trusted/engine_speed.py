"""The speed of a submission's plan, against the reference engine and against PyTorch, in one run with each.

A plan is timed on images of the run, several batches by turns, and what it gives then is judged, in each execution:
else an engine that knew what it is timed on, or counted its executions (a seeded RandomUniform does), and computed
something quicker for most of them, would be as fast as it likes.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.builders import LEAST_SPEEDUP
from helpers.checks.points.case import Case
from helpers.course.settings import MODEL, PROFILE_BATCHES
from helpers.tools.outputs import onnx_outputs, relative_error, shown_error
from helpers.toys.networks import EDGE
from solutions.checks.core.claim import Earned
from solutions.checks.trusted.plans import exactness, same_network
from solutions.checks.trusted.speed import compare_speed, judge_ratio, timed
from trtlab.engines.timed import Timed, opened
from trtlab.timing.runners import RunnerSpec, load_runner

_BATCHES, _SAMPLE = 3, 4
_SIZES = 0.3, 2.0  # images of one size have about one answer, which a constant would meet
_OF_TWO = 1.5
"""Times `exactness` that a plan and the reference engine, which is at most half of it off, may differ."""


@dataclass(frozen=True)
class TimedOn:
    """What plans are timed on.

    Attributes:
        images: draws so many new images of the run.
        judge: raises Missed where a plan's outputs [N, classes] for them are not those expected.
    """

    images: Callable[[int], np.ndarray]
    judge: Callable[[np.ndarray, np.ndarray], None]


class _Turns:
    """Turns of an engine on batches, one after the other; `outputs` holds the distinct outputs of each turn."""

    def __init__(self, engine: Timed, batches: list[np.ndarray]) -> None:
        self._engine, self._batches = engine, batches
        self.outputs: list[np.ndarray] = []

    def __call__(self, executions: int) -> float:
        ran = self._engine.executions(self._batches[len(self.outputs) % len(self._batches)], executions)
        self.outputs.append(ran["outputs"])
        return statistics.median(ran["times"]) / 1e3

    def judged(self, by: TimedOn, expected: list[np.ndarray]) -> None:
        """Judge the outputs of all turns by those expected for each batch."""
        wanted = np.concatenate(
            [expected[index % len(self._batches)] for index, found in enumerate(self.outputs) for _ in found]
        )
        outputs = np.concatenate([output for found in self.outputs for output in found])
        if outputs.shape != wanted.shape:
            raise Missed(f"outputs of shape {wanted.shape}", f"{outputs.shape}", "build from the lab's ONNX file")
        by.judge(outputs, wanted)


def noise_for(case: Case, trusted: bytes, model: bytes) -> TimedOn:
    """Return noise of the case, on which a plan must give what the reference does, as exactly as a trusted engine."""
    random = case.random("timed.noise")

    def images(number: int) -> np.ndarray:
        sizes = random.uniform(*_SIZES, (number, 1, 1, 1))
        return (sizes * random.standard_normal((number, 3, EDGE, EDGE))).astype(np.float32)

    def judge(outputs: np.ndarray, expected: np.ndarray) -> None:
        limit = _OF_TWO * exactness(trusted, model, images(_SAMPLE))
        error = relative_error(outputs, expected)
        if not error <= limit:
            found = f"a relative error of {shown_error(error)} on the images that it was timed on"
            advice = "an engine must compute the network for every image, also while it is timed"
            raise Missed(f"the reference's outputs within {limit:.1%}", found, advice)

    return TimedOn(images, judge)


def against_reference(
    plan: bytes, reference: Path, try_this: str, timed_on: TimedOn, batch: int | None = None
) -> Earned:
    """Return the points' share for a plan's speed, at `batch` or else at the batch that the plan is tuned for.

    A plan of the very network that the reference holds is not timed: it would be compared with itself.

    Raises:
        Missed: while it is timed it computes something else.
    """
    if same_network(plan, reference.read_bytes()):
        return Earned(1.0, "the same compiled network as the reference engine")
    own, other = opened(plan), opened(reference.read_bytes())
    size = batch or min(own.opt_batch, other.max_batch)
    batches = [timed_on.images(size) for _ in range(_BATCHES)]
    ours, theirs = _Turns(own, batches), _Turns(other, batches)
    ratio = compare_speed(ours, theirs)
    ours.judged(timed_on, [found[0] for found in theirs.outputs])
    return judge_ratio(ratio, f"batch {size}", try_this)


def against_pytorch(plan: bytes, model: bytes, try_this: str, timed_on: TimedOn) -> str:
    """Return evidence that a plan is LEAST_SPEEDUP times as fast as PyTorch FP32 at the batch that it is tuned for.

    Raises:
        Missed: it is not, or while it is timed it computes something else than `model`.
    """
    pytorch = load_runner(RunnerSpec("pytorch", MODEL))
    own = opened(plan)
    size = min(own.opt_batch, PROFILE_BATCHES[-1])
    pytorch.bind(size)
    batches = [timed_on.images(size) for _ in range(_BATCHES)]
    ours = _Turns(own, batches)
    ratio = compare_speed(ours, timed(pytorch.run), (LEAST_SPEEDUP,))
    ours.judged(timed_on, [onnx_outputs(model, images) for images in batches])
    if ratio.high <= LEAST_SPEEDUP:
        raise Missed(f"more than {LEAST_SPEEDUP} times PyTorch FP32's throughput", str(ratio), try_this)
    return f"batch {size}: {ratio}"
