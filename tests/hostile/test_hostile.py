"""The harness itself: attacks are well-formed, what is observed is told apart. `make hostile` runs the attacks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from solutions.sandbox import trouble
from tests.grading.tiny import POINTS, index_of, source_notebook
from tests.hostile import judge
from tests.hostile.attack import BASE, GROUPS, MARK, WHOLE, Attack, Seen, Trial
from tests.hostile.attacks import ATTACKS
from tests.hostile.course import attacked
from tests.hostile.goals import ended, gains, heard, leaks, live_marks, rendered, touches
from tests.hostile.guards import GUARDS
from tests.hostile.judged import Verdict

ROOT = Path(__file__).resolve().parents[2]
HONEST = {"a_honest": WHOLE, "z_honest": WHOLE}
PEAKS = ("memory", "grader_memory", "processes", "disk")


def _trial(**seen: object) -> Trial:
    student = ATTACKS["tcp"].student
    said = f"{student} · 01_export · graded"
    points = {"points": {**HONEST, student: BASE}, "booked": HONEST, "exit_code": 0, "said": said}
    return Trial(student, Seen(**{**points, **seen}))


def test_there_are_attacks_of_every_group_and_more_than_forty() -> None:
    assert {attack.group for attack in ATTACKS.values()} == set(GROUPS)
    assert len(ATTACKS) >= 40


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.name)
def test_an_attack_names_its_guards_and_its_code_is_python(attack: Attack) -> None:
    assert attack.guards and set(attack.guards) <= GUARDS.keys()
    assert set(attack.open_in) <= {"bubblewrap", "landlock"} and attack.about.endswith(".")
    compile(attacked(source_notebook(), attack).cells[2].source, attack.name, "exec")
    re.compile(attack.says)
    if attack.goal.__qualname__.split(".")[0] in PEAKS:
        assert attack.alone and attack.apart, "a peak is of the whole class"


def test_the_unattacked_notebook_is_worth_what_the_verdicts_take_for_granted() -> None:
    wrong, right = {"square": lambda x: 0, "cube": lambda x: x**3}, {"square": lambda x: x * x, "cube": lambda x: x**3}
    plain = Attack("plain", "files", "Nothing.", gains, ("sandbox",))
    source = attacked(source_notebook(), plain)
    assert "return 0" in source.cells[index_of(source, "square_todo")].source
    assert sum(POINTS.values()) == WHOLE
    assert judge._POINTS == POINTS
    assert [wrong["square"](2) == 4, right["square"](2) == 4] == [False, True]


def test_the_kernels_own_decision_is_the_controls(tmp_path: Path) -> None:
    notebook = {"square": lambda x: 0, "cube": lambda x: x**3}
    earned = [judge.grade_here(cell, notebook, str(tmp_path)) for cell in POINTS]
    assert sum(earned) == BASE and sorted(path.stem for path in tmp_path.iterdir()) == sorted(POINTS)


def test_an_attack_that_changed_nothing_has_no_faults() -> None:
    assert Verdict(ATTACKS["tcp"], _trial(), "bubblewrap").faults == []


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        ({"points": {**HONEST, ATTACKS["tcp"].student: 5.0}}, "5 points"),
        ({"touched": ["home/thesis.txt"]}, "left behind"),
        ({"survivors": ["sleep 600"]}, "left behind"),
        ({"exit_code": -9}, "the class ended with -9"),
        ({"points": {"a_honest": 5.0, "z_honest": 0.0}}, "the class ended"),
        ({"booked": {"z_honest": 5.0}}, "the class ended"),
        ({"booked": {**HONEST, ATTACKS["tcp"].student: 12.0}}, "12 points"),
        ({"heard": [f"('127.0.0.1', 45450): {ATTACKS['tcp'].student}"]}, "reached its goal"),
        ({"said": "Traceback (most recent call last)"}, "no clear line"),
    ],
)
def test_each_thing_that_does_not_hold_is_told(seen: dict, fault: str) -> None:
    assert any(fault in line for line in Verdict(ATTACKS["tcp"], _trial(**seen), "bubblewrap").faults)


def test_goals_look_at_the_attackers_own_part() -> None:
    student = ATTACKS["tcp"].student
    assert gains(_trial(points={**HONEST, student: 5.0})) and not gains(_trial())
    assert ended(_trial(exit_code=None)) and not ended(_trial())
    assert leaks(_trial(notebooks={student: "correct-horse-battery"})) and not leaks(_trial(notebooks={"other": "x"}))
    assert touches("home/")(_trial(touched=["home/.profile"])) and not touches("home/")(_trial())
    assert heard(_trial(heard=[f"name: {student}"])) and not heard(_trial(heard=["name: m-udp"]))
    assert rendered(_trial(pages={student: f"<script>{MARK}</script>"})) and not rendered(_trial())


@pytest.mark.parametrize(
    "page",
    [
        f"<script>alert('{MARK}')</script>",
        f"<img src=x onerror={MARK}>",
        f"<a href=\"javascript:alert('{MARK}')\">x</a>",
        f"<style>a {{ content: '{MARK}' }}</style>",
        f"<img src='https://example.org/{MARK}.png'>",
        f"<svg onload={MARK}></svg>",
    ],
)
def test_what_a_browser_would_act_on_is_found(page: str) -> None:
    assert live_marks(page)


@pytest.mark.parametrize("page", [f"&lt;script&gt;{MARK}&lt;/script&gt;", f"<p title='{MARK}'>{MARK}</p>", ""])
def test_what_a_browser_only_shows_is_not(page: str) -> None:
    assert not live_marks(page)


@pytest.mark.slow
@pytest.mark.skipif(bool(trouble("bubblewrap")), reason="no namespace can be made here")
def test_a_class_is_graded_in_its_namespace(tmp_path: Path) -> None:
    asked = ["--only", "answer_of_the_loaded_checks", "--sandbox", "bubblewrap", "--user", "ordinary"]
    command = [sys.executable, "-m", "tests.hostile", *asked, "--out", str(tmp_path / "hostile.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)  # it forks: not from here
    said = json.loads((tmp_path / "hostile.json").read_text())
    assert (done.returncode, said["dead"]) == (0, [])
    assert said["sandboxes"]["bubblewrap, ordinary"]["attacks"] == 1


def test_the_page_on_security_names_every_guard_and_every_open_attack() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    assert [name for name in GUARDS if f"`{name}`" not in page] == []
    assert [attack.name for attack in ATTACKS.values() if attack.open_in and f"`{attack.name}`" not in page] == []
