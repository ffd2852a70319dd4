"""Do the statistics equal NumPy's and pandas', and are impossible times refused?"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import InputError
from solutions.pipeline.stats import LatencyStats, percentile

TIMES = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=50)


@given(TIMES, st.floats(0, 100))
def test_percentile_equals_numpys_linear(times: list[float], percent: float) -> None:
    assert percentile(times, percent) == pytest.approx(np.percentile(times, percent), rel=1e-9, abs=1e-9)


@given(TIMES)
def test_the_summary_equals_pandas(times: list[float]) -> None:
    series, stats = pd.Series(times), LatencyStats.from_ms(times)
    expected = [series.mean(), *series.quantile([0.5, 0.9, 0.95, 0.99]), series.std(ddof=0), series.min(), series.max()]
    got = [stats.mean_ms, stats.median_ms, stats.p90_ms, stats.p95_ms, stats.p99_ms]
    assert [*got, stats.std_ms, stats.min_ms, stats.max_ms] == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert stats.count == len(times)


def test_the_order_of_times_does_not_matter() -> None:
    assert LatencyStats.from_ms([3, 1, 2]) == LatencyStats.from_ms([1, 2, 3])


@pytest.mark.parametrize("times", [[], [-1.0], [float("nan")], [float("inf"), 1.0]])
def test_impossible_times_are_refused(times: list[float]) -> None:
    with pytest.raises(InputError):
        LatencyStats.from_ms(times)


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_a_percentile_outside_0_to_100_is_refused(percent: float) -> None:
    with pytest.raises(InputError, match="between 0 and 100"):
        percentile([1.0], percent)
