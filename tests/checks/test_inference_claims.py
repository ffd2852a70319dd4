"""Do the probes of step 5 tell right outputs from wrong ones, and a leak from none?"""

import numpy as np

from helpers.probes.images import varied_images
from helpers.probes.memory_use import growth_over
from solutions.checks.core.claim import claims_of
from solutions.checks.trusted.small_plans import row_errors, small_plan


def test_step_five_is_worth_ten_points() -> None:
    assert sum(claim.points for claim in claims_of("inference_class")) == 10


def test_two_images_never_have_nearly_the_same_outputs() -> None:
    small = small_plan(11)
    outputs = small.expected(varied_images(12, 8))
    for shift in range(1, 8):
        assert row_errors(np.roll(outputs, shift, axis=0), outputs).max() > 0.1


def test_a_leak_is_seen_and_ends_the_repetition() -> None:
    kept = []
    growth = growth_over(lambda index: kept.append(np.ones(2 << 20)), cycles=200, warmup=2)
    assert growth.process_bytes > 300e6
    assert growth.cycles < 200


def test_what_is_freed_leaves_no_growth() -> None:
    assert growth_over(lambda index: np.ones(2 << 20).sum(), cycles=20, warmup=5).process_bytes < 40e6
