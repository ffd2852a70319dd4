"""Files outside the scratch: read for an answer or a secret, written for points or for harm."""

import shutil
from functools import partial
from pathlib import Path

from tests.grading.tiny import STEP
from tests.hostile.attack import Attack
from tests.hostile.goals import ended, gains, leaks, touches
from tests.hostile.outer import SITE

_GRADEBOOK = 'import sqlite3\nbase = sqlite3.connect("{COURSE}/gradebook.db", timeout=5)\n'
_TRIGGERS = """
for event in ("INSERT", "UPDATE"):
    base.execute(f"CREATE TRIGGER t{event} AFTER {event} ON grade WHEN coalesce(NEW.extra_credit, 0) = 0 "
                 "BEGIN UPDATE grade SET extra_credit = 10 WHERE id = NEW.id; END")
base.commit()
"""
_SOLUTION = """
import json
cells = json.load(open("{COURSE}/solutions/01_export/01_export.ipynb"))["cells"]
answer = next(cell["source"] for cell in cells if "def square" in "".join(cell["source"]))
given = {}
exec("".join(answer), given)
square = given["square"]
"""
_NEIGHBOUR = """
import json
cells = json.load(open("{COURSE}/submitted/a_honest/01_export/01_export.ipynb"))["cells"]
CODE = next("".join(cell["source"]) for cell in cells if "def square" in "".join(cell["source"]))
def square(x):
    given = {}
    exec(CODE, given)
    return given["square"](x)
"""
_EXCHANGE = """
import glob, json
(path,) = glob.glob("/usr/local/share/nbgrader/exchange/trt-lab/inbound/a_honest+*/01_export.ipynb")
cells = json.load(open(path))["cells"]
CODE = next("".join(cell["source"]) for cell in cells if "def square" in "".join(cell["source"]))
def square(x):
    given = {}
    exec(CODE, given)
    return given["square"](x)
"""
_CHECKS = """
def square(x):
    import importlib
    for name in ("tests.hostile.judge",):
        try:
            for claims in importlib.import_module(name)._CLAIMS.values():
                for _, function, argument, expected, _ in claims:
                    if function == "square" and argument == x:
                        return expected
        except ImportError:
            continue
    return 0
"""
_LINKED_NOTEBOOK = """
import os
folder = "{COURSE}/autograded/{STUDENT}/01_export"
name = f"{folder}/01_export.ipynb"
os.makedirs(folder, exist_ok=True)
if os.path.lexists(name):
    os.unlink(name)
os.symlink("{HOME}/thesis.txt", name)
"""


def _link_to_solution(course: Path, student: str) -> None:
    notebook = course / "submitted" / student / STEP / f"{STEP}.ipynb"
    notebook.unlink()
    notebook.symlink_to(f"../../../solutions/{STEP}/{STEP}.ipynb")


def _folder_link(course: Path, student: str) -> None:
    shutil.rmtree(course / "submitted" / student)
    (course / "submitted" / student).symlink_to("a_honest")


def _in_the_exchange(course: Path, student: str) -> None:
    """Hand in a neighbour's submission as nbgrader does, before it is collected."""
    inbound = SITE / "nbgrader" / "exchange" / "trt-lab" / "inbound" / f"a_honest+{STEP}+2026-11-28"
    shutil.copytree(course / "submitted" / "a_honest" / STEP, inbound)


def _linked_file(course: Path, student: str) -> None:
    (course / "submitted" / student / STEP / "secret.txt").symlink_to("../../../../home/.ssh/id")


def _writes(name: str, path: str, about: str, mode: str = "w", guards: tuple[str, ...] = ("sandbox",)) -> Attack:
    code = (
        f"import os\nos.makedirs(os.path.dirname('{path}'), exist_ok=True)\nopen('{path}', '{mode}').write('{{MARK}}')"
    )
    goal = touches(path.replace("{COURSE}", "course").replace("{HOME}", "home"))
    return _attack(name, about=about, goal=goal, code=code, guards=guards)


_attack = partial(Attack, group="files", guards=("sandbox",))
ATTACKS = [
    _attack(
        "gradebook_triggers",
        about="SQL gives ten extra points.",
        goal=gains,
        alone=True,
        code=_GRADEBOOK + _TRIGGERS,
    ),
    _attack(
        "gradebook_emptied",
        about="SQL drops the table of grades.",
        goal=ended,
        alone=True,
        code=_GRADEBOOK + "base.execute('DROP TABLE grade')\nbase.commit()",
    ),
    _attack(
        "gradebook_garbage",
        about="The gradebook is overwritten.",
        goal=ended,
        alone=True,
        code="open('{COURSE}/gradebook.db', 'w').write('{MARK}' * 1000)",
    ),
    _attack(
        "gradebook_deleted",
        about="The gradebook is removed.",
        goal=ended,
        alone=True,
        code="import os\nos.unlink('{COURSE}/gradebook.db')",
    ),
    _attack(
        "gradebook_locked",
        about="A process that goes on holds the gradebook's lock.",
        goal=ended,
        alone=True,
        code=_GRADEBOOK
        + "import os, time\nif os.fork() == 0:\n    os.setsid()\n    base = sqlite3.connect('{COURSE}/gradebook.db')\n"
        "    base.execute('BEGIN EXCLUSIVE')\n    time.sleep(600)",
    ),
    _attack(
        "later_submission_replaced",
        about="The notebook of a student who is graded later is replaced.",
        goal=ended,
        alone=True,
        code="open('{COURSE}/submitted/z_honest/01_export/01_export.ipynb', 'w').write('{MARK}')",
    ),
    _attack(
        "later_submission_renamed",
        about="The folder of a student who is graded later gets another name.",
        goal=ended,
        alone=True,
        code="import os\nos.rename('{COURSE}/submitted/z_honest', '{COURSE}/submitted/zz')",
    ),
    _attack("solution_read", about="The solution in the course's folder is the answer.", goal=gains, code=_SOLUTION),
    _attack("neighbour_read", about="A neighbour's submission is the answer.", goal=gains, code=_NEIGHBOUR),
    _attack(
        "exchange_read",
        about="A neighbour's submission in nbgrader's exchange is the answer.",
        goal=gains,
        code=_EXCHANGE,
        place=_in_the_exchange,
    ),
    _attack(
        "checks_read",
        about="The hidden checks' expected values are the answer.",
        goal=gains,
        code=_CHECKS,
        guards=("sandbox", "judge"),
    ),
    _attack(
        "submission_links_to_the_solution",
        about="The notebook that is handed in is a link to the solution.",
        goal=gains,
        place=_link_to_solution,
        guards=("links",),
        says="link",
    ),
    _attack(
        "folder_links_to_a_neighbour",
        about="The folder that is handed in is a link to a neighbour's.",
        goal=gains,
        place=_folder_link,
        guards=("links",),
        says="link",
    ),
    _attack(
        "file_links_to_a_secret",
        about="A file beside the notebook is a link to the grader's key, and the notebook prints it.",
        goal=leaks,
        place=_linked_file,
        code="print(open('secret.txt').read())",
        guards=("links", "sandbox"),
    ),
    _attack("home_secret", about="Prints the grader's key.", goal=leaks, code="print(open('{HOME}/.ssh/id').read())"),
    _attack(
        "environment_secret",
        about="Prints the environment.",
        goal=leaks,
        code="import os\nprint(dict(os.environ))",
    ),
    _attack(
        "autograded_notebook_is_a_link",
        about="The graded notebook becomes a link, and the grader writes over its target.",
        goal=touches("home/thesis.txt"),
        code=_LINKED_NOTEBOOK,
        guards=("sandbox", "links"),
    ),
    _writes("grades_written", "{COURSE}/grades_final.csv", "A file of grades beside the grader's."),
    _writes("feedback_written", "{COURSE}/feedback/a_honest/01_export/01_export.html", "A neighbour's feedback."),
    _writes("journal_written", "{COURSE}/autograded/a_honest/graded.json", "A neighbour's journal."),
    _writes("config_written", "{COURSE}/nbgrader_config.py", "The course's configuration.", "a"),
    _writes("solution_written", "{COURSE}/solutions/01_export/notes.txt", "A file among the solutions."),
    _writes("startup_written", "{HOME}/.ipython/profile_default/startup/0.py", "What every later kernel runs."),
    _writes("profile_written", "{HOME}/.profile", "What the grader's shell runs.", "a"),
    _writes("user_site_written", "{HOME}/.local/lib/python3/site-packages/usercustomize.py", "What each Python runs."),
    _writes("jupyter_config_written", "{HOME}/.jupyter/jupyter_config.py", "What Jupyter runs."),
    _writes("shared_memory_written", "/dev/shm/left-behind", "A file in the machine's shared memory."),
    _attack(
        "temporary_file_written",
        about="A file in the grader's temporary folder.",
        goal=touches("tmp/left-behind"),
        code="for place in ('/tmp', '/mnt/tmp'):\n    try:\n        open(f'{place}/left-behind', 'w').write('{MARK}')\n"
        "    except OSError:\n        pass",
    ),
]
