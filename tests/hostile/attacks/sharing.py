"""What one submission could leave for another: in what judges remember, and in what its kernel ran in."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import nbformat

from tests.grading.tiny import STEP, code_of, solved
from tests.hostile.attack import BASE, Attack, Trial
from tests.hostile.goals import touches

_SECOND = "second"

_POISON = """
texts = iter(["globals().update(evaluated=lambda text: 4) or 0", "0"])
def square(x):
    return next(texts)
"""
_ASKS_THE_SAME = """
def square(x):
    return "0"
"""
_STARTUP = """
import os
place = os.path.expanduser("~/.ipython/profile_default/startup")
os.makedirs(place, exist_ok=True)
with open(os.path.join(place, "00.py"), "w") as file:
    file.write("get_ipython().events.register('post_run_cell', lambda *_: globals().update(square=lambda x: x * x))")
"""
_SHADOW = """
with open("onnx.py", "w") as file:
    file.write("import builtins\\nbuiltins.print = None")
for name in ("ipykernel_launcher", "IPython", "zmq"):
    with open(name + ".py", "w") as file:
        file.write("raise SystemExit('not today')")
"""
_TIMINGS = """
import os
path = os.environ["TRT_LAB_TIMING_CACHE"]
for change in (
    lambda: open(path, "w").write("{MARK}"),
    lambda: os.chmod(path, 0o666),
    lambda: os.remove(path),
    lambda: os.replace(".", path),
    lambda: os.truncate(path, 0),
):
    try:
        change()
    except OSError:
        pass
"""
_WRONG = """
def square(x):
    return 0
"""


def _second(code: str) -> Callable[[Path, str], None]:
    """Hand in another submission with `code` under a name that follows the attacker's."""

    def place(course: Path, student: str) -> None:
        lab = nbformat.read(course / "labs" / STEP / f"{STEP}.ipynb", as_version=4)
        path = course / "submitted" / f"{student}-{_SECOND}" / STEP / f"{STEP}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(code_of(solved(lab, "cube"), "square", code), path)

    return place


def _second_gains(trial: Trial) -> bool:
    """The submission after the attacker's has more points than it is worth."""
    return trial.seen.points.get(f"{trial.student}-{_SECOND}", 0.0) > BASE


def _second_loses(trial: Trial) -> bool:
    """The submission after the attacker's has fewer points than it is worth."""
    return trial.seen.points.get(f"{trial.student}-{_SECOND}", 0.0) < BASE


_attack = partial(Attack, group="sharing", goal=_second_gains, alone=True)
ATTACKS = [
    _attack(
        "answers_poisoned",
        about="Takes over the process that reads its answers, and has it answer what the next one will ask.",
        code=_POISON,
        place=_second(_ASKS_THE_SAME),
        guards=("answers",),
    ),
    _attack(
        "timings_poisoned",
        about="Writes into the file of kernel timings that every build is offered, and replaces it.",
        code=_TIMINGS,
        goal=touches(r"timing\.cache"),
        guards=("sandbox",),
    ),
    _attack(
        "next_kernel_changed",
        about="Leaves a start-up file for the kernel that comes after it.",
        code=_STARTUP,
        place=_second(_WRONG),
        guards=("once",),
    ),
    _attack(
        "next_kernel_broken",
        about="Leaves modules by the names that the kernel after it imports.",
        code=_SHADOW,
        place=_second(_WRONG),
        goal=_second_loses,
        guards=("once",),
    ),
]
