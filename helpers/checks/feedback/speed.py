"""`feedback.check_speed(engine_path)`: compares an engine's speed with PyTorch's on this machine, within seconds."""

import os
import statistics
import timeit
from collections.abc import Callable
from pathlib import Path

import torch

from helpers.checks.card import Card, Line, show
from helpers.checks.missed import Missed
from helpers.checks.points.builders import LEAST_SPEEDUP
from helpers.course.labels import label
from helpers.course.settings import MODEL
from helpers.data.models import load_model
from helpers.engine.backend import ENGINE, cuda, trt
from helpers.engine.memory import keep_freed_memory
from helpers.tools.files import read_regular
from helpers.toys.networks import EDGE
from trtcpu.errors import InputError

_PAIRS, _MOST_BYTES = 7, 1 << 30


def check_speed(engine_path: str | Path) -> None:
    """Time an engine and PyTorch FP32 in turns, at the batch that the engine is tuned for; show the ratio of speeds.

    It raises nothing if the engine is slow: the machine may just be busy. While nbgrader grades it does nothing;
    grading times the engine against the reference engine.

    Raises:
        InputError: the file is missing, or not an engine that runs here.
    """
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        return
    batch, run = _engine(Path(engine_path))
    ratios = _ratios(run, _pytorch(batch))
    found = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f} in {_PAIRS} pairs of runs)"
    title, missed = f"Faster than PyTorch FP32 at batch {batch}", None
    if statistics.median(ratios) < LEAST_SPEEDUP:
        advice = "close other programs and run it again; if it stays slow, check the precision of the engine's layers"
        missed = Missed(f"at least {LEAST_SPEEDUP} times PyTorch's speed", found, advice)
    line = Line(missed is None, title, found if missed is None else "", missed)
    show(Card(f"Speed of {Path(engine_path).name}", [line], footer=f"{MODEL} · {label(batch=batch)}"))


def _engine(path: Path) -> tuple[int, Callable[[], None]]:
    """Return the batch that an engine is tuned for, and a function that runs such a batch to its end."""
    plan = read_regular(path, _MOST_BYTES, "engine")
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        raise InputError(f"{path.name} is not an engine of this {trt.__name__.rpartition('.')[2]} {trt.__version__}")
    batch = engine.get_tensor_profile_shape("input", 0)[1][0]
    context, stream, buffers = engine.create_execution_context(), cuda.Stream(), []
    context.set_input_shape("input", (batch, 3, EDGE, EDGE))
    for name in ("input", "output"):
        buffers.append(cuda.mem_alloc(4 * trt.volume(context.get_tensor_shape(name))))
        context.set_tensor_address(name, int(buffers[-1]))
    cuda.memset_d8(buffers[0], 0, 4 * batch * 3 * EDGE * EDGE)  # the input is on the device before the clock starts

    def run(held: object = (engine, buffers)) -> None:
        context.execute_async_v3(stream.handle)
        stream.synchronize()

    return batch, run


def _pytorch(batch: int) -> Callable[[], None]:
    device = "cuda" if ENGINE == "tensorrt" else "cpu"
    keep_freed_memory()
    network, images = load_model(MODEL).to(device).eval(), torch.zeros(batch, 3, 224, 224, device=device)

    def run() -> None:
        with torch.no_grad():
            network(images)
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def _ratios(ours: Callable[[], None], other: Callable[[], None]) -> list[float]:
    """Return how many times as fast `ours` was in each pair of runs."""
    ours()
    other()
    return [_seconds(other) / _seconds(ours) for _ in range(_PAIRS)]


def _seconds(run: Callable[[], None]) -> float:
    """Return the seconds per run, averaged over runs that fill at least a fifth of a second."""
    runs, seconds = timeit.Timer(run).autorange()
    return seconds / runs
