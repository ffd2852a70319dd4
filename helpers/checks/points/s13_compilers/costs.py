"""What is asked of compile_seconds, build_plan and break_even."""

import math

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s06_benchmark.timing import ATTEMPTS
from helpers.checks.points.s13_compilers.probes import Answered, Value, answer_first, break_evens, build_plans
from helpers.checks.probes.builds import plan_facts
from helpers.checks.probes.student import one_each
from helpers.toys.networks import EDGE, tiny_onnx

_SIMULATED = Reported("when the simulated compiler works, and how often it is called: in the student's process")

COMPILE, PLAN, BREAK_EVEN = "compile_seconds", "build_plan", "break_even"
_TOLERANCE = 0.02
_BATCH = 2


def _answered(case: Case, made_early: bool, attempt: int = 0) -> tuple[Answered, float]:
    """Return what answer_first gives for a compiler that works in make, or at the first call; and the truth."""
    random = case.random(f"compilers.first {made_early}")
    long, short = random.uniform(1.0, 2.0), random.uniform(0.1, 0.2)
    make_s, first_s = (long, short) if made_early else (short, long)
    asked = {"make_s": make_s, "first_s": first_s, "later_s": short / 4}
    found = case.call(answer_first, **asked, patience_s=15.0, attempt=attempt).require(COMPILE)
    if found["stopped"]:
        raise Missed(f"{COMPILE} to return", "still calling the network", "make it once, call it once")
    return found, make_s + first_s


@point("The seconds are those until the first answer, whenever the compiler works", _SIMULATED)
def first_answer(case: Case) -> str:
    said = []
    for made_early in (True, False):
        for attempt in range(ATTEMPTS):
            found, truth = _answered(case, made_early, attempt)
            right = found["seconds"] is not None and abs(found["seconds"] / truth - 1) < _TOLERANCE
            if right or found["simulated"]:
                break
        if not right:
            when = "before make returns" if made_early else "at the network's first call"
            value = found["seconds"]
            text = f"{value:.6g}" if value is not None else f"no number of seconds in a {found['returned']}"
            advice = "one clock around both: make(), and the first call of what it returns; in seconds"
            raise Missed(f"{truth:.3f} s of a compiler that works {when}", text, advice)
        said.append(f"{found['seconds']:.3f} s of {truth:.3f}")
    return "; ".join(said)


@point("The network is made once, called once with first_input, and returned", _SIMULATED)
def made_once(case: Case) -> str:
    found, _ = _answered(case, False)
    if found["made"] != 1 or len(found["inputs"]) != 1:
        text = f"made {found['made']} times, called {len(found['inputs'])} times"
        raise Missed("a network that is made once and called once", text, "keep what make returns, and call that")
    if not found["inputs"][0]:
        raise Missed("a call with first_input itself", "another object", "pass it on as it is")
    if not found["same"]:
        text = f"a {found['returned']} without it"
        raise Missed("two things: the seconds, and the network that make returned", text, "return seconds, network")
    return "made once, called once, returned"


@point("The engine is the file's, with FP16 allowed where half is true and only there")
def plans(case: Case) -> str:
    onnx = tiny_onnx(case.number("compilers.plan"), batch=_BATCH)
    found = case.call(build_plans, onnx=onnx, broken=builders.NO_MODEL).require(PLAN)
    for name, half in (("plain", False), ("half", True)):
        built = found[name]
        what = f"{PLAN}(onnx_path, {half})"
        facts = plan_facts(built["plan"]) if built["plan"] else None
        if facts is None:
            advice = "return what build_serialized_network gives"
            raise Missed(f"{what} to return a serialized engine", f"a {built['type']}", advice)
        if not built["builds"]:
            raise Missed(f"{what} to build", "no build", "build at each call")
        flag = built["builds"][-1]["flags"]["FP16"]
        if flag != half:
            text = f"FP16 {'allowed' if flag else 'not allowed'}"
            raise Missed(
                f"{what} with FP16 {'allowed' if half else 'not allowed'}", text, "look at `half` for the flag"
            )
        shape = facts["inputs"].get("input", {}).get("shape")
        if shape != [_BATCH, 3, EDGE, EDGE]:
            expected = f"{what} to take the file's [{_BATCH}, 3, {EDGE}, {EDGE}]"
            raise Missed(expected, f"{shape}", "leave the network as it was parsed")
    ways = {
        "broken": ("a file that is no ONNX model", "parser.parse"),
        "unbuilt": ("a build that gives None", "the build"),
    }
    for name, (what, call) in ways.items():
        raised = found[name]
        if raised["type"] != "RuntimeError":
            text = f"{raised['type']}: {raised['message'][:100]}" if raised["type"] else "no exception"
            raise Missed(f"a RuntimeError for {what}", text, f"look at what {call} returns")
    return f"FP16 only where asked for; {found['broken']['message'][:80]}"


def _asked(case: Case) -> list[tuple[float, float, float]]:
    """Return arguments of break_even that have an answer; the first ones fit a whole number exactly."""
    random = case.random("compilers.break even")
    exact = [(float(random.integers(2, 9)), 4.0, 8.0), (0.5, 1.0, 1.5), (0.0, 1.0, 2.0)]
    more = [(random.uniform(1, 90), ms := random.uniform(0.5, 5), ms * random.uniform(1.2, 9)) for _ in range(5)]
    return [*exact, (0.001, 1.0, 1000.0), *more]


def _says(case: Case, asked: list[tuple[float, float, float]]) -> list[Value]:
    return one_each(case.call(break_evens, asked=[list(each) for each in asked]).require(BREAK_EVEN), asked)


@point("The number of calls is the least after which compiling has paid off")
def paid_off(case: Case) -> str:
    asked = _asked(case)
    for (seconds, ms, baseline), found in zip(asked, _says(case, asked), strict=True):
        truth = math.ceil(seconds * 1e3 / (baseline - ms))
        if found["value"] != truth:
            text = f"{found['value']:,}" if found["value"] is not None else f"a {found['type']}"
            call = f"{BREAK_EVEN}({seconds:.4g}, {ms:.4g}, {baseline:.4g})"
            advice = "milliseconds over what one call saves; the next whole number, where it is none"
            raise Missed(f"{truth:,} calls from {call}", text, advice)
    return f"{len(asked)} cases"


@point("Where it never pays off, the answer is None")
def never(case: Case) -> str:
    random = case.random("compilers.never")
    asked = [(2.0, 8.0, 8.0), (random.uniform(1, 9), ms := random.uniform(2, 5), ms / random.uniform(1.1, 3))]
    for (seconds, ms, baseline), found in zip(asked, _says(case, asked), strict=True):
        if found["type"] != "NoneType":
            text = f"{found['value']:,}" if found["value"] is not None else f"a {found['type']}"
            call = f"{BREAK_EVEN}({seconds:.4g}, {ms:.4g}, {baseline:.4g})"
            raise Missed(f"None from {call}", text, "a call that saves nothing pays for nothing")
    return f"{len(asked)} cases"
