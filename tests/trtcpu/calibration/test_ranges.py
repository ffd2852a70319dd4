"""The range (127 times the scale) that calibration finds for data away from zero and for unusual data."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.benchmarks.fidelity import calibrated_engine, make_calibrator
from tests.trtcpu.calibration.models import graph
from trtcpu.calibration.histogram import TensorStatistics
from trtcpu.calibration.scales import entropy_scale
from trtcpu.calibration_cache import parse_cache

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "away_from_zero.npz"
RNG = np.random.default_rng(7)
SIZE = (256, 64)
# What TensorRT 8.6.0 wrote on an H200 for the fixture's data, values of 1.268 to 2.812, in batches of 8.
TENSORRT = {
    "entropy2": {"x": 2.915792226791382, "y": 30.968863919377327},
    "minmax": {"x": 2.8123212419450283, "y": 30.92157354950905},
}
# What its two entropy calibrators wrote alike on an H100 for `drawn()`, in batches of 32: the range by name.
RECORDED = json.loads((FIXTURE.parent / "entropy_ranges.json").read_text())


def drawn() -> dict[str, np.ndarray]:
    """Return the recorded data by name, each [256, 64], drawn in the order in which it was recorded."""
    r, n = np.random.default_rng(0), SIZE
    batch = np.repeat(np.arange(8), 32)[:, None]
    data = {
        "pixels_83_164": r.uniform(82.98, 163.76, n),
        "pixels_0_255": r.integers(0, 256, n),
        "uniform01": r.random(n),
        "normal": r.normal(size=n),
        "relu": np.maximum(r.normal(size=n), 0),
        "exponential": r.exponential(size=n),
        "laplace": r.laplace(size=n),
        "two_clusters": np.where(r.random(n) < 0.5, -3, 5) + 0.05 * r.normal(size=n),
        "two_far_clusters": np.where(r.random(n) < 0.5, 1, 100) + 0.01 * r.normal(size=n),
        "rare_far_cluster": np.where(r.random(n) < 0.999, 0.5, 100) + 0.01 * r.normal(size=n),
        "constant": np.full(n, 2.0),
        "constant_negative": np.full(n, -2.0),
        "outlier": np.concatenate([r.normal(size=(255, 64)), np.full((1, 64), 1000.0)]),
        "tiny": 1e-20 * r.normal(size=n),
        "huge": 1e20 * r.normal(size=n),
        "growing": batch + r.random(n),
        "growing_normal": (batch + 1) * r.normal(size=n),
        "shrinking": (8 - batch) * r.random(n),
        "shrinking_normal": (8 - batch) * r.normal(size=n),
        "zeros_then_normal": np.where(batch < 1, 0, r.normal(size=n)),
        "narrow_away": 10 + 0.01 * r.normal(size=n),
        "slightly_away": 0.1 + r.random(n),
        "half_away": 1 + r.random(n),
        "normal_away": 5 + r.normal(size=n),
        "binary": r.integers(0, 2, n),
        "minus_one_one": np.where(r.random(n) < 0.5, -1, 1),
        "few_levels": r.integers(1, 5, n),
        "grows_by_2_percent": (1 + 0.02 * batch) * r.random(n),
        "last_batch_doubles": np.where(batch == 7, 2.0, 1.0) * r.random(n),
        "mixed_then_away": np.where(batch < 4, r.random(n), 1 + r.random(n)),
    }
    first = np.where(np.arange(64)[None] == 0, 1000.0, r.normal(size=(1, 64)))
    data["one_outlier_first"] = np.concatenate([first, r.normal(size=(255, 64))])
    r = np.random.default_rng(5)
    for p in (
        0.05,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.85,
        0.9,
        0.93,
        0.95,
        0.96,
        0.97,
        0.98,
        0.985,
        0.99,
        0.995,
    ):
        data[f"first_{p}"] = np.where(r.random(n) < p, 1, r.uniform(2, 3, n))
    for p in (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98):
        data[f"near_{p}"] = np.where(r.random(n) < p, 5 + 1e-3 * r.normal(size=n), 8 + 0.3 * r.normal(size=n))
    for spread in (0.003, 0.005, 0.02, 0.05):
        data[f"narrow_{spread}"] = 10 + spread * r.normal(size=n)
    return data


DRAWN = drawn()


def calibrated(values: np.ndarray, kind: str, batch: int = 8) -> dict[str, float]:
    """Return the ranges of x and y = x · w that a calibration with `values` [N, 64] in batches writes."""
    weights = np.load(FIXTURE)["w"]
    network = graph([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["n", 64]}, ["y"], {"w": weights})
    calibrator = make_calibrator(kind, values, batch)
    assert calibrated_engine(network.SerializeToString(), calibrator, (batch, 64)) is not None
    return {name: 127 * scale for name, scale in parse_cache(calibrator.written).scales.items()}


def entropy_range(*batches: np.ndarray) -> float:
    """Return the entropy calibrators' range of a tensor that had these values."""
    statistics = TensorStatistics(["x"])
    statistics.measure({"x": batches[0].astype(np.float32)})
    statistics.fix_ranges()
    for batch in batches:
        statistics.count({"x": batch.astype(np.float32)})
    statistics.close()
    return 127 * entropy_scale(statistics.counts["x"], statistics.range("x"))


def clipped(found: float, values: np.ndarray) -> float:
    return float((np.abs(values) > found).mean())


@pytest.mark.parametrize("kind", TENSORRT)
def test_the_ranges_of_data_away_from_zero_are_tensorrts(kind: str) -> None:
    assert calibrated(np.load(FIXTURE)["x"], kind) == pytest.approx(TENSORRT[kind], rel=1e-6)


@pytest.mark.parametrize("name", RECORDED)
def test_the_range_of_drawn_data_is_tensorrts(name: str) -> None:
    assert entropy_range(*np.split(DRAWN[name], 8)) == pytest.approx(RECORDED[name], rel=1e-6)


def test_no_mixture_of_clusters_loses_most_of_its_values() -> None:
    for seed in range(400):
        rng = np.random.default_rng(seed)
        values = np.concatenate(
            [
                rng.normal(rng.uniform(-9, 9), rng.choice([0, 1e-3, 0.1, 1]), rng.choice([1, 50, 1000, 3000]))
                for _ in range(rng.integers(1, 7))
            ]
        )
        found = entropy_range(*np.array_split(values, 3 if len(values) > 3 else 1))
        assert np.isfinite(found) and found > 0 and clipped(found, values) <= 0.5, seed


@pytest.mark.parametrize("kind", ["entropy2", "entropy", "minmax"])
@pytest.mark.parametrize("size", [0, 1e-44, 1e-37, 5e-36, 1e-20, 1e36])
def test_any_magnitude_gives_a_positive_finite_range(size: float, kind: str) -> None:
    values = (size * RNG.uniform(0.5, 1, SIZE)).astype(np.float32)
    with np.errstate(under="ignore"):
        found = calibrated(values, kind)["x"]
    largest = float(values.max())
    assert found == pytest.approx(largest if largest > 127 * np.finfo(np.float32).tiny else 1, rel=0.1)


def test_a_range_that_doubles_beyond_the_largest_float32_stays_finite() -> None:
    assert entropy_range(np.full(99, 2e38), np.full(99, 3e38)) == pytest.approx(3e38, rel=0.2)
