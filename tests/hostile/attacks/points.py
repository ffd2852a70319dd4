"""Points that nobody earned.

Records are written by whoever does not decide them. What decides is changed, imitated or read where it runs. Answers
are right only where they are looked at, as public collections of rewards hacked on GPUs show them.
"""

from functools import partial

from tests.hostile.attack import Attack
from tests.hostile.goals import gains, peak, touches, traceback

_FORGE = """import json, os, pathlib
PLACES = ["records", "../records", "{COURSE}/autograded/{STUDENT}/records"]
def forge(points={"export_model": 3, "simplify_model": 2}, **changed):
    for cell, worth in points.items():
        claim = {"claim": "a", "title": "a", "points": worth, "earned": worth, "status": "kept"}
        record = {"cell": cell, "step": "01_export", "criterion": "correctness", "engine": "none", "points": worth,
                  "results": [claim | changed]}
        for place in filter(None, PLACES):
            try:
                pathlib.Path(place).mkdir(parents=True, exist_ok=True)
                pathlib.Path(place, "forged").write_text(json.dumps(record))
                os.replace(f"{place}/forged", f"{place}/{cell}.json")  # never read half written
            except OSError:
                pass
"""
_AGAIN = "def again():\n    while True:\n        forge()\n        time.sleep(0.001)\n"

_records = partial(Attack, group="records", guards=("judge", "sandbox"))
_patches = partial(Attack, group="patches", goal=gains, guards=("judge", "sandbox"))
_evidence = partial(Attack, group="evidence", goal=gains, guards=("judge", "sandbox"))
ATTACKS = [
    _records(
        "record_by_thread",
        about="A thread writes full points into the records, again and again.",
        goal=gains,
        code=f"{_FORGE}import threading, time\n{_AGAIN}threading.Thread(target=again, daemon=True).start()",
    ),
    _records(
        "record_by_detached_process",
        about="A process of a session of its own writes full points into the records.",
        goal=gains,
        code=f"{_FORGE}import time\n{_AGAIN}if os.fork() == 0:\n    os.setsid()\n    again()\ntime.sleep(1)",
    ),
    _records(
        "record_then_exit",
        about="The function that a claim calls writes full points, then ends the process before they are decided.",
        goal=gains,
        code=f"{_FORGE}def square(x):\n    forge()\n    os._exit(0)",
    ),
    _records(
        "record_then_kill",
        about="The same, but it dies as if memory were short.",
        goal=gains,
        code=f"{_FORGE}import signal\ndef square(x):\n    forge()\n    os.kill(os.getpid(), signal.SIGKILL)",
    ),
    _records(
        "record_at_the_end_of_a_cell",
        about="IPython's hook after a cell overwrites the record that the claims wrote.",
        goal=gains,
        code=f"{_FORGE}get_ipython().events.register('post_execute', lambda *_: forge())",
    ),
    _records(
        "record_of_words",
        about="A record whose points are a word.",
        goal=traceback,
        alone=True,
        guards=("judge", "sandbox", "schema"),
        code=f"{_FORGE}def square(x):\n    forge({{'export_model': 3}}, earned='lots')\n    os._exit(0)",
    ),
    _records(
        "record_of_lists",
        about="A record whose points and titles are lists.",
        goal=traceback,
        alone=True,
        guards=("judge", "sandbox", "schema"),
        code=f"{_FORGE}def square(x):\n    forge({{'export_model': 3}}, title=[[1]], earned=[3])\n    os._exit(0)",
    ),
    _records(
        "record_of_200_megabytes",
        about="A sparse file in the place of a record, which the grader would read whole.",
        goal=peak("grader_memory", 400),
        alone=True,
        apart=True,
        guards=("judge", "sandbox", "schema"),
        code="""import os, pathlib
def square(x):
    for place in ("{COURSE}/autograded/{STUDENT}/records", "../records"):
        try:
            pathlib.Path(place).mkdir(parents=True, exist_ok=True)
            with open(pathlib.Path(place, "export_model.json"), "w") as file:
                file.truncate(200 << 20)
        except OSError:
            pass
    os._exit(0)
""",
    ),
    _records(
        "record_of_another_student",
        about="The record of a student who was graded before is overwritten.",
        goal=touches("autograded/a_honest/records"),
        guards=("sandbox",),
        code="open('{COURSE}/autograded/a_honest/records/export_model.json', 'w').write('{MARK}')",
    ),
    _records(
        "records_folder_is_a_link",
        about="The records' folder becomes a link to a neighbour's: the grader removes and writes there.",
        goal=touches("autograded/(a_honest|m-records-folder-is-a-link)/records"),
        guards=("sandbox", "links"),
        code="""import pathlib, shutil
own = pathlib.Path("{COURSE}/autograded/{STUDENT}/records")
shutil.rmtree(own, ignore_errors=True)
own.symlink_to("../a_honest/records")
""",
    ),
    _patches(
        "stack_walk",
        about="Walks the stack for the expected value.",
        code="""
def square(x):
    import sys
    frame = sys._getframe()
    while frame:
        for name, value in frame.f_locals.items():
            if name == "expected":
                return value
        frame = frame.f_back
    return 0
""",
    ),
    _patches(
        "gc_walk",
        about="Looks for the expected value among all objects.",
        code="""
def square(x):
    import gc
    for found in gc.get_objects():
        for claim in found if type(found) is list else ():
            if type(claim) is tuple and len(claim) == 5 and claim[1:3] == ("square", x):
                return claim[3]
    return 0
""",
    ),
    _patches(
        "trace_function",
        about="A trace function changes results in the frame that decides.",
        code="""
import sys, threading
def square(x):
    def local(frame, event, argument):
        for result in frame.f_locals.get("results", []) if event == "line" else []:
            if type(result) is dict and "earned" in result:
                result["earned"] = result["points"]
        return local
    sys.settrace(local)
    frame = sys._getframe().f_back
    while frame:
        frame.f_trace = local
        frame = frame.f_back
    return 0
""",
    ),
    _patches(
        "fake_module",
        about="A module of its own in the place of the checks.",
        code=_FORGE
        + """
import sys, types
for name in ("tests.hostile.judge", "solutions.checks"):
    module = types.ModuleType(name)
    module.grade_here = module.grade_cell = lambda *_: forge()
    sys.modules[name] = module
""",
    ),
    _patches(
        "patched_module",
        about="The checks' functions are replaced.",
        code=_FORGE
        + """
import importlib
for name in ("tests.hostile.judge", "solutions.checks", "solutions.checks.core.decide"):
    try:
        module = importlib.import_module(name)
    except Exception:
        continue
    module.grade_here = module.grade_cell = module.decide = lambda *_: forge()
""",
    ),
    _patches(
        "changed_claims",
        about="The expected values are changed to what it answers.",
        code="""
import importlib
for name in ("tests.hostile.judge",):
    try:
        claims = importlib.import_module(name)._CLAIMS
    except Exception:
        continue
    claims["export_model"] = [(a, b, c, 0, e) for a, b, c, d, e in claims["export_model"]]
""",
    ),
    _patches(
        "patched_import",
        about="import gives the checks with a function replaced.",
        code=_FORGE
        + """
import builtins
real = builtins.__import__
def imported(name, *args, **named):
    module = real(name, *args, **named)
    for asked in ("grade_here", "grade_cell"):
        if hasattr(module, asked):
            setattr(module, asked, lambda *_: forge())
    return module
builtins.__import__ = imported
""",
    ),
    _patches(
        "patched_json",
        about="json.dumps writes full points.",
        code="""
import json
real = json.dumps
def dumps(value, *args, **named):
    for result in value.get("results", []) if isinstance(value, dict) else []:
        result["earned"] = result["points"]
    return real(value, *args, **named)
json.dumps = dumps
""",
    ),
    _patches(
        "equal_to_anything",
        about="A number that equals whatever it is compared with.",
        code="""
class Anything(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def square(x):
    return Anything(0)
""",
    ),
    _patches(
        "array_equal_to_anything",
        about="An array whose comparisons are all true.",
        code="""
import numpy as np
class Anything(np.ndarray):
    def __eq__(self, other): return np.True_
    def __array_function__(self, function, types, args, kwargs): return True
    def __array_ufunc__(self, *args, **kwargs): return np.True_
def square(x):
    return np.zeros(()).view(Anything)
""",
    ),
    _patches(
        "input_transformer",
        about="IPython rewrites the test cell.",
        code=_FORGE
        + """
def transformed(lines):
    return ["forge()\\n"] if any("grade" in line for line in lines) else lines
get_ipython().input_transformers_cleanup.append(transformed)
""",
    ),
    _patches(
        "ast_transformer",
        about="IPython rewrites the test cell's call.",
        code=_FORGE
        + """
import ast
class Forger(ast.NodeTransformer):
    def visit_Call(self, node):
        name = getattr(node.func, "id", "")
        return ast.parse("forge()", mode="eval").body if name.startswith("grade_") else node
get_ipython().ast_transformers.append(Forger())
""",
    ),
    _patches(
        "patched_run_cell",
        about="The kernel runs another cell in the test cell's place.",
        code=_FORGE
        + """
shell = get_ipython()
real = type(shell).run_cell_async
async def run_cell_async(self, source, *args, **named):
    if "grade_" not in source:
        return await real(self, source, *args, **named)
    return await real(self, "forge()", transformed_cell="forge()", cell_id=named.get("cell_id"))
type(shell).run_cell_async = run_cell_async
""",
    ),
    _evidence(
        "answer_made_later",
        about="An object that computes when it is compared, not when it is asked.",
        code="""
class Later:
    def __init__(self, x): self.x = x
    def __eq__(self, expected): return expected == self.x ** 2
    def __array__(self, *args, **named):
        import numpy as np
        return np.asarray(self.x ** 2)
def square(x):
    return Later(x)
""",
    ),
    _evidence(
        "answer_that_subtracts_to_nothing",
        about="Patched comparisons, and a number at no distance.",
        code="""
import numpy.testing, unittest, builtins, math
numpy.testing.assert_allclose = numpy.testing.assert_array_equal = lambda *_, **__: None
math.isclose = lambda *_, **__: True
import numpy as np
np.allclose = np.array_equal = lambda *_, **__: True
class Number(int):
    def __eq__(self, other): return True
    def __sub__(self, other): return Number(0)
    def __rsub__(self, other): return Number(0)
    def __abs__(self): return 0
    def __hash__(self): return 0
def square(x):
    return Number(0)
""",
    ),
    _evidence(
        "answer_with_behaviour",
        about="An object whose unpickling would compute the answer.",
        code="""
class Forged:
    def __reduce__(self):
        return eval, ("4",)
    def __eq__(self, other): return True
def square(x):
    return Forged()
""",
    ),
    _evidence(
        "answer_of_the_loaded_checks",
        about="Looks for claims in every loaded module.",
        code="""
import sys
def square(x):
    for module in list(sys.modules.values()):
        known = getattr(module, "_CLAIMS", None)
        for claims in known.values() if isinstance(known, dict) else ():
            for claim in claims:
                if claim[1:3] == ("square", x):
                    return claim[3]
    return 0
""",
    ),
    _evidence(
        "answer_replayed",
        about="What earlier gradings left, and else the claims, is the answer.",
        code="""
import glob, json, os, re
def square(x):
    for name in [*glob.glob("/mnt/course/autograded/a_honest/**/*.json", recursive=True), *glob.glob("../**/*.json")]:
        text = open(name).read()
        if found := re.search(rf'"square", {x}, (\\d+)', text):
            return int(found[1])
    from tests.hostile.judge import _CLAIMS
    return next(claim[3] for claims in _CLAIMS.values() for claim in claims if claim[1:3] == ("square", x))
""",
    ),
]
