"""Step 2, build_engine_fp16(onnx_path, engine_path): a half-precision engine of the model it was given."""

from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.point import Check, Reported, point
from helpers.checks.probes.builds import build_engine, failing_build
from helpers.toys.networks import tiny_onnx

FUNCTION = "build_engine_fp16"
BATCH = 8
"""The largest batch of the profile that the task gives."""

PROMISES = (f"a workspace of {builders.WORKSPACE_GB} GB", f"the given profile for batches up to {BATCH}")
"""What the notebook's text says in figures."""


def network(case: Case) -> bytes:
    """Return a small network with weights of the case's own."""
    return tiny_onnx(case.number("fp16.network"))


def built(case: Case, onnx: bytes = b"", *, fresh: bool = False) -> builders.Built:
    """Return what `build_engine` answers for a model, or else the case's network; `fresh`: of another build."""
    return case.call(build_engine, fresh=fresh, function=FUNCTION, onnx=onnx or network(case)).require(FUNCTION)


@point(
    "A serialized engine is returned and written to engine_path",
    Reported(builders.WRITTEN, 0.2, lambda case: builders.written(built(case))),
)
def plan(case: Case) -> str:
    return builders.returned(built(case), FUNCTION)


@point("Its profile is the given one, batches 1 to 8")
def profile(case: Case) -> str:
    return builders.profile_is(builders.plan_of(built(case), FUNCTION), (1, BATCH, BATCH))


@point("Built for half precision")
def half_precision(case: Case) -> str:
    return builders.in_half(built(case), FUNCTION)


@point("The builder's workspace is limited to 2 GB", builders.WORKSPACE)
def workspace(case: Case) -> str:
    return builders.workspace_limited(built(case))


@point("A model that cannot be parsed gives an error with the parser's reason")
def parser_errors(case: Case) -> str:
    builders.refuses(case, failing_build, FUNCTION, None, function=FUNCTION)
    return builders.names_parser_errors(case, build_engine, FUNCTION, function=FUNCTION)


@point("A build that fails raises, and an earlier engine file stays", builders.FAILURES)
def failures(case: Case) -> str:
    said = builders.refuses(case, failing_build, FUNCTION, network(case), function=FUNCTION)
    builders.keeps_files(case, failing_build, FUNCTION, network(case), function=FUNCTION)
    return said


CHECKS = {
    "check_fp16_engine": Check(
        "02_fp16", "FP16 engine", (FUNCTION,), (plan, profile, half_precision, workspace, parser_errors, failures)
    )
}
