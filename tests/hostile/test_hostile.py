"""The harness itself: attacks are well-formed, what is observed is told apart. `make hostile` runs the attacks."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.grading.tiny import POINTS, index_of, source_notebook
from tests.hostile import attacks, judge
from tests.hostile.attack import BASE, GROUPS, MARK, SECRET, WHOLE, Attack, Goal, Seen, Trial
from tests.hostile.attacks import ATTACKS
from tests.hostile.course import attacked
from tests.hostile.goals import ended, gains, heard, leaks, live_marks, peak, rendered, touches
from tests.hostile.guards import GUARDS
from tests.hostile.judged import Verdict

ROOT = Path(__file__).resolve().parents[2]
HONEST = {"a_honest": WHOLE, "z_honest": WHOLE}
TCP = ATTACKS["tcp"].student


def _trial(**seen: object) -> Trial:
    said = f"{TCP} · 01_export · graded"
    points = {"points": {**HONEST, TCP: BASE}, "booked": HONEST, "exit_code": 0, "said": said}
    return Trial(TCP, Seen(**{**points, **seen}))


def test_every_attack_has_a_name_of_its_own_and_every_group_has_attacks() -> None:
    assert sum(len(module.ATTACKS) for module in attacks._MODULES) == len(ATTACKS) >= 40
    assert {attack.group for attack in ATTACKS.values()} == set(GROUPS)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.name)
def test_an_attack_names_its_guards_and_its_code_is_python(attack: Attack) -> None:
    assert attack.guards and set(attack.guards) <= GUARDS.keys() and attack.about.endswith(".")
    notebook = attacked(source_notebook(), attack)
    compile(notebook.cells[index_of(notebook, "square_todo")].source, attack.name, "exec")
    re.compile(attack.says)
    if attack.goal.__qualname__.startswith("peak."):
        assert attack.alone and attack.apart, "a peak is of the whole class"


@pytest.mark.parametrize("target", [target for guard in GUARDS.values() for target in guard.patches])
def test_what_a_guard_is_switched_off_by_replaces_something_that_is_there(target: str) -> None:
    assert resolve_name(target) is not None


def test_the_unattacked_notebook_is_worth_what_the_verdicts_take_for_granted(tmp_path: Path) -> None:
    source = attacked(source_notebook(), Attack("plain", "files", "Nothing.", gains, ("sandbox",)))
    assert "return 0" in source.cells[index_of(source, "square_todo")].source
    assert sum(POINTS.values()) == WHOLE and judge._POINTS == POINTS
    wrong = {"square": lambda x: 0, "cube": lambda x: x**3}
    assert sum(judge.grade_here(cell, wrong, str(tmp_path)) for cell in POINTS) == BASE
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(POINTS)


def test_an_attack_that_changed_nothing_has_no_faults() -> None:
    assert Verdict(ATTACKS["tcp"], _trial()).faults == []


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        ({"points": {**HONEST, TCP: 5.0}}, "5 points"),
        ({"touched": ["home/thesis.txt"]}, "left behind"),
        ({"survivors": ["sleep 600"]}, "left behind"),
        ({"exit_code": -9}, "the class ended with -9"),
        ({"points": {"a_honest": 5.0, "z_honest": 0.0}}, "the class ended"),
        ({"booked": {"z_honest": 5.0}}, "the class ended"),
        ({"booked": {**HONEST, TCP: 12.0}}, "12 points"),
        ({"heard": [TCP]}, "reached its goal"),
        ({"said": "Traceback (most recent call last)"}, "no clear line"),
    ],
)
def test_each_thing_that_does_not_hold_is_told(seen: dict, fault: str) -> None:
    assert any(fault in line for line in Verdict(ATTACKS["tcp"], _trial(**seen)).faults)


@pytest.mark.parametrize(
    ("goal", "reached", "other"),
    [
        (gains, {"points": {**HONEST, TCP: 5.0}}, {}),
        (ended, {"exit_code": None}, {}),
        (leaks, {"notebooks": {TCP: SECRET}}, {"notebooks": {"other": SECRET}}),
        (touches("home/"), {"touched": ["home/.profile"]}, {"touched": ["course/home"]}),
        (heard, {"heard": [f"POST {TCP}"]}, {"heard": ["m-udp"]}),
        (peak("disk", 9), {"peaks": {"disk": 10.0}}, {"peaks": {"disk": 9.0}}),
        (rendered, {"pages": {TCP: f"<script>{MARK}</script>"}}, {}),
    ],
)
def test_goals_look_at_the_attackers_own_part(goal: Goal, reached: dict, other: dict) -> None:
    assert goal(_trial(**reached)) and not goal(_trial(**other))


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (f"<script>alert('{MARK}')</script>", True),
        (f"<img src=x onerror={MARK}>", True),
        (f"<a href=\"javascript:alert('{MARK}')\">x</a>", True),
        (f"<style>a {{ content: '{MARK}' }}</style>", True),
        (f"<img src='https://example.org/{MARK}.png'>", True),
        (f"<svg onload={MARK}></svg>", True),
        (f"&lt;script&gt;{MARK}&lt;/script&gt;", False),
        (f"<p title='{MARK}'>{MARK}</p>", False),
        ("", False),
    ],
)
def test_what_a_browser_would_act_on_is_found_and_what_it_only_shows_is_not(page: str, found: bool) -> None:
    assert bool(live_marks(page)) == found


def test_the_page_on_security_names_every_guard() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    assert [name for name in GUARDS if f"`{name}`" not in page] == []
