"""Are step 7's known answers right, and are the figures and losses of its table judged by the trusted evaluation?"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s07_accuracy as points
from helpers.checks.points.case import Case
from helpers.course.settings import VALIDATION_IMAGES
from solutions.checks import s07_accuracy
from solutions.checks.trusted.reference_results import Evaluation


def _evaluation(wrong: int) -> Evaluation:
    """Return scores for the lab's number of images of which `wrong` are not right."""
    images = np.arange(VALIDATION_IMAGES)
    return Evaluation(np.eye(10, dtype=np.float32)[(images + (images < wrong)) % 10], images % 10)


def _int8_loss(monkeypatch: pytest.MonkeyPatch, wrong: int) -> str:
    """Judge a table of right figures whose INT8 engine has `wrong` wrong images, the others 20."""
    trusted = {name: _evaluation(20) for name in ("pytorch-fp32", "fp32", "fp16")} | {"int8": _evaluation(wrong)}
    monkeypatch.setattr(s07_accuracy, "_trusted", lambda case, name: trusted[name])
    rows = [{"name": name, "top1": e.accuracy.top1, "top5": e.accuracy.top5} for name, e in trusted.items()]
    table = json.dumps({"num_samples": VALIDATION_IMAGES, "rows": rows}).encode()
    return points.LOSSES["int8"].graded(SimpleNamespace(artifact=lambda name: table))


def test_the_known_ranks_are_those_of_the_scores() -> None:
    given = points.known(Case(SimpleNamespace(call=None), 1), "test", {0: 9, 4: 8, 5: 7, 9: 6})
    own = given["scores"][np.arange(30), given["labels"]][:, None]
    assert np.array_equal((given["scores"] > own).sum(axis=1), given["ranks"])


def test_a_small_loss_is_kept_and_a_large_one_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "+" in _int8_loss(monkeypatch, 20 + VALIDATION_IMAGES // 200)
    with pytest.raises(Missed, match="under 1.5 points"):
        _int8_loss(monkeypatch, 20 + VALIDATION_IMAGES // 10)


def test_an_image_between_two_classes_is_doubtful() -> None:
    scores = np.array([[0.0, 1.0, 10.0], [0.0, 9.99, 10.0]])
    assert Evaluation(scores, np.array([2, 2])).doubtful(1) == 50
