"""Calls a student's accuracy loop on models whose answers are known, and on an engine that is sent."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from helpers.lab import load_definition
from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.scored import KnownScores, numbered_loader

__all__ = ["evaluate_engine", "evaluate_known"]

FUNCTION = "evaluate_accuracy"
INFERENCE = "TensorRTInference"


def _pair(returned: Any) -> dict[str, Any]:
    """Return {"top1", "top5"} of what the function gave, or {"kind"} where that is no pair of numbers."""
    try:
        top1, top5 = (float(value) for value in returned)
        return {"top1": top1, "top5": top5, "kind": "pair"}
    except (TypeError, ValueError):
        return {"kind": f"{type(returned).__name__} {str(returned)[:80]}"}


@operation
def evaluate_known(
    submission: Submission,
    *,
    scores: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    num_samples: int,
    as_tensor: bool = False,
    as_list: bool = False,
) -> dict[str, Any]:
    """Evaluate a model that gives image i row i of `scores`; also tells what the model was given.

    `as_list`: the loader is a list of batches, as in the notebook, and no DataLoader.
    """
    model, loader = KnownScores(scores, as_tensor), numbered_loader(labels, batch_size)
    found = _pair(submission[FUNCTION](model, list(loader) if as_list else loader, num_samples))
    return {**found, "wrong_inputs": model.wrong_inputs[:3], "images": model.images}


@operation
def evaluate_engine(
    submission: Submission, *, plan: bytes, images: np.ndarray, labels: np.ndarray, batch_size: int
) -> dict[str, Any]:
    """Evaluate an engine on images float32 [N, 3, H, W] through the inference class that the notebook uses."""
    data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))
    inference = submission.value(INFERENCE) or load_definition(INFERENCE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.engine"
        path.write_bytes(plan)
        with inference(str(path)) as model:
            return _pair(submission[FUNCTION](model, DataLoader(data, batch_size=batch_size), len(labels)))
