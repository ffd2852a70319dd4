"""The range (127 times the scale) that calibration finds for data away from zero and for unusual data."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from helpers.calibration_cache import parse_cache
from helpers.cpu_engine.calibration.histogram import TensorStatistics
from helpers.cpu_engine.calibration.scales import entropy_scale
from tests.benchmarks.fidelity import calibrated_engine, make_calibrator
from tests.helpers.cpu_engine.calibration.models import graph

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "away_from_zero.npz"
RNG = np.random.default_rng(7)
SIZE = (256, 64)
# What TensorRT 8.6.0 wrote on an H200 for the fixture's data, values of 1.268 to 2.812, in batches of 8.
TENSORRT = {
    "entropy2": {"x": 2.915792226791382, "y": 30.968863919377327},
    "minmax": {"x": 2.8123212419450283, "y": 30.92157354950905},
}
DRAWS = np.random.default_rng(0)
# Drawn data, and the range that TensorRT 8.6.0's two entropy calibrators wrote for it on an H100, in batches of 32.
RECORDED = {
    "pixels of 82.98 to 163.76": (DRAWS.uniform(82.98, 163.76, SIZE), 171.79379260540009),
    "bytes": (DRAWS.integers(0, 256, SIZE), 255.0622534751892),
    "uniform": (DRAWS.random(SIZE), 1.0016141356900334),
    "normal": (DRAWS.normal(size=SIZE), 3.8302637692540884),
    "rectified normal": (np.maximum(DRAWS.normal(size=SIZE), 0), 3.748240128159523),
    "exponential": (DRAWS.exponential(size=SIZE), 8.218552105128765),
    "Laplace": (DRAWS.laplace(size=SIZE), 10.92658955603838),
    "two clusters": (np.where(DRAWS.random(SIZE) < 0.5, -3, 5) + 0.05 * DRAWS.normal(size=SIZE), 5.123032249510288),
    "constant": (np.full(SIZE, -2.0), 2.000488243997097),
}
AROUND_FIVE = RNG.normal(5, 0.3, SIZE)
UNUSUAL = {
    "pixels of 82.98 to 163.76": RNG.uniform(82.98, 163.76, SIZE),
    "all negative": -AROUND_FIVE,
    "one value nearer to zero": np.where(np.arange(SIZE[0] * SIZE[1]).reshape(SIZE) == 9, 3, AROUND_FIVE),
    "exponential above 1": 1 + RNG.exponential(size=SIZE),
    "little spread": RNG.normal(10, 0.01, SIZE),
    "50 values": RNG.normal(5, 1, (10, 5)),
    "two clusters": np.where(RNG.random(SIZE) < 0.5, -3, 5) + RNG.normal(0, 0.05, SIZE),
    "two narrow clusters": np.where(RNG.random(SIZE) < 0.6, 5, 8) + RNG.normal(0, 1e-3, SIZE),
    "a rare far cluster": np.where(RNG.random(SIZE) < 0.9, 5, 8) + RNG.normal(0, 0.01, SIZE),
    "half of it one value": np.where(RNG.random(SIZE) < 0.51, 1, RNG.uniform(2, 3, SIZE)),
    "constant": np.full(SIZE, -2.0),
    "integers": RNG.integers(1, 5, SIZE),
    "tiny": 1e-20 * AROUND_FIVE,
    "huge": 3e37 * AROUND_FIVE,
}


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


@pytest.mark.parametrize(("values", "expected"), RECORDED.values(), ids=RECORDED)
def test_the_range_of_drawn_data_is_tensorrts(values: np.ndarray, expected: float) -> None:
    assert entropy_range(*np.split(values, 8)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("batches", [1, 2, 5])
@pytest.mark.parametrize("values", UNUSUAL.values(), ids=UNUSUAL)
def test_the_range_of_unusual_data_is_about_its_maximum(values: np.ndarray, batches: int) -> None:
    found, largest = entropy_range(*np.array_split(values, batches)), float(np.abs(values).max())
    assert 0.7 * largest <= found <= 1.15 * largest and clipped(found, values) < 0.01


def test_one_outlier_in_a_later_batch_is_kept_at_its_own_size() -> None:
    values = RNG.normal(size=SIZE)
    assert entropy_range(values, np.array([1000.0])) == pytest.approx(1000, rel=0.002)


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
