"""Histograms and scales, against direct NumPy implementations of the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.calibration.histogram import BINS, TensorStatistics
from trtcpu.calibration.scales import entropy_scale, largest_scale, quantile_scale
from trtcpu.errors import EngineError


def statistics_of(*batches: np.ndarray) -> TensorStatistics:
    statistics = TensorStatistics(["x"])
    statistics.measure({"x": batches[0]})
    statistics.fix_ranges()
    for batch in batches:
        statistics.count({"x": batch})
    statistics.close()
    return statistics


def reference_histogram(*batches: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """A range set by the first batch, doubled whenever a batch exceeds it."""
    limit = np.abs(batches[0]).max()
    counts = np.zeros(BINS, np.int64)
    for batch in batches:
        magnitudes = np.abs(batch).ravel()
        while magnitudes.max() > limit:
            counts = np.concatenate([counts.reshape(-1, 2).sum(1), np.zeros(BINS // 2, np.int64)])
            limit = limit * np.float32(2)
        bins = (magnitudes * (np.float32(BINS) / limit)).astype(np.int64)
        counts += np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
    return counts, limit


def reference_bins(counts: np.ndarray) -> int:
    """Sum KL(P‖Q) term by term; who clips values must keep most of them, and two filled bins."""
    counts = counts.astype(np.float64)
    counts[0] = counts[1]
    divergences = {}
    for bins in range(128, BINS + 1):
        p, q = counts[:bins].copy(), np.zeros(bins)
        p[-1] += counts[bins:].sum()
        groups = np.arange(bins) * 128 // bins
        kept, beyond = counts[:bins].sum(), counts[bins:].sum()
        if beyond >= kept or (beyond and np.count_nonzero(counts[:bins]) == 1):
            continue
        for group in range(128):
            members = groups == group
            filled = members & (counts[:bins] > 0)
            if filled.any():
                q[filled] = counts[:bins][members].sum() / filled.sum()
        if q.sum() == 0 or (q[p > 0] == 0).any():
            continue
        p, q = p / p.sum(), q / q.sum()
        divergences[bins] = float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())
    least = min(divergences.values())
    return max(bins for bins, value in divergences.items() if value <= least + 1e-12)


def activations(seed: int, size: int = 40_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(size) * rng.gamma(1 + seed % 3, 1.0, size)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_histogram_equals_numpys_over_growing_batches(seed: int) -> None:
    batches = [activations(seed + 10 * i, 5_001 + i) * np.float32(1 + 3 * i) for i in range(4)]
    statistics = statistics_of(*batches)
    counts, limit = reference_histogram(*batches)
    assert statistics.range("x") == limit
    assert np.array_equal(statistics.counts["x"], counts)
    assert statistics.largest("x") == max(np.abs(batch).max() for batch in batches)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9_000), min_size=1, max_size=5), st.integers(0, 1000))
def test_counts_do_not_depend_on_how_a_batch_is_split(sizes: list[int], seed: int) -> None:
    first, rest = activations(seed, 300), activations(seed + 1, sum(sizes)) * np.float32(5)
    whole = statistics_of(first, rest)
    parts = statistics_of(first, *np.split(rest, np.cumsum(sizes)[:-1]))
    assert np.array_equal(whole.counts["x"], parts.counts["x"]) and whole.range("x") == parts.range("x")


@pytest.mark.parametrize("seed", range(3))
def test_entropy_scale_minimises_the_divergence_summed_term_by_term(seed: int) -> None:
    values = (np.maximum(activations(7), 0), activations(1), 5 + activations(2) / 10)[seed]
    counts, limit = reference_histogram(values)
    expected = (reference_bins(counts) + 0.5) * (limit / BINS) / 127
    assert entropy_scale(counts, limit) == pytest.approx(expected, rel=1e-7)


def test_entropy_scale_of_ten_spread_values_keeps_them_all() -> None:
    """As TensorRT does with a bias of ten values: many ranges lose nothing, the widest wins."""
    values = np.linspace(0.1, 1, 10, dtype=np.float32)
    counts, limit = reference_histogram(values)
    assert entropy_scale(counts, limit) == pytest.approx((BINS + 0.5) / BINS / 127)


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.999, 1.0])
def test_quantile_scale_is_numpys_quantile_within_one_bin(quantile: float) -> None:
    values = activations(3)
    statistics = statistics_of(values)
    scale = quantile_scale(statistics.counts["x"], statistics.range("x"), statistics.largest("x"), quantile)
    expected = np.quantile(np.abs(values), quantile, method="inverted_cdf")
    assert scale * 127 == pytest.approx(expected, abs=statistics.range("x") / BINS)


def test_regression_cutoff_leaves_greater_values_out() -> None:
    values = np.concatenate([np.linspace(0, 1, 1000), np.full(1000, 10)]).astype(np.float32)
    statistics = statistics_of(values)
    limits = statistics.counts["x"], statistics.range("x"), statistics.largest("x")
    assert quantile_scale(*limits, quantile=0.9, cutoff=1.0) * 127 == pytest.approx(10, rel=0.01)
    assert quantile_scale(*limits, quantile=0.9, cutoff=0.5) * 127 == pytest.approx(0.9, rel=0.02)


def test_a_tensor_of_zeros_gets_a_positive_scale() -> None:
    statistics = statistics_of(np.zeros(100, np.float32), np.zeros(3, np.float32))
    counts = statistics.counts["x"]
    assert entropy_scale(counts, 0.0) == quantile_scale(counts, 0.0, 0.0, 0.9) == largest_scale(0.0) == 1 / 127


def test_a_tensor_that_is_zero_in_the_first_batch_gets_its_range_later() -> None:
    statistics = statistics_of(np.zeros(100, np.float32), np.array([0.5, -2], np.float32))
    assert statistics.range("x") == 2.0 and statistics.counts["x"].sum() == 102


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_the_tensors_name(value: float) -> None:
    bad = np.array([1, value, 2], np.float32)
    with pytest.raises(EngineError, match="tensor 'x' has infinite or NaN values"):
        statistics_of(bad)
    with pytest.raises(EngineError, match="tensor 'x' has infinite or NaN values"):
        statistics_of(np.ones(4, np.float32), bad)


def test_empty_and_strided_arrays_count_as_their_values() -> None:
    values = activations(1, 4_000).reshape(40, 100)
    strided = statistics_of(values, values[:, ::2], np.zeros((0, 5), np.float32))
    assert np.array_equal(strided.counts["x"], statistics_of(values, values[:, ::2].copy()).counts["x"])


def test_rectified_tensors_count_as_numpys_maximum_with_zero() -> None:
    batches = [activations(5, 9_001) - np.float32(1), activations(6, 5_000) * np.float32(4)]
    statistics = TensorStatistics(["x"], rectified=["x"])
    statistics.measure({"x": batches[0]})
    statistics.fix_ranges()
    for batch in batches:
        statistics.count({"x": batch})
    statistics.close()
    counts, limit = reference_histogram(*(np.maximum(batch, 0) for batch in batches))
    assert np.array_equal(statistics.counts["x"], counts) and statistics.range("x") == limit
