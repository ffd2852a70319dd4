"""Records of test cells, written by whoever does not decide them."""

from functools import partial

from tests.hostile.attack import Attack
from tests.hostile.goals import gains, grader_memory, touches, traceback

FORGE = """import json, os, pathlib
PLACES = ["records", "../records", "{COURSE}/autograded/{STUDENT}/records"]
def forge(points={"export_model": 3, "simplify_model": 2}, **changed):
    for cell, worth in points.items():
        claim = {"claim": "a", "title": "a", "points": worth, "earned": worth, "status": "kept"}
        record = {"cell": cell, "step": "01_export", "criterion": "correctness", "engine": "none", "points": worth,
                  "results": [claim | changed]}
        for place in filter(None, PLACES):
            try:
                pathlib.Path(place).mkdir(parents=True, exist_ok=True)
                pathlib.Path(place, f"{cell}.json").write_text(json.dumps(record))
            except OSError:
                pass
"""
_SPARSE = """import os, pathlib
def square(x):
    for place in ("{COURSE}/autograded/{STUDENT}/records", "../records"):
        try:
            pathlib.Path(place).mkdir(parents=True, exist_ok=True)
            with open(pathlib.Path(place, "export_model.json"), "w") as file:
                file.truncate(200 << 20)
        except OSError:
            pass
    os._exit(0)
"""
_AGAIN = "def again():\n    while True:\n        forge()\n        time.sleep(0.001)\n"
_LINK = """import pathlib, shutil
own = pathlib.Path("{COURSE}/autograded/{STUDENT}/records")
shutil.rmtree(own, ignore_errors=True)
own.symlink_to("../a_honest/records")
"""

_attack = partial(Attack, group="records", guards=("judge", "sandbox"))
ATTACKS = [
    _attack(
        "record_by_thread",
        about="A thread writes full points into the records, again and again.",
        goal=gains,
        code=f"{FORGE}import threading, time\n{_AGAIN}threading.Thread(target=again, daemon=True).start()",
    ),
    _attack(
        "record_by_detached_process",
        about="A process of a session of its own writes full points into the records.",
        goal=gains,
        code=f"{FORGE}import time\n{_AGAIN}if os.fork() == 0:\n    os.setsid()\n    again()\ntime.sleep(1)",
    ),
    _attack(
        "record_then_exit",
        about="The function that a claim calls writes full points, then ends the process before they are decided.",
        goal=gains,
        code=f"{FORGE}def square(x):\n    forge()\n    os._exit(0)",
    ),
    _attack(
        "record_then_kill",
        about="The same, but it dies as if memory were short.",
        goal=gains,
        code=f"{FORGE}import signal\ndef square(x):\n    forge()\n    os.kill(os.getpid(), signal.SIGKILL)",
    ),
    _attack(
        "record_at_the_end_of_a_cell",
        about="IPython's hook after a cell overwrites the record that the claims wrote.",
        goal=gains,
        code=f"{FORGE}get_ipython().events.register('post_execute', lambda *_: forge())",
    ),
    _attack(
        "record_of_words",
        about="A record whose points are a word.",
        goal=traceback,
        alone=True,
        guards=("judge", "sandbox", "schema"),
        code=f"{FORGE}def square(x):\n    forge({{'export_model': 3}}, earned='lots')\n    os._exit(0)",
    ),
    _attack(
        "record_of_lists",
        about="A record whose points and titles are lists.",
        goal=traceback,
        alone=True,
        guards=("judge", "sandbox", "schema"),
        code=f"{FORGE}def square(x):\n    forge({{'export_model': 3}}, title=[[1]], earned=[3])\n    os._exit(0)",
    ),
    _attack(
        "record_of_200_megabytes",
        about="A sparse file in the place of a record, which the grader would read whole.",
        goal=grader_memory(400),
        alone=True,
        apart=True,
        guards=("judge", "sandbox", "schema"),
        code=_SPARSE,
    ),
    _attack(
        "record_of_another_student",
        about="The record of a student who was graded before is overwritten.",
        goal=touches("autograded/a_honest/records"),
        guards=("sandbox",),
        code="open('{COURSE}/autograded/a_honest/records/export_model.json', 'w').write('{MARK}')",
    ),
    _attack(
        "records_folder_is_a_link",
        about="The records' folder becomes a link to a neighbour's: the grader removes and writes there.",
        goal=touches("autograded/(a_honest|m-records-folder-is-a-link)/records"),
        guards=("sandbox", "links"),
        code=_LINK,
    ),
]
