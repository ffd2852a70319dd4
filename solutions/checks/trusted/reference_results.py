"""The reference engines' results on this machine: scores of the validation images, latency and throughput."""

from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from helpers.checks.points.s06_benchmark.latency import STATISTICS
from helpers.course.settings import (
    BASELINE,
    BATCHES,
    ENGINES,
    LATENCY_SECONDS,
    MODEL,
    NAMES,
    QUICK,
    THROUGHPUT_SECONDS,
    VALIDATION_IMAGES,
)
from helpers.data.datasets import load_dataset
from helpers.data.models import load_model
from helpers.engine.backend import DEVICE, ENGINE
from helpers.tools.files import write_json
from helpers.tools.outputs import onnx_outputs
from solutions.checks.trusted.plans import same_network
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.images.preprocessing import load_batch
from trtlab.quality.classification import Accuracy, plan_scores, score, scores
from trtlab.timing.bench import BenchOptions, BenchResult, bench, measure_throughput
from trtlab.timing.runners import RunnerSpec, load_runner

_DATA, _BATCH = "digits", 8
_CLOSE = 0.01
HELD_OUT, OUTPUTS = 100, "validation_outputs_100.npy"
"""How many images `held_out_images` gives, and the file of the FP32 model's outputs [100, classes] on them."""


@dataclass(frozen=True)
class Evaluation:
    """Scores [N, classes] for labels [N]."""

    scores: np.ndarray
    labels: np.ndarray

    @property
    def accuracy(self) -> Accuracy:
        """Top-1 and top-5 in percent."""
        return score(self.scores, self.labels)

    def doubtful(self, k: int) -> float:
        """Return the percentage of images whose place among the best `k` depends on 1 % of the row's range of scores.

        At another batch size an engine may round differently, so these images may count either way.
        """
        own = np.take_along_axis(self.scores, self.labels[:, None], axis=1)[:, 0]
        others = self.scores.copy()
        np.put_along_axis(others, self.labels[:, None], -np.inf, axis=1)
        rival = np.sort(others, axis=1)[:, -k]
        margin = np.abs(own - rival) / np.maximum(np.ptp(self.scores, axis=1), 1e-12)
        return 100 * float((margin < _CLOSE).mean())


@lru_cache(maxsize=8)  # several points look at one submission's engines
def evaluated(name: str, plan: bytes, reference: Reference) -> Evaluation:
    """Return a plan's evaluation, by its name in `ENGINES`; the reference's own network is not run again.

    The reference is made for this comparison only if that is quicker than evaluating the plan.

    Raises:
        LabError: the plan cannot be loaded or run.
    """
    cheap = reference.is_made(ENGINES[name]) or (ENGINE == "cpu" and name != "int8")
    if cheap and same_network(plan, reference.bytes(ENGINES[name])):
        return kept(reference, name)
    return Evaluation(_scores(plan), _labels())


def kept(reference: Reference, name: str) -> Evaluation:
    """Return the evaluation of a row of the lab's tables, made once and stored with the reference."""
    return Evaluation(np.load(reference.path(_scores_file(name))), _labels())


def _labels() -> np.ndarray:
    images = load_dataset(_DATA, progress=False).images("validation", limit=VALIDATION_IMAGES)
    return np.array([label for _, label in images])


def _scores(plan: bytes) -> np.ndarray:
    return plan_scores(plan, _DATA, VALIDATION_IMAGES, _BATCH)


def _scores_file(name: str) -> str:
    return f"scores-{name}.npy"


def _score_engine(reference: Reference, folder: Path, *, name: str) -> None:
    np.save(folder / _scores_file(name), _scores(reference.bytes(ENGINES[name])))


def _score_pytorch(reference: Reference, folder: Path) -> None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(MODEL).to(device)
    with torch.inference_mode():
        answer = scores(
            lambda images: model(torch.from_numpy(images).to(device)).cpu().numpy(), _DATA, VALIDATION_IMAGES, _BATCH
        )
    np.save(folder / _scores_file(BASELINE), answer)


def _write_rows(path: Path, rows: list[dict[str, object]], **more: object) -> None:
    write_json(path, {"engine": DEVICE, "model": MODEL, **more, "rows": rows})


def _accuracy(reference: Reference, folder: Path) -> None:
    found = {name: kept(reference, name).accuracy for name in NAMES}
    rows = [{"name": name, "top1": accuracy.top1, "top5": accuracy.top5} for name, accuracy in found.items()]
    _write_rows(folder / "accuracy.json", rows, num_samples=VALIDATION_IMAGES)


def held_out_images() -> np.ndarray:
    """Return the validation images [100, 3, 224, 224] of OUTPUTS."""
    found = load_dataset(_DATA, progress=False).images("validation", limit=HELD_OUT, seed=1)
    return load_batch([path for path, _ in found])


def _held_out_outputs(reference: Reference, folder: Path) -> None:
    parts = np.split(held_out_images(), HELD_OUT // 20)
    np.save(folder / OUTPUTS, np.concatenate([onnx_outputs(reference.bytes("resnet50.onnx"), part) for part in parts]))


def _measure(reference: Reference, folder: Path) -> None:
    """Measure PyTorch and the reference engines in turns."""
    specs = [RunnerSpec("engine", str(reference.path(file)), name=name) for name, file in ENGINES.items()]
    with ExitStack() as stack:
        runners = [
            stack.enter_context(closing(load_runner(spec)))
            for spec in (RunnerSpec("pytorch", MODEL, name=BASELINE), *specs)
        ]
        options = BenchOptions(BATCHES, iterations=3, warmup_ms=100.0, duration_s=LATENCY_SECONDS)
        times = [
            {"name": result.name, "batch": result.batch, **_statistics(result)} for result in bench(runners, options)
        ]
        rates = measure_throughput(runners, BATCHES, seconds=THROUGHPUT_SECONDS, rounds=2 if QUICK else 4)
    _write_rows(folder / "latency.json", times)
    rows = [{"name": result.name, "batch": result.batch, "images_per_s": result.images_per_s} for result in rates]
    _write_rows(folder / "throughput.json", rows)


def _statistics(result: BenchResult) -> dict[str, float]:
    """Return the figures of the lab's table, also tails of few calls."""
    tails = {f"p{percent}_ms": float(np.percentile(result.times_ms, percent)) for percent in (95, 99)}
    return {key: getattr(result.stats, key) for key in STATISTICS} | tails


STAGES = (
    *(Stage((_scores_file(name),), (file,), partial(_score_engine, name=name)) for name, file in ENGINES.items()),
    Stage((_scores_file(BASELINE),), (), _score_pytorch),
    Stage(("accuracy.json",), tuple(map(_scores_file, NAMES)), _accuracy),
    Stage((OUTPUTS,), ("resnet50.onnx",), _held_out_outputs),
    Stage(("latency.json", "throughput.json"), tuple(ENGINES.values()), _measure),
)
