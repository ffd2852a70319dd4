"""Accuracy against torch's topk, and the coverage of the confidence interval by simulation."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from trtcpu.errors import InputError
from trtlab.images.preprocessing import Preprocessing
from trtlab.quality.classification import Accuracy, accuracy_loss, evaluate_all, score

TINY = Preprocessing.usual(3, 32, 32)


def _accuracy(correct: np.ndarray) -> Accuracy:
    return Accuracy(100 * correct.mean(), 100.0, len(correct), correct)


@pytest.mark.parametrize("classes", [3, 10, 1000])
def test_top1_and_top5_are_what_torch_topk_gives(classes: int) -> None:
    generator = np.random.default_rng(classes)
    outputs = generator.standard_normal((200, classes), dtype=np.float32)
    labels = np.where(generator.random(200) < 0.5, outputs.argmax(axis=1), generator.integers(0, classes, 200))
    found = score(outputs, labels)
    hits = torch.from_numpy(outputs).topk(min(5, classes)).indices == torch.from_numpy(labels)[:, None]
    assert found.top1 == pytest.approx(100 * hits[:, 0].double().mean().item())
    assert found.top5 == pytest.approx(100 * hits.any(dim=1).double().mean().item())


def test_a_constant_output_is_right_only_for_the_first_class() -> None:
    assert score(np.zeros((10, 10)), np.arange(10)).top1 == pytest.approx(10)


@pytest.mark.parametrize("number, p_lost, p_gained", [(200, 0.03, 0.01), (1000, 0.01, 0.01), (1000, 0.002, 0.0)])
def test_the_interval_covers_the_true_loss_in_about_95_of_100_cases(
    number: int, p_lost: float, p_gained: float
) -> None:
    covered = 0
    for draw in np.random.default_rng(0).random((1000, number)):
        reference = draw >= p_gained
        other = (draw < p_gained) | (draw >= p_gained + p_lost)
        loss = accuracy_loss(_accuracy(reference), _accuracy(other))
        assert loss.points == pytest.approx(100 * (reference.mean() - other.mean()))
        covered += loss.low <= 100 * (p_lost - p_gained) <= loss.high
    assert covered >= 930


def test_equal_engines_lose_nothing_and_the_interval_still_has_a_width() -> None:
    loss = accuracy_loss(*[_accuracy(np.ones(1000, bool))] * 2)
    assert loss.points == 0 and loss.low < 0 < loss.high < 0.5


@pytest.fixture
def data(tmp_path: Path) -> SimpleNamespace:
    """Twelve images; the red channel's value says the class."""
    images = [(tmp_path / f"{index}.png", index % 10) for index in range(12)]
    for path, label in images:
        Image.new("RGB", (40, 40), (20 * label, 0, 0)).save(path)
    return SimpleNamespace(name="reds", images=lambda split, limit=None: images[:limit])


def _red(batch: np.ndarray) -> np.ndarray:
    red = (batch[:, 0].mean(axis=(1, 2)) * 0.229 + 0.485) * 255 / 20
    return -np.abs(red[:, None] - np.arange(10))


@pytest.mark.parametrize("limit_s, seen", [(None, [5, 10, 12]), (0, [5])])
def test_engines_are_scored_apart_on_the_same_images_in_batches_until_the_limit(
    data: SimpleNamespace, limit_s: float | None, seen: list[int]
) -> None:
    done: list[int] = []
    found = evaluate_all({"good": _red, "bad": lambda batch: -_red(batch)}, data, 12, 5, TINY, done.append, limit_s)
    assert found["good"].top1 == 100 and found["bad"].top1 == 0 and done == seen
    assert found["good"].num_samples == found["bad"].num_samples == seen[-1]


@pytest.mark.parametrize("outputs", [np.zeros((4, 3)), np.zeros((4, 10, 1)), np.full((4, 10), np.nan)])
def test_outputs_that_do_not_fit_the_labels_are_an_error_that_names_the_engine(
    data: SimpleNamespace, outputs: np.ndarray
) -> None:
    with pytest.raises(InputError, match=r"a\.engine"):
        evaluate_all({"a.engine": lambda batch: outputs}, data, 4, 4, TINY)
