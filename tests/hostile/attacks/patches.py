"""What decides is changed, imitated or read where it runs: claims, comparisons, clocks, IPython."""

from functools import partial

from tests.hostile.attack import Attack
from tests.hostile.attacks.records import FORGE
from tests.hostile.goals import gains

_WITH_ANSWERS = """
def square(x):
    import sys
    frame = sys._getframe()
    while frame:
        for name, value in frame.f_locals.items():
            if name == "expected":
                return value
        frame = frame.f_back
    return 0
"""
_GC = """
def square(x):
    import gc
    for found in gc.get_objects():
        for claim in found if type(found) is list else ():
            if type(claim) is tuple and len(claim) == 5 and claim[1:3] == ("square", x):
                return claim[3]
    return 0
"""
_TRACE = """
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
"""
_FAKE_MODULE = """
import sys, types
for name in ("tests.hostile.judge", "solutions.checks"):
    module = types.ModuleType(name)
    module.grade_here = module.grade_cell = lambda *_: forge()
    sys.modules[name] = module
"""
_PATCHED_MODULE = """
import importlib
for name in ("tests.hostile.judge", "solutions.checks", "solutions.checks.core.decide"):
    try:
        module = importlib.import_module(name)
    except Exception:
        continue
    module.grade_here = module.grade_cell = module.decide = lambda *_: forge()
"""
_CLAIMS_CHANGED = """
import importlib
for name in ("tests.hostile.judge",):
    try:
        claims = importlib.import_module(name)._CLAIMS
    except Exception:
        continue
    claims["export_model"] = [(a, b, c, 0, e) for a, b, c, d, e in claims["export_model"]]
"""
_DUMPS = """
import json
real = json.dumps
def dumps(value, *args, **named):
    for result in value.get("results", []) if isinstance(value, dict) else []:
        result["earned"] = result["points"]
    return real(value, *args, **named)
json.dumps = dumps
"""
_BUILTIN = """
import builtins
real = builtins.sum
builtins.sum = lambda values, *rest: 3.0 if "earned" in str(getattr(values, "gi_code", "")) else real(values, *rest)
"""
_EQUAL = """
class Anything(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def square(x):
    return Anything(0)
"""
_ARRAY = """
import numpy as np
class Anything(np.ndarray):
    def __eq__(self, other): return np.True_
    def __array_function__(self, function, types, args, kwargs): return True
    def __array_ufunc__(self, *args, **kwargs): return np.True_
def square(x):
    return np.zeros(()).view(Anything)
"""
_TRANSFORMER = """
def transformed(lines):
    return ["forge()\\n"] if any("grade" in line for line in lines) else lines
get_ipython().input_transformers_cleanup.append(transformed)
"""
_AST = """
import ast
class Forger(ast.NodeTransformer):
    def visit_Call(self, node):
        name = getattr(node.func, "id", "")
        return ast.parse("forge()", mode="eval").body if name.startswith("grade_") else node
get_ipython().ast_transformers.append(Forger())
"""
_RUN_CELL = """
shell = get_ipython()
real = type(shell).run_cell_async
async def run_cell_async(self, source, *args, **named):
    if "grade_" not in source:
        return await real(self, source, *args, **named)
    return await real(self, "forge()", transformed_cell="forge()", cell_id=named.get("cell_id"))
type(shell).run_cell_async = run_cell_async
"""
_IMPORTS = """
import builtins
real = builtins.__import__
def imported(name, *args, **named):
    module = real(name, *args, **named)
    for asked in ("grade_here", "grade_cell"):
        if hasattr(module, asked):
            setattr(module, asked, lambda *_: forge())
    return module
builtins.__import__ = imported
"""


_attack = partial(Attack, group="patches", goal=gains, guards=("judge", "sandbox"))
ATTACKS = [
    _attack("stack_walk", about="Walks the stack for the expected value.", code=_WITH_ANSWERS),
    _attack("gc_walk", about="Looks for the expected value among all objects.", code=_GC),
    _attack("trace_function", about="A trace function changes results in the frame that decides.", code=_TRACE),
    _attack("fake_module", about="A module of its own in the place of the checks.", code=FORGE + _FAKE_MODULE),
    _attack("patched_module", about="The checks' functions are replaced.", code=FORGE + _PATCHED_MODULE),
    _attack("changed_claims", about="The expected values are changed to what it answers.", code=_CLAIMS_CHANGED),
    _attack("patched_import", about="import gives the checks with a function replaced.", code=FORGE + _IMPORTS),
    _attack("patched_json", about="json.dumps writes full points.", code=_DUMPS),
    _attack("equal_to_anything", about="A number that equals whatever it is compared with.", code=_EQUAL),
    _attack("array_equal_to_anything", about="An array whose comparisons are all true.", code=_ARRAY),
    _attack("input_transformer", about="IPython rewrites the test cell.", code=FORGE + _TRANSFORMER),
    _attack("ast_transformer", about="IPython rewrites the test cell's call.", code=FORGE + _AST),
    _attack("patched_run_cell", about="The kernel runs another cell in the test cell's place.", code=FORGE + _RUN_CELL),
]
