"""Are the trusted figures of step 7 right, and would a bad engine's loss be seen?"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.lab import VALIDATION_IMAGES
from helpers.missed import Missed
from helpers.probes.scored import KnownScores, numbered_loader, ranked_scores
from solutions.checks import accuracy_claims
from solutions.checks.core.claim import claims_of
from solutions.checks.trusted.reference_accuracy import Evaluation


def _evaluation(wrong: int) -> Evaluation:
    """Return scores for the lab's number of images of which `wrong` are not right."""
    random = np.random.default_rng(3)
    labels = np.arange(VALIDATION_IMAGES) % 10
    ranks = np.where(np.arange(VALIDATION_IMAGES) < wrong, 2, 0)
    return Evaluation(ranked_scores(random, labels, ranks, 10), labels)


def _student(trusted: dict[str, Evaluation]) -> SimpleNamespace:
    rows = [{"name": name, "top1": e.accuracy.top1, "top5": e.accuracy.top5} for name, e in trusted.items()]
    table = json.dumps({"num_samples": VALIDATION_IMAGES, "rows": rows}).encode()
    return SimpleNamespace(artifact=lambda name: table)


def _judge(monkeypatch, claim: object, int8_wrong: int) -> object:
    trusted = {name: _evaluation(20) for name in ("pytorch-fp32", "fp32", "fp16")} | {"int8": _evaluation(int8_wrong)}
    monkeypatch.setattr(accuracy_claims, "_trusted", lambda student, case: trusted)
    return claim(_student(trusted), None)


def test_step_seven_is_worth_fifteen_points() -> None:
    claims = [*claims_of("evaluate_accuracy"), *claims_of("accuracy_results")]
    assert sum(claim.points for claim in claims) == 15


def test_the_known_ranks_are_those_of_the_scores() -> None:
    random = np.random.default_rng(1)
    labels, ranks = random.integers(10, size=30), random.integers(10, size=30)
    scores = ranked_scores(random, labels, ranks, 10)
    assert np.array_equal((scores > scores[np.arange(30), labels][:, None]).sum(axis=1), ranks)


def test_the_model_knows_its_images_in_any_batch() -> None:
    scores = np.random.default_rng(2).random((11, 10)).astype(np.float32)
    model = KnownScores(scores)
    found = [model(images.numpy()) for images, _ in numbered_loader(np.zeros(11, int), 4)]
    assert np.array_equal(np.concatenate(found), scores)


def test_a_small_loss_is_kept(monkeypatch) -> None:
    assert "+" in _judge(monkeypatch, accuracy_claims.int8_loss, 20 + VALIDATION_IMAGES // 200)


def test_a_large_loss_is_lost(monkeypatch) -> None:
    with pytest.raises(Missed, match="under 1.5 points"):
        _judge(monkeypatch, accuracy_claims.int8_loss, 20 + VALIDATION_IMAGES // 10)


def test_an_image_between_two_classes_is_doubtful() -> None:
    scores = np.array([[0.0, 1.0, 10.0], [0.0, 9.99, 10.0]])
    assert Evaluation(scores, np.array([2, 2])).doubtful(1) == 50
