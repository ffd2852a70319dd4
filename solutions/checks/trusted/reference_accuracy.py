"""The trusted evaluation: scores of PyTorch and of engines on the lab's validation images, and what they amount to."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from helpers.backend import DEVICE, ENGINE
from helpers.data import load_dataset
from helpers.files import atomic_path, write_json
from helpers.lab import MODEL, VALIDATION_IMAGES
from helpers.models import load_model
from solutions.checks.trusted.plans import relative_error, same_network
from solutions.pipeline.accuracy import Accuracy, evaluate_all, score
from solutions.pipeline.inference import InferenceEngine

if TYPE_CHECKING:
    from solutions.checks.trusted.reference import Reference

__all__ = [
    "ENGINES",
    "PYTORCH",
    "PYTORCH_SCORES",
    "Evaluation",
    "evaluate_plans",
    "make_accuracy",
    "make_pytorch_scores",
    "pytorch_evaluation",
    "scores_file",
]

ENGINES = {
    "fp32": "resnet50_fp32.engine",
    "fp16": "resnet50_dynamic_fp16.engine",
    "int8": "resnet50_int8.engine",
}
"""The engines that step 7 evaluates, by the names of accuracy.json's rows."""

PYTORCH = "pytorch-fp32"
PYTORCH_SCORES = f"scores-{PYTORCH}-{VALIDATION_IMAGES}.npy"
_BATCH = 8
_CLOSE = 0.01
_SAMPLE, _ROUNDING = 32, 1e-4


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
        """Return the percentage of images whose place among the best `k` hangs on 1 % of the row's range of scores.

        An engine may round otherwise at another batch size; these images may then count either way.
        """
        own = np.take_along_axis(self.scores, self.labels[:, None], axis=1)[:, 0]
        others = self.scores.copy()
        np.put_along_axis(others, self.labels[:, None], -np.inf, axis=1)
        rival = np.sort(others, axis=1)[:, -k]
        margin = np.abs(own - rival) / np.maximum(np.ptp(self.scores, axis=1), 1e-12)
        return 100 * float((margin < _CLOSE).mean())


class _Recorder:
    """A predictor that keeps what it predicts."""

    def __init__(self, predict: Callable[[np.ndarray], np.ndarray]) -> None:
        self._predict, self.rows = predict, []

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.rows.append(self._predict(images))
        return self.rows[-1]


def _labels() -> np.ndarray:
    images = load_dataset("digits", progress=False).images("validation", limit=VALIDATION_IMAGES)
    return np.array([label for _, label in images])


def _evaluate(
    predictors: Mapping[str, Callable[[np.ndarray], np.ndarray]], number: int = VALIDATION_IMAGES
) -> dict[str, Evaluation]:
    recorders = {name: _Recorder(predict) for name, predict in predictors.items()}
    evaluate_all(recorders, load_dataset("digits", progress=False), number, _BATCH)
    labels = _labels()[:number]
    return {name: Evaluation(np.concatenate(found.rows), labels) for name, found in recorders.items()}


def evaluate_plans(plans: Mapping[str, bytes], reference: "Reference") -> dict[str, Evaluation]:
    """Return each plan's evaluation, by names of `ENGINES`; one of the reference's own network is run once and kept.

    Raises:
        LabError: a plan cannot be loaded or run.
    """
    return _evaluated(tuple(plans.items()), reference)


@lru_cache(maxsize=2)  # several claims look at one submission's engines
def _evaluated(named_plans: tuple[tuple[str, bytes], ...], reference: "Reference") -> dict[str, Evaluation]:
    plans = dict(named_plans)
    own = {name for name, plan in plans.items() if _is_own(name, plan, reference)}
    kept = {name: reference.folder / scores_file(name) for name in own}
    found = {name: Evaluation(np.load(path), _labels()) for name, path in kept.items() if path.is_file()}
    rest = {name: plan for name, plan in plans.items() if name not in found}
    ran = _run(rest) if rest else {}
    for name in own & set(ran):
        _keep(reference, name, ran[name])
    return found | ran


def _is_own(name: str, plan: bytes, reference: "Reference") -> bool:
    """Return whether a plan is the reference's network; a reference that costs more than an evaluation is not made."""
    there = (reference.folder / ENGINES[name]).is_file()
    return (there or (ENGINE == "cpu" and name != "int8")) and same_network(plan, reference.bytes(ENGINES[name]))


def _run(plans: Mapping[str, bytes]) -> dict[str, Evaluation]:
    with ExitStack() as stack:
        engines = {name: stack.enter_context(InferenceEngine(plan)) for name, plan in plans.items()}
        return _evaluate({name: engine.predict for name, engine in engines.items()})


def _keep(reference: "Reference", name: str, evaluation: Evaluation) -> None:
    with atomic_path(reference.folder / scores_file(name)) as temporary:
        np.save(temporary, evaluation.scores)


def pytorch_evaluation(reference: "Reference") -> Evaluation:
    """Return PyTorch FP32's evaluation, made once and kept with the reference."""
    return Evaluation(np.load(reference.path(PYTORCH_SCORES)), _labels())


def make_pytorch_scores(folder: Path) -> None:
    """Write PyTorch FP32's scores [N, classes] of the validation images to `folder`.

    Where PyTorch gives the first 32 images the scores that the reference FP32 engine was seen to give, to float32's
    rounding, that engine's scores of all images are PyTorch's: it takes two thirds of the time, and has run already.
    """
    predictor, engine = _pytorch_predictor(), folder / scores_file("fp32")
    scores = np.load(engine) if engine.is_file() else np.empty((0, 0), np.float32)
    first = _evaluate({PYTORCH: predictor}, _SAMPLE)[PYTORCH].scores
    if scores.shape[1:] != first.shape[1:] or relative_error(scores[:_SAMPLE], first) > _ROUNDING:
        scores = _evaluate({PYTORCH: predictor})[PYTORCH].scores
    with atomic_path(folder / PYTORCH_SCORES) as temporary:
        np.save(temporary, scores)


def make_accuracy(reference: "Reference", target: Path) -> None:
    """Evaluate the reference engines; write `target` in accuracy.json's format, with PyTorch's row, scores beside it.

    The reference engines and PyTorch's scores must be there.
    """
    engines = _run({name: (reference.folder / file).read_bytes() for name, file in ENGINES.items()})
    for name, evaluation in engines.items():
        _keep(reference, name, evaluation)
    found = {PYTORCH: Evaluation(np.load(reference.folder / PYTORCH_SCORES), _labels()), **engines}
    rows = [{"name": n, "top1": e.accuracy.top1, "top5": e.accuracy.top5} for n, e in found.items()]
    write_json(target, {"engine": DEVICE, "model": MODEL, "num_samples": VALIDATION_IMAGES, "rows": rows})


def _pytorch_predictor() -> Callable[[np.ndarray], np.ndarray]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(MODEL).to(device)

    def predict(images: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return model(torch.from_numpy(images).to(device)).cpu().numpy()

    return predict


def scores_file(name: str) -> str:
    """Return the file beside the reference that keeps the scores [N, classes] of the row `name`."""
    return f"scores-{name}-{VALIDATION_IMAGES}.npy"
