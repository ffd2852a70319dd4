"""The speed of a submission's plan against the reference engine and against PyTorch, each in one run with it."""

import statistics
import timeit
from pathlib import Path

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.builders import LEAST_SPEEDUP
from helpers.checks.points.case import Case
from helpers.checks.points.task import Earned
from helpers.course.settings import MODEL, PROFILE_BATCHES
from solutions.checks.trusted.plans import images, same_network
from solutions.checks.trusted.speed import Turn, compare_speed, judge_ratio
from trtlab.engines.served import Timed, opened
from trtlab.timing.runners import Runner, RunnerSpec, load_runner


def _turn(engine: Timed, images: np.ndarray) -> Turn:
    """Return the turns of an engine on a batch."""
    return lambda executions: statistics.median(engine.executions(images, executions)["times"]) / 1e3


def _turn_of(runner: Runner) -> Turn:
    """Return the turns of a runner that is bound to a batch."""
    return lambda executions: statistics.median(timeit.repeat(runner.run, number=1, repeat=executions))


def against_reference(case: Case, plan: bytes, reference: Path, try_this: str, batch: int | None = None) -> Earned:
    """Return the share of points for a plan's speed, at `batch` or at the batch that the plan is tuned for.

    A plan with the same compiled network as the reference is not timed: it would be compared with itself.
    """
    if same_network(plan, reference.read_bytes()):
        return Earned(1.0, "the same compiled network as the reference engine")
    own, other = opened(plan), opened(reference.read_bytes())
    noise = images(case, "timed", batch or min(own.opt_batch, other.max_batch))
    ratio = compare_speed(_turn(own, noise), _turn(other, noise))
    return judge_ratio(ratio, f"batch {len(noise)}", try_this)


def against_pytorch(case: Case, plan: bytes, try_this: str) -> str:
    """Return evidence that a plan is LEAST_SPEEDUP times as fast as PyTorch FP32 at the batch that it is tuned for.

    Raises:
        Missed: it is not.
    """
    pytorch, own = load_runner(RunnerSpec("pytorch", MODEL)), opened(plan)
    noise = images(case, "timed", min(own.opt_batch, PROFILE_BATCHES[-1]))
    pytorch.bind(len(noise))
    ratio = compare_speed(_turn(own, noise), _turn_of(pytorch), (LEAST_SPEEDUP,))
    if ratio.high <= LEAST_SPEEDUP:
        raise Missed(f"more than {LEAST_SPEEDUP} times PyTorch FP32's throughput", str(ratio), try_this)
    return f"batch {len(noise)}: {ratio}"
