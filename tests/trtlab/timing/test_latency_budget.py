"""Do the shares and bounds follow from the times, and are impossible times refused?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.timing.latency_budget import STAGES, LatencyBudget

MS = st.floats(0.001, 1e4)


def test_shares_and_bottleneck_of_an_example_worked_by_hand() -> None:
    budget = LatencyBudget(4.0, 0.5, 2.0, 0.5, 3.0)
    assert budget.total_ms == 10.0
    assert budget.shares == {"pre": 40.0, "h2d": 5.0, "infer": 20.0, "d2h": 5.0, "post": 30.0}
    assert (budget.bottleneck, budget.sequential_per_s, budget.pipelined_per_s) == ("pre", 100.0, 250.0)


def test_the_link_is_in_megabits_a_second() -> None:
    budget = LatencyBudget(1, 1, 1, 1, 1, transfer_bytes=1_250_000, link_mbps=100)
    assert budget.link_ms == pytest.approx(100.0)
    assert (budget.bound_by, budget.bound_per_s) == ("link", pytest.approx(10.0))
    assert "whatever the engine does" in budget.advice()[-1]


def test_a_fast_link_leaves_the_bound_to_the_slowest_stage() -> None:
    budget = LatencyBudget(1, 1, 5, 1, 1, transfer_bytes=1000, link_mbps=10_000)
    assert (budget.bound_by, budget.bound_per_s) == ("infer", 200.0)


@given(MS, MS, MS, MS, MS)
def test_shares_add_up_and_overlap_never_loses(pre: float, h2d: float, infer: float, d2h: float, post: float) -> None:
    budget = LatencyBudget(pre, h2d, infer, d2h, post)
    assert sum(budget.shares.values()) == pytest.approx(100)
    assert budget.sequential_per_s <= budget.pipelined_per_s <= len(STAGES) * budget.sequential_per_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("times", "extra", "said"),
    [
        ((-1, 1, 1, 1, 1), {}, "--pre-ms"),
        ((1, 1, float("nan"), 1, 1), {}, "--infer-ms"),
        ((1e308, 1e308, 1, 1, 1), {}, "--pre-ms"),
        ((0, 0, 0, 0, 0), {}, "all stages take 0 ms"),
        ((1, 1, 1, 1, 1), {"transfer_bytes": 5}, "go together"),
        ((1, 1, 1, 1, 1), {"transfer_bytes": 0, "link_mbps": 5.0}, "--transfer-bytes"),
        ((1, 1, 1, 1, 1), {"transfer_bytes": 5, "link_mbps": 0.0}, "--link-mbps"),
    ],
)
def test_impossible_figures_are_refused(times: tuple, extra: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        LatencyBudget(*times, **extra)
