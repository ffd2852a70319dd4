"""The trusted evaluation: scores of PyTorch and of engines on the lab's validation images, and what they amount to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from helpers.course.settings import BASELINE, ENGINES, MODEL, NAMES, VALIDATION_IMAGES
from helpers.data.datasets import load_dataset
from helpers.data.models import load_model
from helpers.engine.backend import DEVICE, ENGINE
from helpers.tools.files import write_json
from solutions.checks.trusted.plans import same_network
from solutions.checks.trusted.stages import Reference, Stage
from trtlab.quality.accuracy import Accuracy, score
from trtlab.quality.scores import plan_scores, scores

_DATA, _BATCH = "digits", 8
_CLOSE = 0.01


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


def _labels() -> np.ndarray:
    images = load_dataset(_DATA, progress=False).images("validation", limit=VALIDATION_IMAGES)
    return np.array([label for _, label in images])


def evaluate_plans(plans: Mapping[str, bytes], reference: Reference) -> dict[str, Evaluation]:
    """Return each plan's evaluation, by names of `ENGINES`; the reference's own network is not run again.

    Raises:
        LabError: a plan cannot be loaded or run.
    """
    return _evaluated(tuple(plans.items()), reference)


@lru_cache(maxsize=2)  # several claims look at one submission's engines
def _evaluated(named_plans: tuple[tuple[str, bytes], ...], reference: Reference) -> dict[str, Evaluation]:
    plans = dict(named_plans)
    own = {name: _kept(reference, name) for name, plan in plans.items() if _is_own(name, plan, reference)}
    rest = {name: plan for name, plan in plans.items() if name not in own}
    return own | (_run(rest) if rest else {})


def _is_own(name: str, plan: bytes, reference: Reference) -> bool:
    """Return whether a plan is the reference's network; a reference that costs more than an evaluation is not made."""
    cheap = reference.is_made(ENGINES[name]) or (ENGINE == "cpu" and name != "int8")
    return cheap and same_network(plan, reference.bytes(ENGINES[name]))


def _run(plans: dict[str, bytes]) -> dict[str, Evaluation]:
    found = plan_scores(plans, _DATA, VALIDATION_IMAGES, _BATCH)
    return {name: Evaluation(rows, _labels()) for name, rows in found.items()}


def _kept(reference: Reference, name: str) -> Evaluation:
    return Evaluation(np.load(reference.path(_scores_file(name))), _labels())


def pytorch_evaluation(reference: Reference) -> Evaluation:
    """Return PyTorch FP32's evaluation, made once and kept with the reference."""
    return _kept(reference, BASELINE)


def _scores_file(name: str) -> str:
    return f"scores-{name}.npy"


def _score_engine(reference: Reference, folder: Path, *, name: str) -> None:
    np.save(folder / _scores_file(name), _run({name: reference.bytes(ENGINES[name])})[name].scores)


def _score_pytorch(reference: Reference, folder: Path) -> None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(MODEL).to(device)
    with torch.inference_mode():
        answers = {BASELINE: lambda images: model(torch.from_numpy(images).to(device)).cpu().numpy()}
        found = scores(answers, _DATA, VALIDATION_IMAGES, _BATCH)
    np.save(folder / _scores_file(BASELINE), found[BASELINE])


def _accuracy(reference: Reference, folder: Path) -> None:
    """Write accuracy.json's content: a row for PyTorch and for each engine."""
    found = {name: _kept(reference, name).accuracy for name in NAMES}
    rows = [{"name": name, "top1": accuracy.top1, "top5": accuracy.top5} for name, accuracy in found.items()]
    content = {"engine": DEVICE, "model": MODEL, "num_samples": VALIDATION_IMAGES, "rows": rows}
    write_json(folder / "accuracy.json", content)


STAGES = (
    *(Stage((_scores_file(name),), (file,), partial(_score_engine, name=name)) for name, file in ENGINES.items()),
    Stage((_scores_file(BASELINE),), (), _score_pytorch),
    Stage(("accuracy.json",), tuple(map(_scores_file, NAMES)), _accuracy),
)
"""Scores [N, classes] of the validation images by each engine and by PyTorch, and what they amount to."""
