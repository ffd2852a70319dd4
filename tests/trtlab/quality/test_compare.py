"""Drift between outputs against PyTorch's own measures, and the reference of an evaluation."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from helpers.tools.files import write_json
from trtcpu.errors import InputError
from trtlab.quality.classification import reference_of
from trtlab.quality.compare import drift


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
    assert found.max_absolute == found.relative == 0 and found.top1_agreement_percent == 100


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
