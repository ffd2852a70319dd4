"""Scores of a data set's validation images: by any predictors, and by plans, where strangers' files are loaded."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.data.datasets import load_dataset
from trtlab.engines.inference import InferenceEngine
from trtlab.quality.accuracy import evaluate_all

Predict = Callable[[np.ndarray], np.ndarray]


def scores(predictors: Mapping[str, Predict], data: str, number: int, batch: int) -> dict[str, np.ndarray]:
    """Return each predictor's scores [N, classes] of the first `number` images.

    Raises:
        InputError: as `evaluate_all`.
    """
    rows: dict[str, list[np.ndarray]] = {name: [] for name in predictors}

    def keeping(name: str, predict: Predict) -> Predict:
        def run(images: np.ndarray) -> np.ndarray:
            rows[name].append(predict(images))
            return rows[name][-1]

        return run

    kept = {name: keeping(name, predict) for name, predict in predictors.items()}
    evaluate_all(kept, load_dataset(data, progress=False), number, batch)
    return {name: np.concatenate(found) for name, found in rows.items()}


@loads(seconds=1800)
def plan_scores(plans: dict[str, bytes], data: str, number: int, batch: int) -> dict[str, np.ndarray]:
    """Return each plan's scores [N, classes] of the first `number` images; images are read once for all.

    Raises:
        LabError: a plan cannot be loaded or run.
    """
    with ExitStack() as stack:
        engines = {name: stack.enter_context(InferenceEngine(plan)) for name, plan in plans.items()}
        return scores({name: engine.predict for name, engine in engines.items()}, data, number, batch)
