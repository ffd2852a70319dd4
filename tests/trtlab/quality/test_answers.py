"""Accuracy, its interval and drift, against torch's own measures and by simulation."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import cosine_similarity

from helpers.tools.files import write_json
from trtcpu.errors import InputError
from trtlab.images.preprocessing import Preprocessing
from trtlab.quality.classification import Accuracy, accuracy_loss, evaluate_all, reference_of, score
from trtlab.quality.compare import drift

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


def _red(batch: np.ndarray) -> np.ndarray:
    red = (batch[:, 0].mean(axis=(1, 2)) * 0.229 + 0.485) * 255 / 20
    return -np.abs(red[:, None] - np.arange(10))


@pytest.mark.parametrize("limit_s, seen", [(None, [5, 10, 12]), (0, [5])])
def test_engines_are_scored_apart_on_the_same_images_in_batches_until_the_limit(
    tmp_path: Path, limit_s: float | None, seen: list[int]
) -> None:
    images = [(tmp_path / f"{index}.png", index % 10) for index in range(12)]
    for path, label in images:
        Image.new("RGB", (40, 40), (20 * label, 0, 0)).save(path)
    done, data = [], SimpleNamespace(images=lambda split, limit: images[:limit])
    found = evaluate_all({"good": _red, "bad": lambda batch: -_red(batch)}, data, 12, 5, TINY, done.append, limit_s)
    assert found["good"].top1 == 100 and found["bad"].top1 == 0 and done == seen
    assert found["good"].num_samples == found["bad"].num_samples == seen[-1]


@pytest.mark.parametrize("outputs", [np.zeros((4, 3)), np.zeros((4, 10, 1)), np.full((4, 10), np.nan)])
def test_outputs_that_do_not_fit_the_labels_are_an_error_that_names_the_engine(outputs: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"a\.engine"):
        score(outputs, np.arange(4), "a.engine")


def test_drift_is_what_torch_measures() -> None:
    generator = torch.Generator().manual_seed(0)
    a, noise = torch.randn(2, 50, 10, generator=generator, dtype=torch.float64)
    b = a + 0.5 * noise
    cosine, found = cosine_similarity(a, b), vars(drift(a.numpy(), b.numpy()))
    expected = {
        "num_samples": 50,
        "relative": (a - b).norm() / a.norm(),
        "saturated_percent": found["saturated_percent"],
        "max_absolute": (a - b).abs().max(),
        "mean_absolute": (a - b).abs().mean(),
        "cosine": cosine.mean(),
        "min_cosine": cosine.min(),
        "top1_agreement_percent": 100 * (a.argmax(1) == b.argmax(1)).double().mean(),
    }
    assert found == pytest.approx({key: float(value) for key, value in expected.items()})


def test_saturated_values_are_those_that_stop_at_the_range() -> None:
    a = np.linspace(-2, 2, 1000).reshape(100, 10)
    assert drift(a, a.clip(-1, 1.5)).saturated_percent == pytest.approx(100 * ((a < -1) | (a > 1.5)).mean())
    assert drift(a, a * 0.9).saturated_percent == pytest.approx(0.2), "the largest and the smallest alone"


@pytest.mark.parametrize("b", [np.zeros((4, 5)), np.zeros((5, 4)), np.full((4, 4), np.nan), np.full((4, 4), np.inf)])
def test_outputs_that_cannot_be_compared_are_an_error(b: np.ndarray) -> None:
    with pytest.raises(InputError):
        drift(np.ones((4, 4)), b)


def test_outputs_of_only_zeros_have_no_drift_and_no_division_by_zero() -> None:
    found = drift(np.zeros((2, 3)), np.zeros((2, 3)))
    assert found.max_absolute == found.relative == 0 and found.cosine == 1 and found.top1_agreement_percent == 100


@pytest.mark.parametrize(
    "records, expected",
    [({}, "int8"), ({"other": ["fp32"]}, "int8"), ({"fp32": {"precision": "fp32"}}, "fp32")],
)
def test_the_reference_is_the_engine_whose_record_says_fp32_else_the_first(
    tmp_path: Path, records: dict, expected: str
) -> None:
    for name, record in records.items():
        write_json(tmp_path / f"{name}.engine.json", record)
    assert reference_of([tmp_path / f"{name}.engine" for name in ("int8", "fp32", "other")]).stem == expected
