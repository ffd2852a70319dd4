"""Are the points of step 7 decided rightly on any seed, are the trusted figures right, would a bad engine be seen?"""

import json
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s07_accuracy import points
from helpers.checks.points.s07_accuracy.known import KnownScores, numbered_loader, ranked_scores
from helpers.checks.probes.student import Student
from helpers.course.settings import NAMES, VALIDATION_IMAGES
from solutions.checks import s07_accuracy
from solutions.checks.core.claim import claims_of
from solutions.checks.trusted.reference_accuracy import Evaluation

COUNTING = (points.top1, points.top5, points.percent, points.ragged, points.num_samples, points.ties, points.models)


def _evaluation(wrong: int) -> Evaluation:
    """Return scores for the lab's number of images of which `wrong` are not right."""
    random = np.random.default_rng(3)
    labels = np.arange(VALIDATION_IMAGES) % 10
    ranks = np.where(np.arange(VALIDATION_IMAGES) < wrong, 2, 0)
    return Evaluation(ranked_scores(random, labels, ranks, 10), labels)


def _case(rows: object) -> SimpleNamespace:
    table = json.dumps({"num_samples": VALIDATION_IMAGES, "rows": rows}).encode()
    return SimpleNamespace(artifact=lambda name: table)


def _judge(monkeypatch, claim: object, int8_wrong: int) -> object:
    trusted = {name: _evaluation(20) for name in ("pytorch-fp32", "fp32", "fp16")} | {"int8": _evaluation(int8_wrong)}
    monkeypatch.setattr(s07_accuracy, "_trusted", lambda case: trusted)
    rows = [{"name": name, "top1": e.accuracy.top1, "top5": e.accuracy.top5} for name, e in trusted.items()]
    return claim(_case(rows))


def _evaluate(model, val_loader, num_samples=1000, *, give: Callable = float, beyond: bool = False):
    """A right loop in NumPy; `beyond` one that goes on to the loader's end with batches of no images."""
    ranks, seen = [], 0
    for images, labels in val_loader:
        images, labels = images[: num_samples - seen].numpy(), labels[: num_samples - seen].numpy()
        order = np.argsort(-np.asarray(model(images)), axis=1, kind="stable")
        ranks += np.argmax(order == labels[:, None], axis=1).tolist()
        seen += len(labels)
        if seen >= num_samples and not beyond:
            break
    return give(100 * np.mean(np.array(ranks) < 1)), give(100 * np.mean(np.array(ranks) < 5))


def _missed(function: Callable, seed: int, asked: tuple = COUNTING) -> list[str]:
    case, missed = Case(Student.in_process({"evaluate_accuracy": function}), seed), []
    for one in asked:
        try:
            one(case)
        except Missed as found:
            missed.append(f"{one.judge.__name__}: {found.found}")
    return missed


def test_step_seven_is_worth_fifteen_points() -> None:
    claims = [*claims_of("evaluate_accuracy"), *claims_of("accuracy_results")]
    assert sum(claim.points for claim in claims) == 15


@pytest.mark.parametrize("give", [float, np.float32, torch.tensor])
def test_numbers_of_any_kind_keep_every_point(give: Callable) -> None:
    assert _missed(lambda *args: _evaluate(*args, give=give), 5) == []


@pytest.mark.parametrize("kept_by", [lambda model, loader, *_: model, lambda model, loader, *_: loader])
def test_answers_kept_between_calls_are_seen(kept_by: Callable) -> None:
    kept: dict[object, object] = {}

    def evaluate(*args):
        key = kept_by(*args)
        if id(key) not in kept:
            kept[id(key)] = key, _evaluate(*args)
        return kept[id(key)][1]

    (found,) = _missed(evaluate, 5, (points.models,))
    assert found.startswith("models: ")


def test_a_failing_batch_may_not_be_left_out() -> None:
    def evaluate(model, val_loader, num_samples=1000):
        def forgiving(images):
            try:
                return model(images)
            except RuntimeError:
                return np.zeros((len(images), 10))

        return _evaluate(forgiving, val_loader, num_samples)

    (found,) = _missed(evaluate, 5, (points.num_samples,))
    assert found == "num_samples: an accuracy without that batch"


def test_text_is_no_number() -> None:
    (found,) = _missed(lambda *args: _evaluate(*args, give=str), 5, (points.top1,))
    assert found.startswith("top1: tuple ('57.")


def test_an_empty_batch_costs_num_samples_and_nothing_else() -> None:
    (found,) = _missed(lambda *args: _evaluate(*args, beyond=True), 5, (points.ragged, points.num_samples))
    assert found.startswith("num_samples: ValueError: a batch of 0 images")


@pytest.mark.parametrize("default", [999, 1001, 250])
def test_another_default_is_seen(default: int) -> None:
    def evaluate(model, val_loader, num_samples=default):
        return _evaluate(model, val_loader, num_samples)

    (found,) = _missed(evaluate, 5, (points.num_samples,))
    assert found.startswith("num_samples: ")


@pytest.mark.parametrize("seed", range(200))
def test_ties_are_decided_alike_on_every_seed(seed: int) -> None:
    known = points.tied(Case(SimpleNamespace(call=None), seed))
    labels, lot = known["labels"][:, None], np.random.default_rng(seed).random((400, 10))
    for order in (np.lexsort((lot, -known["scores"])), np.argsort(-known["scores"], kind="stable")):
        right = order == labels
        assert points.as_a_guess(100 * right[:, 0].mean(), 100 * right[:, :5].any(axis=1).mean())


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
    assert "+" in _judge(monkeypatch, s07_accuracy.int8_loss, 20 + VALIDATION_IMAGES // 200)


def test_a_large_loss_is_lost(monkeypatch) -> None:
    with pytest.raises(Missed, match="under 1.5 points"):
        _judge(monkeypatch, s07_accuracy.int8_loss, 20 + VALIDATION_IMAGES // 10)


def test_the_visible_check_judges_the_table_by_the_same_limit() -> None:
    rows = [{"name": name, "top1": 95.0, "top5": 99.0} for name in NAMES]
    assert "+0.00" in points.int8_loss(_case(rows))
    rows[-1]["top1"] = 95 - points.LOSS["int8"] - 100 / VALIDATION_IMAGES
    with pytest.raises(Missed, match="under 1.5 points"):
        points.int8_loss(_case(rows))


@pytest.mark.parametrize("top1, top5", [(0.95, 0.99), (99.0, 95.0), (95.0, 101.0), (float("nan"), 99.0)])
def test_what_is_no_percentage_is_lost(top1: float, top5: float) -> None:
    with pytest.raises(Missed, match="percentages"):
        points.table(_case([{"name": name, "top1": top1, "top5": top5} for name in NAMES]))


def test_an_image_between_two_classes_is_doubtful() -> None:
    scores = np.array([[0.0, 1.0, 10.0], [0.0, 9.99, 10.0]])
    assert Evaluation(scores, np.array([2, 2])).doubtful(1) == 50
