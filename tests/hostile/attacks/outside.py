"""What lies outside the sandbox.

Files are read for an answer or a secret, and written for points or for harm. Somebody outside is told something. The
tool, trtlab, holds the answers to most tasks: it is imported by its name and by the place of its files, and read.
"""

import shutil
from functools import partial
from pathlib import Path

from tests.grading.tiny import STEP
from tests.hostile.attack import Attack
from tests.hostile.course import NOTEBOOK
from tests.hostile.goals import ended, gains, heard, leaks, touches
from tests.hostile.outer import SITE

_GRADEBOOK = 'import sqlite3\nbase = sqlite3.connect("{COURSE}/gradebook.db", timeout=5)\n'


def _linked(own: Path, name: str, target: str) -> None:
    (own / name).unlink(missing_ok=True)
    (own / name).symlink_to(target)


def _folder_link(own: Path) -> None:
    shutil.rmtree(own.parent)
    own.parent.symlink_to("a_honest")


def _in_the_exchange(own: Path) -> None:
    """Hand in a neighbour's submission as nbgrader does, before it is collected."""
    inbound = SITE / "nbgrader" / "exchange" / "trt-lab" / "inbound" / f"a_honest+{STEP}+2026-11-28"
    shutil.copytree(own.parents[1] / "a_honest" / STEP, inbound)


def _writes(name: str, path: str, about: str, mode: str = "w") -> Attack:
    code = (
        f"import os\nos.makedirs(os.path.dirname('{path}'), exist_ok=True)\nopen('{path}', '{mode}').write('{{MARK}}')"
    )
    goal = touches(path.replace("{COURSE}", "course").replace("{HOME}", "home"))
    return _files(name, about=about, goal=goal, code=code)


def _sends(family: str, kind: str, address: str) -> str:
    return (
        f"import socket\nouter = socket.socket(socket.{family}, socket.{kind})\nouter.settimeout(5)\n"
        f"outer.connect({address})\nouter.send(b'{{STUDENT}}')\nouter.close()"
    )


_files = partial(Attack, group="files", guards=("sandbox",))
_network = partial(Attack, group="network", goal=heard, guards=("sandbox",))
_tool_imported = partial(Attack, group="tool_imported", guards=("sandbox",), goal=gains)
_tool_read = partial(Attack, group="tool_read", guards=("sandbox",), goal=gains)
ATTACKS = [
    _files(
        "gradebook_triggers",
        about="SQL gives ten extra points.",
        goal=gains,
        alone=True,
        code=_GRADEBOOK
        + """
for event in ("INSERT", "UPDATE"):
    base.execute(f"CREATE TRIGGER t{event} AFTER {event} ON grade WHEN coalesce(NEW.extra_credit, 0) = 0 "
                 "BEGIN UPDATE grade SET extra_credit = 10 WHERE id = NEW.id; END")
base.commit()
""",
    ),
    _files(
        "gradebook_emptied",
        about="SQL drops the table of grades.",
        goal=ended,
        alone=True,
        code=_GRADEBOOK + "base.execute('DROP TABLE grade')\nbase.commit()",
    ),
    _files(
        "gradebook_garbage",
        about="The gradebook is overwritten.",
        goal=ended,
        alone=True,
        code="open('{COURSE}/gradebook.db', 'w').write('{MARK}' * 1000)",
    ),
    _files(
        "gradebook_deleted",
        about="The gradebook is removed.",
        goal=ended,
        alone=True,
        code="import os\nos.unlink('{COURSE}/gradebook.db')",
    ),
    _files(
        "gradebook_locked",
        about="A process that goes on holds the gradebook's lock.",
        goal=ended,
        alone=True,
        code=_GRADEBOOK
        + "import os, time\nif os.fork() == 0:\n    os.setsid()\n    base = sqlite3.connect('{COURSE}/gradebook.db')\n"
        "    base.execute('BEGIN EXCLUSIVE')\n    time.sleep(600)",
    ),
    _files(
        "later_submission_replaced",
        about="The notebook of a student who is graded later is replaced.",
        goal=ended,
        alone=True,
        code="open('{COURSE}/submitted/z_honest/01_export/01_export.ipynb', 'w').write('{MARK}')",
    ),
    _files(
        "later_submission_renamed",
        about="The folder of a student who is graded later gets another name.",
        goal=ended,
        alone=True,
        code="import os\nos.rename('{COURSE}/submitted/z_honest', '{COURSE}/submitted/zz')",
    ),
    _files(
        "solution_read",
        about="The solution in the course's folder is the answer.",
        goal=gains,
        code="""
import json
cells = json.load(open("{COURSE}/solutions/01_export/01_export.ipynb"))["cells"]
answer = next(cell["source"] for cell in cells if "def square" in "".join(cell["source"]))
given = {}
exec("".join(answer), given)
square = given["square"]
""",
    ),
    _files(
        "neighbour_read",
        about="A neighbour's submission is the answer.",
        goal=gains,
        code="""
import json
cells = json.load(open("{COURSE}/submitted/a_honest/01_export/01_export.ipynb"))["cells"]
CODE = next("".join(cell["source"]) for cell in cells if "def square" in "".join(cell["source"]))
def square(x):
    given = {}
    exec(CODE, given)
    return given["square"](x)
""",
    ),
    _files(
        "exchange_read",
        about="A neighbour's submission in nbgrader's exchange is the answer.",
        goal=gains,
        code="""
import glob, json
(path,) = glob.glob("/usr/local/share/nbgrader/exchange/trt-lab/inbound/a_honest+*/01_export.ipynb")
cells = json.load(open(path))["cells"]
CODE = next("".join(cell["source"]) for cell in cells if "def square" in "".join(cell["source"]))
def square(x):
    given = {}
    exec(CODE, given)
    return given["square"](x)
""",
        place=_in_the_exchange,
    ),
    _files(
        "checks_read",
        about="The hidden checks' expected values are the answer.",
        goal=gains,
        code="""
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
""",
        guards=("sandbox", "judge"),
    ),
    _files(
        "submission_links_to_the_solution",
        about="The notebook that is handed in is a link to the solution.",
        goal=gains,
        place=partial(_linked, name=NOTEBOOK, target=f"../../../solutions/{STEP}/{NOTEBOOK}"),
        guards=("links",),
        says="link",
    ),
    _files(
        "folder_links_to_a_neighbour",
        about="The folder that is handed in is a link to a neighbour's.",
        goal=gains,
        place=_folder_link,
        guards=("links",),
        says="link",
    ),
    _files(
        "file_links_to_a_secret",
        about="A file beside the notebook is a link to the grader's key, and the notebook prints it.",
        goal=leaks,
        place=partial(_linked, name="secret.txt", target="../../../../home/.ssh/id"),
        code="print(open('secret.txt').read())",
        guards=("links", "sandbox"),
    ),
    _files("home_secret", about="Prints the grader's key.", goal=leaks, code="print(open('{HOME}/.ssh/id').read())"),
    _files(
        "environment_secret",
        about="Prints the environment.",
        goal=leaks,
        code="import os\nprint(dict(os.environ))",
    ),
    _files(
        "autograded_notebook_is_a_link",
        about="The graded notebook becomes a link, and the grader writes over its target.",
        goal=touches("home/thesis.txt"),
        code="""
import os
folder = "{COURSE}/autograded/{STUDENT}/01_export"
name = f"{folder}/01_export.ipynb"
os.makedirs(folder, exist_ok=True)
if os.path.lexists(name):
    os.unlink(name)
os.symlink("{HOME}/thesis.txt", name)
""",
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
    _files(
        "temporary_file_written",
        about="A file in the grader's temporary folder.",
        goal=touches("tmp/left-behind"),
        code="for place in ('/tmp', '/mnt/tmp'):\n    try:\n        open(f'{place}/left-behind', 'w').write('{MARK}')\n"
        "    except OSError:\n        pass",
    ),
    _network("tcp", about="A TCP connection.", code=_sends("AF_INET", "SOCK_STREAM", "('127.0.0.1', 45450)")),
    _network("udp", about="A datagram.", code=_sends("AF_INET", "SOCK_DGRAM", "('127.0.0.1', 45450)")),
    _network(
        "http",
        about="A request of a web page.",
        code="""
import urllib.request
urllib.request.urlopen("http://localhost:45450", data=b"{STUDENT}", timeout=5)
""",
    ),
    _network("abstract_socket", about="A Unix socket by name.", code=_sends("AF_UNIX", "SOCK_STREAM", "'\\0hostile'")),
    _network(
        "socket_in_the_home",
        about="A Unix socket by path, such as the agent's that holds keys.",
        code=_sends("AF_UNIX", "SOCK_STREAM", "'{HOME}/agent.sock'"),
    ),
    _network(
        "datagram_in_the_home",
        about="A datagram to a Unix socket by path, such as the machine's log.",
        code=_sends("AF_UNIX", "SOCK_DGRAM", "'{HOME}/log.sock'"),
    ),
    _network(
        "datagram_of_a_pair",
        about="The same from a pair of sockets, which nobody has to connect.",
        code="import socket\nsocket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'{STUDENT}', '{HOME}/log.sock')",
    ),
    _network(
        "neighbours_sockets",
        about="Every Unix socket that the system lists, others' kernels' too.",
        code="""
import re, socket
for path in set(re.findall(r"(/\\S+)$", open("/proc/self/net/unix").read(), re.M)):
    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(5)
            other.connect(path)
            other.send(b"{STUDENT}")
    except OSError:
        pass
""",
    ),
    _tool_imported(
        "trtlab_imported",
        about="The tool's build is imported by its name.",
        code="""
def square(x):
    import importlib
    try:
        importlib.import_module("trtlab.building.build")
    except ImportError:
        return 0
    return x * x
""",
    ),
    _tool_imported(
        "trtlab_found",
        about="A module of the tool is loaded from where its file lies.",
        code="""
def square(x):
    import importlib.util, pathlib, helpers
    path = pathlib.Path(helpers.__file__).parents[1] / "trtlab" / "stats.py"
    spec = importlib.util.spec_from_file_location("found_stats", path)
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except OSError:
        return 0
    return x * x
""",
    ),
    _tool_read(
        "trtlab_read",
        about="The tool's calibration is read as text.",
        code="""
def square(x):
    import pathlib, helpers
    folder = pathlib.Path(helpers.__file__).parents[1] / "trtlab"
    try:
        text = (folder / "building" / "calibration.py").read_text()
    except OSError:
        return 0
    return x * x if "class " in text else 0
""",
    ),
    _tool_read(
        "trtlab_linked",
        about="The tool's folder is listed through a link.",
        code="""
def square(x):
    import os, pathlib, helpers
    link = pathlib.Path("answers")
    link.is_symlink() or link.symlink_to(pathlib.Path(helpers.__file__).parents[1] / "trtlab")
    try:
        return x * x if os.listdir(link) else 0
    except OSError:
        return 0
""",
    ),
]
