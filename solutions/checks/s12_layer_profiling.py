"""What only the grader knows of step 12: the layers of a real engine."""

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s12_layer_profiling import PROFILE, TIMES, profile_engine
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.engine.layers import engine_layers
from helpers.toys.networks import tiny_onnx

_RUNS, _WARM_UP = 4, 2


@TIMES.hidden("layers.engine", 0.25, "A real engine's layers, by the names that it gives them")
def engine(case: Case) -> str:
    plan = probe_engine(tiny_onnx(case.number("layers.engine")), (1, 1, 2))
    times, runs = case.call(profile_engine, plan=plan, runs=_RUNS, warmup=_WARM_UP).require(PROFILE)
    loaded = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    known = {str(layer["Name"]) for layer in engine_layers(loaded)}
    named = [ms for name, ms in times if name in known and isinstance(ms, float) and ms >= 0]
    if 2 * len(named) < len(known) or runs != _RUNS + _WARM_UP:
        expected = f"times of the engine's {len(known)} layers after {_WARM_UP} + {_RUNS} runs"
        advice = "attach the profiler to the context that is passed in, and call run()"
        raise Missed(expected, f"times of {len(named)} of them after {runs} runs", advice)
    return f"{len(named)} layers, {sum(named):.3f} ms"
