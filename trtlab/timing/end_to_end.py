"""What a request takes from files to classes: decode, resize, copy in, infer, copy out, top-k, each timed alone.

The stages run one after another and each is waited for, so that their sum is the latency of a batch without overlap.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import check_finite
from trtlab.images.preprocessing import Preprocessing, decode
from trtlab.stats import tail

STAGES = ("decode", "resize", "h2d", "infer", "d2h", "top-k")
TOP = 5
_WARM_UP = 3


def measure_end_to_end(
    engine: InferenceEngine,
    paths: Sequence[Path],
    batch: int,
    preprocessing: Preprocessing,
    iterations: int = 100,
    limit_s: float = 60.0,
    progress: Callable[[int, int], None] = lambda done, planned: None,
) -> dict[str, Any]:
    """Time `iterations` batches of images, fewer if `limit_s` seconds are over before; a few more warm up.

    Returns:
        What bench --end-to-end writes. Times are milliseconds a batch: the median of each stage, and the whole's
        median, p90 and p99 (None if so few batches cannot give it); `images` is the number of files.

    Raises:
        InputError: the engine does not take this batch, or an image cannot be decoded.
    """
    times: list[list[float]] = []
    images, started = itertools.cycle(paths), time.perf_counter()
    for done in range(-_WARM_UP, iterations):
        if done > 0 and time.perf_counter() - started > limit_s:
            break
        times.append(_one_batch(engine, list(itertools.islice(images, batch)), preprocessing))
        progress(max(0, done + 1), iterations)
    table = np.array(times[_WARM_UP:])
    totals = table.sum(axis=1)
    return {
        "name": engine.name,
        "batch": batch,
        "images": len(paths),
        "iterations": len(table),
        "median_ms": dict(zip(STAGES, np.median(table, axis=0).tolist(), strict=True)),
        "total_median_ms": float(np.median(totals)),
        "total_p90_ms": tail(totals, 90),
        "total_p99_ms": tail(totals, 99),
        "preprocessing": preprocessing.to_dict(),
    }


def _one_batch(engine: InferenceEngine, paths: Sequence[Path], preprocessing: Preprocessing) -> list[float]:
    """Return the milliseconds of each stage."""
    ends = [time.perf_counter()]

    def ended(result: Any = None) -> Any:
        ends.append(time.perf_counter())
        return result

    images = ended([decode(path).convert(preprocessing.mode) for path in paths])
    batch = ended(np.stack([preprocessing.to_input(image) for image in images]))
    engine.upload({engine.input_name: batch})
    ended(engine.synchronize())
    engine.enqueue()
    ended(engine.synchronize())
    scores = ended(engine.download()[engine.output_name])
    ended(np.argsort(-scores.reshape(len(paths), -1), axis=1, kind="stable")[:, :TOP])
    check_finite(scores, f"the output of {engine.name}")
    return [1e3 * (end - start) for start, end in zip(ends, ends[1:], strict=False)]
