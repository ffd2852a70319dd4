"""build_engine_mixed(onnx_path, engine_path, cache_path, keep): an engine of two precisions, from a cache alone."""

import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s09_mixed_precision.networks import cache_of, chosen_layers, network
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.builds import OLDER, BuiltEngine, FailedBuild, as_bytes, failed_build, recorded_builds
from helpers.checks.probes.loads import loads
from helpers.course.settings import PROFILE_BATCHES
from helpers.engine.backend import trt
from helpers.engine.layers import engine_layers, ran_in

FUNCTION = "build_engine_mixed"
BATCHES = PROFILE_BATCHES
_CONVOLUTIONS = ("conv0", "conv1", "conv2", "conv3")


class BuiltMixed(BuiltEngine):
    """What `build_mixed` answers."""

    cache_kept: bool


@probe
def build_mixed(notebook: Notebook, *, onnx: bytes, cache: bytes, keep: list[str]) -> BuiltMixed:
    """Call build_engine_mixed; the result is `build_engine`'s, and `cache_kept`: whether the cache is as it was."""
    build = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder, recorded_builds() as builds:
        source, target, scales = (Path(folder) / name for name in ("a.onnx", "engines/b.trt", "c.cache"))
        target.parent.mkdir()
        for path, content in ((source, onnx), (target, OLDER), (scales, cache)):
            path.write_bytes(content)
        returned = build(source, target, scales, list(keep))
        return {
            "returned": as_bytes(returned),
            "returned_type": type(returned).__name__,
            "file": target.read_bytes() if target.is_file() else None,
            "onnx_kept": source.is_file() and source.read_bytes() == onnx,
            "cache_kept": scales.is_file() and scales.read_bytes() == cache,
            "builds": [asdict(found) for found in builds],
        }


@probe
def failing_mixed(notebook: Notebook, *, onnx: bytes, parsed: bool, cache: bytes) -> FailedBuild:
    """Call build_engine_mixed where it must fail; the result is `failed_build`'s."""
    build = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder:
        scales = Path(folder) / "model.cache"
        scales.write_bytes(cache)
        return failed_build(lambda source, target: build(source, target, scales, []), onnx, parsed=parsed)


def built(case: Case) -> BuiltMixed:
    """Return what `build_mixed` answers for the case's network and layers."""
    model = network(case)
    asked = {"onnx": model, "cache": cache_of(case, model), "keep": chosen_layers(case)}
    return case.call(build_mixed, **asked).require(FUNCTION)


@loads
def precisions_of(plan: bytes, names: list[str]) -> dict[str, str]:
    """Return the precision in which each named layer of the network runs, by the inspector."""
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    return ran_in(engine_layers(engine), names)


@point("A serialized engine is returned and written to engine_path")
def plan(case: Case) -> str:
    return builders.returned_and_written(built(case), FUNCTION)


@point("The profile is (1, 8, 32)")
def profile(case: Case) -> str:
    return builders.profile_is(builders.plan_of(built(case), FUNCTION), BATCHES)


@point("The named layers do not run in INT8, the others do")
def precision(case: Case) -> str:
    found, kept = built(case), chosen_layers(case)
    asked = builders.asked_for(found)
    held = sum(name in kept for name in _CONVOLUTIONS)
    wanted = {"HALF": held, "INT8": len(_CONVOLUTIONS) - held}
    if asked["held"] != wanted or not all(asked["flags"][name] for name in ("INT8", "FP16")):
        set_flags = [name for name, there in asked["flags"].items() if there]
        said = f"{asked['held'] or 'no'} precisions set, flags {set_flags}"
        expected = f"{held} convolutions held in FP16 (HALF), the others in INT8"
        raise Missed(expected, said, "give `keep` to keep_in_half")
    if asked["verbosity"] != "DETAILED":
        raise Missed("the profiling verbosity DETAILED", asked["verbosity"], "without it no layer tells its precision")
    ran = precisions_of(builders.plan_of(found, FUNCTION), list(_CONVOLUTIONS))
    for name, runs in ran.items():
        if (name in kept) == (runs == "int8"):
            expected = f"{name} {'not in INT8: it was to be kept' if name in kept else 'in INT8: it was not kept'}"
            raise Missed(
                expected, f"it runs in {runs}", "are the calibrator and all three flags on this configuration?"
            )
    return f"convolutions by precision: {dict(Counter(ran.values()))}"


@point("A build that fails raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    model = network(case)
    cache = cache_of(case, model)
    said = [builders.refuses(case, failing_mixed, FUNCTION, onnx, cache=cache) for onnx in (None, model)]
    builders.keeps_files(case, failing_mixed, FUNCTION, model, cache=cache)
    return "; ".join(said)
