"""Do made-up runs hold what the checks of step 8 count on, whatever their seed?"""

import pytest

from helpers.probes.measurements import BASELINE, BATCHES, NAMES, made_up

SEEDS = range(300)


def test_pytorch_is_the_fastest_where_it_must_be() -> None:
    assert {made_up(seed, pytorch_fastest=True).fastest[0] for seed in SEEDS} == {BASELINE}


def test_else_any_engine_may_be_the_fastest_at_any_batch_that_saturates() -> None:
    fastest = [made_up(seed).fastest for seed in SEEDS]
    assert {name for name, _ in fastest} >= set(NAMES) - {BASELINE}
    assert len({batch for _, batch in fastest}) >= 3


@pytest.mark.parametrize("pytorch_fastest", [False, True])
def test_saturation_follows_the_stated_rule(pytorch_fastest: bool) -> None:
    for seed in SEEDS:
        run = made_up(seed, pytorch_fastest=pytorch_fastest)
        for name in NAMES:
            series, steps = run.images_per_s[name], zip(BATCHES, BATCHES[1:], strict=False)
            first = next((batch for batch, larger in steps if series[larger] < 1.1 * series[batch]), BATCHES[-1])
            assert run.saturation[name] == first
