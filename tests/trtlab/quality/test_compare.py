"""Drift between outputs against PyTorch's own measures, and the reference of an evaluation."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from helpers.tools.files import write_json
from trtcpu.errors import InputError
from trtlab.quality.compare import drift
from trtlab.quality.evaluation import reference_of


def test_drift_is_what_torch_measures() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(50, 10, generator=generator, dtype=torch.float32)
    b = a + 0.5 * torch.randn(50, 10, generator=generator, dtype=torch.float32)
    found = drift(a.numpy(), b.numpy())
    assert found.max_absolute == pytest.approx(float((a - b).abs().max()), rel=1e-5)
    assert found.mean_absolute == pytest.approx(float((a - b).abs().mean()), rel=1e-5)
    assert found.relative == pytest.approx(float((a - b).norm() / a.norm()), rel=1e-5)
    assert found.cosine == pytest.approx(float(cosine_similarity(a, b).mean()), rel=1e-5)
    assert found.min_cosine == pytest.approx(float(cosine_similarity(a, b).min()), rel=1e-5)
    assert found.top1_agreement_percent == pytest.approx(100 * float((a.argmax(1) == b.argmax(1)).float().mean()))


def test_saturated_values_are_those_that_stop_at_the_range() -> None:
    a = np.linspace(-2, 2, 1000).reshape(100, 10)
    found = drift(a, a.clip(-1, 1.5))
    assert found.saturated_percent == pytest.approx(100 * ((a < -1) | (a > 1.5)).mean())
    assert drift(a, a * 0.9).saturated_percent == pytest.approx(0.2), "the largest and the smallest alone"


@pytest.mark.parametrize("b", [np.zeros((4, 5)), np.zeros((5, 4)), np.full((4, 4), np.nan), np.full((4, 4), np.inf)])
def test_outputs_that_cannot_be_compared_are_an_error(b: np.ndarray) -> None:
    with pytest.raises(InputError):
        drift(np.ones((4, 4)), b)


def test_outputs_of_only_zeros_have_no_drift_and_no_division_by_zero() -> None:
    found = drift(np.zeros((2, 3)), np.zeros((2, 3)))
    assert found.max_absolute == found.relative == 0 and found.top1_agreement_percent == 100


def test_the_reference_is_the_engine_whose_record_says_fp32_else_the_first(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.engine" for name in ("int8", "fp32", "other")]
    assert reference_of(paths) == paths[0]
    (tmp_path / "int8.engine.json").write_text("not json")
    write_json(tmp_path / "other.engine.json", ["fp32"])
    assert reference_of(paths) == paths[0]
    write_json(tmp_path / "fp32.engine.json", {"precision": "fp32"})
    assert reference_of(paths) == paths[1]
