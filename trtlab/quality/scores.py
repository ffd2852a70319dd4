"""Scores of a data set's validation images: by any model, and by a plan, where strangers' files are loaded."""

import numpy as np

from helpers.checks.probes.loads import loads
from helpers.data.datasets import load_dataset
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import IMAGENET
from trtlab.quality.accuracy import Predict, score


def scores(predict: Predict, data: str, number: int, batch: int) -> np.ndarray:
    """Return the scores [N, classes] of the first `number` images, predicted in batches.

    Raises:
        InputError: as `score`.
    """
    paths, labels = zip(*load_dataset(data, progress=False).images("validation", limit=number), strict=True)
    found = np.concatenate([predict(images) for images in IMAGENET.batches(paths, batch)])
    score(found, np.array(labels))
    return found


@loads(seconds=1800)
def plan_scores(plan: bytes, data: str, number: int, batch: int) -> np.ndarray:
    """Return the plan's scores [N, classes] of the first `number` images.

    Raises:
        LabError: it cannot be loaded or run, or gives no scores of the data's classes.
    """
    with InferenceEngine(plan) as engine:
        return scores(engine.predict, data, number, batch)
