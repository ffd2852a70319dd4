"""Claims of step 12: its points on fresh times, shapes and files, and a real engine."""

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s12_layer_profiling import bounds, files, times
from helpers.checks.points.s12_layer_profiling.probes import PROFILE, profile_engine
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.engine.layers import engine_layers
from helpers.toys.networks import tiny_onnx
from solutions.checks.core.claim import award, claim

TIMES, BOUNDS, FILE = "layer_times", "layer_bounds", "trtexec_profile"
_RUNS, _WARM_UP = 4, 2

award("layers.medians", 0.4, times.medians, cell=TIMES)
award("layers.counted", 0.4, times.counted, cell=TIMES)
award("layers.names", 0.2, times.names, cell=TIMES)


@claim("layers.engine", cell=TIMES, points=0.25, title="A real engine's layers, by the names that it gives them")
def engine(case: Case) -> str:
    plan = probe_engine(tiny_onnx(case.number("layers.engine")), (1, 1, 2))
    found = case.call(profile_engine, plan=plan, runs=_RUNS, warmup=_WARM_UP).require(PROFILE)
    loaded = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    known = {str(layer["Name"]) for layer in engine_layers(loaded)}
    named = [ms for name, ms in found["times"].items() if name in known and not isinstance(ms, str)]
    if 2 * len(named) < len(known) or not all(ms >= 0 for ms in named) or found["runs"] != _RUNS + _WARM_UP:
        said = f"times of {len(named)} of them after {found['runs']} runs"
        expected = f"times of the engine's {len(known)} layers after {_WARM_UP} + {_RUNS} runs"
        raise Missed(expected, said, "attach the profiler to the context that is passed in, and call run()")
    return f"{len(named)} layers, {sum(named):.3f} ms"


award("layers.slowest", 0.25, times.ranked, cell=TIMES)
award("layers.convolutions", 0.4, bounds.convolutions, cell=BOUNDS)
award("layers.others", 0.3, bounds.others, cell=BOUNDS)
award("layers.moved", 0.4, bounds.moved, cell=BOUNDS)
award("layers.bound", 0.4, bounds.bounds, cell=BOUNDS)
award("trtexec.medians", 0.3, files.with_medians, cell=FILE)
award("trtexec.averages", 0.3, files.averages, cell=FILE)
award("trtexec.repeated", 0.1, files.repeated, cell=FILE)
award("trtexec.wrong_files", 0.3, files.wrong_files, cell=FILE)
