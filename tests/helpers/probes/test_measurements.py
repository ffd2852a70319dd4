"""Do made-up runs hold what the checks of step 8 count on, whatever their seed?"""

from typing import Any

import pytest

from helpers.probes.measurements import BASELINE, BATCHES, NAMES, made_up

SEEDS = range(300)
SPECIAL = [{}, {"pytorch_fastest": True}, {"int8_after": (1.02, 1.06)}, {"int8_after": (0.7, 0.85)}]


def test_pytorch_is_the_fastest_where_it_must_be() -> None:
    assert {made_up(seed, pytorch_fastest=True).fastest[0] for seed in SEEDS} == {BASELINE}


def test_else_any_engine_may_be_the_fastest_at_any_batch_that_saturates() -> None:
    fastest = [made_up(seed).fastest for seed in SEEDS]
    assert {name for name, _ in fastest} >= set(NAMES) - {BASELINE}
    assert len({batch for _, batch in fastest}) >= 3


def test_int8_creeps_up_or_falls_after_its_saturation_where_it_must() -> None:
    for seed in SEEDS:
        for low, high in ((1.02, 1.06), (0.7, 0.85)):
            run = made_up(seed, int8_after=(low, high))
            saturation, series = run.saturation["int8"], run.images_per_s["int8"]
            assert low <= series[BATCHES[BATCHES.index(saturation) + 1]] / series[saturation] <= high


@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_saturation_follows_the_stated_rule(special: dict[str, Any]) -> None:
    for seed in SEEDS:
        run = made_up(seed, **special)
        for name in NAMES:
            series, steps = run.images_per_s[name], zip(BATCHES, BATCHES[1:], strict=False)
            first = next((batch for batch, larger in steps if series[larger] < 1.1 * series[batch]), BATCHES[-1])
            assert run.saturation[name] == first
