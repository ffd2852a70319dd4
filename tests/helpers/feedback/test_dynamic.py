"""The visible check of where throughput saturates agrees with the hidden one and says what it found."""

import pytest

from helpers import feedback
from helpers.feedback.checklist import NotYet


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


@pytest.mark.parametrize(
    ("rates", "answer"), [((10, 10, 10, 10), 1), ((10, 20, 21, 40), 4), ((10, 20, 40, 43), 16), ((10, 20, 40, 80), 32)]
)
def test_the_answer_by_the_rule_gets_a_tick_and_every_other_a_cross(rates, answer, capsys) -> None:
    throughput = dict(zip((1, 4, 16, 32), rates, strict=True))
    feedback.check_saturation(throughput, answer)
    assert "✓" in capsys.readouterr().out
    for other in {1, 4, 16, 32, 8, None} - {answer}:
        with pytest.raises(NotYet):
            feedback.check_saturation(throughput, other)


def test_an_empty_measurement_is_named(capsys) -> None:
    with pytest.raises(NotYet):
        feedback.check_saturation({}, 16)
    assert "run the measuring cell" in capsys.readouterr().out
