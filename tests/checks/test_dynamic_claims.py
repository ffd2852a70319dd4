"""Claims of step 3 on plans made here; the bank holds the students' builders."""

from pathlib import Path
from typing import Any

import pytest

from helpers.backend import trt
from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.student import Student
from solutions.checks import dynamic_claims
from solutions.checks.core.claim import claims_of


def _builder(*batches: int, half: bool = True) -> Any:
    """Return a builder whose profile is min, opt, max of these batches; it never looks at `fp16` if not `half`."""

    def build_engine_dynamic(onnx_path: str, engine_path: str, fp16: bool = True) -> Any:
        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
        parser = trt.OnnxParser(network, logger)
        assert parser.parse(Path(onnx_path).read_bytes())
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 2 << 30)
        if fp16 and half:
            config.set_flag(trt.BuilderFlag.FP16)
        profile = builder.create_optimization_profile()
        profile.set_shape("input", *((batch, 3, 224, 224) for batch in batches))
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        assert plan is not None
        Path(engine_path).write_bytes(plan)
        return plan

    return build_engine_dynamic


def _student(**values: Any) -> Student:
    return Student.in_process(values)


def test_the_cells_of_step_3_are_worth_10_points() -> None:
    assert sum(claim.points for claim in claims_of("dynamic_engine")) == 6
    assert sum(claim.points for claim in claims_of("dynamic_speed")) == 4


def test_a_right_builder_keeps_every_claim_of_the_engine() -> None:
    student = _student(build_engine_dynamic=_builder(1, 8, 32))
    case = Case(student, 1)
    for claim in claims_of("dynamic_engine"):
        outcome = claim.judge(case)
        assert isinstance(outcome, str) or outcome.share == 1, claim.name


def test_a_profile_to_64_is_not_the_one_asked_for() -> None:
    student = _student(build_engine_dynamic=_builder(1, 8, 64))
    case = Case(student, 2)
    for claim in (dynamic_claims.profile, dynamic_claims.refuses):
        with pytest.raises(Missed, match="64|33 accepted"):
            claim(student, case)
    assert dynamic_claims.outputs(student, case).share == 1


def test_a_profile_to_16_keeps_two_thirds_of_the_outputs() -> None:
    student = _student(build_engine_dynamic=_builder(1, 8, 16, half=False))
    assert dynamic_claims.outputs(student, Case(None, 3)).share == pytest.approx(2 / 3)
    with pytest.raises(Missed, match="half precision"):
        dynamic_claims.half_precision(student, Case(None, 3))


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((10, 10, 10, 10), 1),
        ((10, 20, 21, 40), 4),
        ((10, 20, 40, 43), 16),
        ((10, 20, 40, 80), 32),
        ((10, 9, 90, 90), 1),
    ],
)
def test_saturation_is_the_first_batch_whose_next_gains_less_than_10_percent(
    rates: tuple[float, ...], expected: int
) -> None:
    measured = dict(zip((1, 4, 16, 32), rates, strict=True))
    assert dynamic_claims._saturates(measured) == expected


@pytest.mark.parametrize("throughput", [None, {}, {1: 5.0}, {1: 1, 4: 2, 16: float("nan"), 32: 3}, "fast", {"a": 1}])
def test_without_four_measurements_there_is_no_saturation(throughput: Any) -> None:
    with pytest.raises(Missed, match="images a second"):
        dynamic_claims.saturation(_student(throughput=throughput, saturation_batch=16), Case(None, 4))
