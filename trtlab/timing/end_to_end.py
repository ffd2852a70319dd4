"""What a request takes from files to classes: decode, resize, copy in, infer, copy out, top-k, each timed alone.

The stages run one after another and each is waited for, so that their sum is the latency of a batch without overlap.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from helpers.engine.backend import describe
from helpers.tools.files import atomic_path, write_json
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import check_finite
from trtlab.images.preprocessing import Preprocessing, decode
from trtlab.stats import percentile, tail
from trtlab.versions import versions

STAGES = ("decode", "resize", "h2d", "infer", "d2h", "top-k")
TITLES = {"h2d": "copy in", "infer": "infer", "d2h": "copy out"}
TOP = 5
_WARM_UP = 3


@dataclass(frozen=True)
class EndToEnd:
    """Milliseconds a batch: the median of each stage over `iterations` batches, and the whole's median, p90 and p99.

    A percentile is None where so few batches cannot give it. `images` is the number of files that took turns.
    """

    name: str
    batch: int
    images: int
    iterations: int
    median_ms: dict[str, float]
    total_median_ms: float
    total_p90_ms: float | None
    total_p99_ms: float | None
    preprocessing: dict[str, Any]


def measure_end_to_end(
    engine: InferenceEngine,
    paths: Sequence[Path],
    batch: int,
    preprocessing: Preprocessing,
    iterations: int = 100,
    limit_s: float = 60.0,
    progress: Callable[[int, int], None] = lambda done, planned: None,
) -> EndToEnd:
    """Time `iterations` batches of images, fewer where `limit_s` seconds are over before; a few more warm up.

    Raises:
        InputError: the engine does not take this batch, or an image cannot be decoded.
    """
    times: list[list[float]] = []
    started = time.perf_counter()
    for turn in range(-_WARM_UP, iterations):
        if len(times) and time.perf_counter() - started > limit_s:
            break
        chosen = [paths[(max(turn, 0) * batch + place) % len(paths)] for place in range(batch)]
        stages = _one_batch(engine, chosen, preprocessing)
        if turn >= 0:
            times.append(stages)
            progress(len(times), iterations)
    table = np.array(times)
    totals = table.sum(axis=1)
    medians = {stage: percentile(column, 50) for stage, column in zip(STAGES, table.T, strict=True)}
    whole = (percentile(totals, 50), tail(totals, 90), tail(totals, 99))
    return EndToEnd(engine.name, batch, len(paths), len(times), medians, *whole, preprocessing.to_dict())


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


def write(path: Path, found: EndToEnd) -> None:
    """Write the measurement, which `trtlab latency-budget --from` reads."""
    about = {"engine": describe(), "measured": date.today().isoformat(), "versions": versions()}
    write_json(path, {**about, **asdict(found)})


def draw(path: Path, found: EndToEnd) -> None:
    """Draw the stages as bars in the order in which they run, each where it begins; the format is the suffix's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from helpers.course.plots import QUIET, colour

    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    begin = 0.0
    for row, stage in enumerate(STAGES):
        ms = found.median_ms[stage]
        axes.barh(row, ms, left=begin, color=colour("int8") if stage == "infer" else QUIET)
        begin += ms
        axes.annotate(f"{ms:.3g} ms", (begin, row), (4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(range(len(STAGES)), [TITLES.get(stage, stage) for stage in STAGES])
    axes.invert_yaxis()
    axes.set_xlim(0, begin * 1.14)
    axes.set_xlabel(f"ms, median of {found.iterations} batches of {found.batch}")
    axes.set_title(f"{found.name} from files to classes\n{describe()['device']}", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, format=path.suffix.lstrip(".") or "png")
    plt.close(figure)
