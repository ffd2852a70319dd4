"""A kernel that waits until somebody else has measured time does not disturb that."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell

from solutions.grading.execute import GradeExecute

pytestmark = pytest.mark.filterwarnings("ignore")  # nbclient's


def test_who_waits_at_the_gate_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = [True]

    @contextmanager
    def paused() -> Iterator[None]:
        moves[0] = False
        yield
        moves[0] = True

    @contextmanager
    def passed(*, alone: bool) -> Iterator[None]:
        assert not moves[0] and alone
        yield

    monkeypatch.setattr(GradeExecute, "_graded", lambda *given: (moves[0], given[-1]))
    executor = GradeExecute()
    executor.km = SimpleNamespace(watch=SimpleNamespace(paused=paused, grant=lambda seconds: None))
    executor._gate, executor._timed = SimpleNamespace(passed=passed), {3}
    executor._ends = executor._alone_left = 0.0
    assert executor.preprocess_cell(new_code_cell(), {}, 3) == (True, 3)
