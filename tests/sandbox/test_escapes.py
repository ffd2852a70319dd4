"""Ways out: a few are held by each sandbox, and lead out if there is none: they are no dead attacks."""

import sys

import pytest

from solutions.sandbox import KINDS, trouble
from solutions.sandbox import __main__ as doctor
from tests.hostile.ways_out import A_FEW, led_out
from trtcpu.errors import LabError

WORKS = [kind for kind in KINDS if not trouble(kind)]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a sandbox on Linux only")


@pytest.mark.slow
@pytest.mark.parametrize("user", ["ordinary", "root"])
@pytest.mark.parametrize("kind", WORKS)
def test_a_few_ways_out_are_held(kind: str, user: str) -> None:
    assert led_out(kind, A_FEW, user) == {}


def test_the_same_ways_lead_out_where_there_is_no_sandbox_but_for_the_limits_of_a_scratch() -> None:
    limited = {"a full disk at once", "a full disk of closed files"}
    assert set(led_out("none", A_FEW, "root")) == {*A_FEW} - limited


@pytest.mark.slow
def test_the_six_attacks_of_the_doctor_are_held_and_some_lead_out_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor.attack_sandboxes()
    assert capsys.readouterr().out.count("· held ·") >= 6 * len(WORKS)
    monkeypatch.setattr(doctor, "KINDS", ("none",))
    with pytest.raises(LabError, match="none · read the hidden checks.*none · end another process"):
        doctor.attack_sandboxes()
