"""The speed of a submission's plan, against the reference engine and against PyTorch, in one run with each."""

import statistics
from pathlib import Path

from helpers.lab import MODEL
from helpers.missed import Missed
from helpers.points.builders import LEAST_SPEEDUP
from solutions.checks.core.claim import Earned
from solutions.checks.trusted.plans import same_network
from solutions.checks.trusted.speed import Turn, compare_speed, judge_ratio, timed
from solutions.pipeline.engines.timed import Timed, opened
from solutions.pipeline.timing.runners import RunnerSpec, load_runner

__all__ = ["against_pytorch", "against_reference"]


def against_reference(plan: bytes, reference: Path, try_this: str, batch: int | None = None) -> Earned:
    """Return the points' share for a plan's speed, at `batch` or else at the batch that the plan is tuned for.

    A plan of the very network that the reference holds is not timed: it would be compared with itself.
    """
    if same_network(plan, reference.read_bytes()):
        return Earned(1.0, "the same compiled network as the reference engine")
    own, other = opened(plan), opened(reference.read_bytes())
    size = batch or min(own.opt_batch, other.max_batch)
    ratio = compare_speed(_turn(own, size), _turn(other, size))
    return judge_ratio(ratio, f"batch {size}", try_this)


def against_pytorch(plan: bytes, try_this: str) -> str:
    """Return evidence that a plan is LEAST_SPEEDUP times as fast as PyTorch FP32 at the batch that it is tuned for.

    Raises:
        Missed: it is not.
    """
    pytorch = load_runner(RunnerSpec("pytorch", MODEL))
    own = opened(plan)
    pytorch.bind(own.opt_batch)
    ratio = compare_speed(_turn(own, own.opt_batch), timed(pytorch.run), (LEAST_SPEEDUP,))
    if ratio.high <= LEAST_SPEEDUP:
        raise Missed(f"more than {LEAST_SPEEDUP} times PyTorch FP32's throughput", str(ratio), try_this)
    return f"batch {own.opt_batch}: {ratio}"


def _turn(engine: Timed, batch: int) -> Turn:
    return lambda executions: statistics.median(engine.executions(batch, executions)) / 1e3
