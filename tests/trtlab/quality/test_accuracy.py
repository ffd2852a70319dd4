"""Accuracy against torch's topk, and the coverage of the confidence interval by simulation."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from trtcpu.errors import InputError
from trtlab.images.preprocessing import Preprocessing
from trtlab.quality.accuracy import Accuracy, accuracy_loss, evaluate, evaluate_all, score

TINY = Preprocessing.usual(3, 32, 32)


def _accuracy(correct: np.ndarray) -> Accuracy:
    return Accuracy(100 * correct.mean(), 100.0, len(correct), correct)


@pytest.mark.parametrize("classes", [3, 10, 1000])
def test_top1_and_top5_are_what_torch_topk_gives(classes: int) -> None:
    generator = np.random.default_rng(classes)
    outputs = generator.standard_normal((200, classes), dtype=np.float32)
    labels = np.where(generator.random(200) < 0.5, outputs.argmax(axis=1), generator.integers(0, classes, 200))
    found = score(outputs, labels)
    ranked = torch.from_numpy(outputs).topk(min(5, classes)).indices
    hits = ranked == torch.from_numpy(labels)[:, None]
    assert found.top1 == pytest.approx(100 * hits[:, 0].double().mean().item())
    assert found.top5 == pytest.approx(100 * hits.any(dim=1).double().mean().item())


def test_a_constant_output_is_right_only_for_the_first_class() -> None:
    assert score(np.zeros((10, 10)), np.arange(10)).top1 == pytest.approx(10)


@pytest.mark.parametrize("number, p_lost, p_gained", [(200, 0.03, 0.01), (1000, 0.01, 0.01), (1000, 0.002, 0.0)])
def test_the_interval_covers_the_true_loss_in_about_95_of_100_cases(
    number: int, p_lost: float, p_gained: float
) -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        draw = generator.random(number)
        reference = draw >= p_gained
        other = (draw < p_gained) | (draw >= p_gained + p_lost)
        loss = accuracy_loss(_accuracy(reference), _accuracy(other))
        covered += loss.low <= 100 * (p_lost - p_gained) <= loss.high
    assert covered >= 930


def test_the_loss_is_the_difference_of_the_two_top1s() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.random(500) < 0.9, generator.random(500) < 0.8
    loss = accuracy_loss(_accuracy(a), _accuracy(b))
    assert loss.points == pytest.approx(100 * (a.mean() - b.mean()))
    assert loss.low < loss.points < loss.high


def test_equal_engines_lose_nothing_and_the_interval_still_has_a_width() -> None:
    correct = np.ones(1000, bool)
    loss = accuracy_loss(_accuracy(correct), _accuracy(correct))
    assert loss.points == 0 and loss.low < 0 < loss.high and loss.high < 0.5


def test_results_on_different_images_cannot_be_paired() -> None:
    with pytest.raises(InputError, match="cannot pair 3 images with 4"):
        accuracy_loss(_accuracy(np.ones(3, bool)), _accuracy(np.ones(4, bool)))


@pytest.fixture
def data(tmp_path: Path) -> SimpleNamespace:
    """Twelve images; the red channel's value says the class."""
    images = []
    for index in range(12):
        path = tmp_path / f"{index}.png"
        Image.new("RGB", (40, 40), (20 * (index % 10), 0, 0)).save(path)
        images.append((path, index % 10))
    return SimpleNamespace(name="reds", images=lambda split, limit=None: images[:limit])


def _red(batch: np.ndarray) -> np.ndarray:
    red = (batch[:, 0].mean(axis=(1, 2)) * 0.229 + 0.485) * 255 / 20
    return -np.abs(red[:, None] - np.arange(10))


def test_every_image_is_evaluated_once_in_batches(data: SimpleNamespace) -> None:
    sizes = []

    def predict(batch: np.ndarray) -> np.ndarray:
        sizes.append(batch.shape)
        return _red(batch)

    found = evaluate(predict, data, num_samples=12, batch_size=5, preprocessing=TINY)
    assert found.top1 == 100 and found.num_samples == 12
    assert sizes == [(5, 3, 32, 32), (5, 3, 32, 32), (2, 3, 32, 32)]


def test_engines_are_scored_apart_on_the_same_images(data: SimpleNamespace) -> None:
    done = []
    found = evaluate_all({"good": _red, "bad": lambda batch: -_red(batch)}, data, 10, 4, TINY, done.append)
    assert found["good"].top1 == 100 and found["bad"].top1 == 0 and done == [4, 8, 10]


def test_an_evaluation_ends_at_its_limit_with_every_class_seen_as_often(data: SimpleNamespace) -> None:
    found = evaluate_all({"good": _red, "bad": lambda batch: -_red(batch)}, data, 10, 4, TINY, limit_s=0)
    assert found["good"].num_samples == found["bad"].num_samples == 4


@pytest.mark.parametrize("outputs", [np.zeros((4, 3)), np.zeros((4, 10, 1)), np.full((4, 10), np.nan)])
def test_outputs_that_do_not_fit_the_labels_are_an_error(data: SimpleNamespace, outputs: np.ndarray) -> None:
    with pytest.raises(InputError, match="model"):
        evaluate(lambda batch: outputs, data, 4, 4, TINY)


@pytest.mark.parametrize("num_samples, batch_size", [(0, 4), (4, 0), (-1, 1)])
def test_impossible_numbers_are_an_error(data: SimpleNamespace, num_samples: int, batch_size: int) -> None:
    with pytest.raises(InputError, match="must be 1 or more"):
        evaluate(_red, data, num_samples, batch_size, TINY)
