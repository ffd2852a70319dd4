"""Speed is compared while nobody else moves."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from solutions.checks.trusted import stillness
from solutions.checks.trusted.speed import compare_speed


@pytest.fixture
def held() -> Iterator[list[bool]]:
    """Whether others stand still, alone in a list."""
    state = [False]

    @contextmanager
    def hold() -> Iterator[None]:
        state[0] = True
        yield
        state[0] = False

    stillness.held_by(hold)
    yield state
    stillness.held_by(nullcontext)


def test_every_turn_runs_while_others_stand_still_and_they_go_on_afterwards(held: list[bool]) -> None:
    seen = []

    def turn(executions: int) -> float:
        seen.append(held[0])
        return 0.01

    ratio = compare_speed(turn, turn, (0.5,))
    assert (ratio.median, ratio.pairs) == (1.0, 5) and len(seen) == 5 * 2 + 3
    assert all(seen) and not held[0]
