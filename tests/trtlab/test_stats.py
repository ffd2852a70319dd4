"""Do the statistics equal NumPy's and pandas', and are impossible times refused?"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.stats import LatencyStats, least_calls, tail

TIMES = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=50)


@given(TIMES)
def test_the_summary_equals_pandas(times: list[float]) -> None:
    series, stats = pd.Series(times), LatencyStats.from_ms(times)
    expected = [series.mean(), series.median(), series.std(ddof=0), series.min(), series.max()]
    got = [stats.mean_ms, stats.median_ms, stats.std_ms, stats.min_ms, stats.max_ms]
    assert got == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert stats.count == len(times)


@pytest.mark.parametrize(("percent", "calls"), [(90, 10), (95, 20), (99, 100), (99.9, 1000)])
def test_a_percentile_needs_so_many_calls_that_one_lies_beyond(percent: float, calls: int) -> None:
    assert least_calls(percent) == calls
    assert tail(range(calls - 1), percent) is None
    assert tail(range(calls), percent) == pytest.approx(np.percentile(range(calls), percent))


@pytest.mark.parametrize("count", [1, 9, 10, 19, 20, 99, 100, 500])
def test_a_summary_holds_the_percentiles_that_its_calls_can_give_and_no_others(count: int) -> None:
    times = np.random.default_rng(count).gamma(2, size=count)
    stats = LatencyStats.from_ms(times)
    expected = pd.Series(times).quantile([0.9, 0.95, 0.99])
    for value, right, least in zip((stats.p90_ms, stats.p95_ms, stats.p99_ms), expected, (10, 20, 100), strict=True):
        assert value == (pytest.approx(right) if count >= least else None)


@pytest.mark.parametrize("times", [[], [-1.0], [float("nan")], [float("inf"), 1.0]])
def test_impossible_times_are_refused(times: list[float]) -> None:
    with pytest.raises(InputError):
        LatencyStats.from_ms(times)
