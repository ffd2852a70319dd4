"""Claims of step 3 on plans made here; the bank holds the students' builders."""

from pathlib import Path
from typing import Any

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s03_dynamic as points
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from helpers.engine.backend import trt
from solutions.checks import s03_dynamic
from solutions.checks.core.asked import points_of


def _builder(*batches: int, half: bool = True) -> Any:
    """Return a builder whose profile is min, opt, max of these batches; it never looks at `fp16` if not `half`."""

    def build_engine_dynamic(onnx_path: Path, engine_path: Path, fp16: bool = True) -> Any:
        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse(onnx_path.read_bytes()):
            raise RuntimeError([parser.get_error(index).desc() for index in range(parser.num_errors)])
        config = builder.create_builder_config()
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 2 << 30)
        if fp16 and half:
            config.set_flag(trt.BuilderFlag.FP16)
        profile = builder.create_optimization_profile()
        profile.set_shape("input", *((batch, 3, 224, 224) for batch in batches))
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise RuntimeError("no engine")
        engine_path.write_bytes(plan)
        return plan

    return build_engine_dynamic


def _case(seed: int, **values: Any) -> Case:
    return Case(Student.in_process(values), seed)


def test_the_cells_of_step_3_are_worth_10_points() -> None:
    assert sum(point.worth for point in points_of("dynamic_engine")) == 6
    assert sum(point.worth for point in points_of("dynamic_speed")) == 4


def test_a_right_builder_keeps_every_claim_of_the_engine() -> None:
    case = _case(1, build_engine_dynamic=_builder(1, 8, 32))
    for claim in points_of("dynamic_engine"):
        outcome = claim.judge(case)
        assert isinstance(outcome, str) or outcome.share == 1, claim.name


def test_a_profile_to_64_is_not_the_one_asked_for() -> None:
    case = _case(2, build_engine_dynamic=_builder(1, 8, 64))
    for point in (points.profile, points.limits):
        with pytest.raises(Missed, match="64|33 accepted"):
            point(case)
    assert s03_dynamic.outputs(case).share == 1


def test_a_profile_to_16_keeps_two_thirds_of_the_outputs() -> None:
    case = _case(3, build_engine_dynamic=_builder(1, 8, 16, half=False))
    assert s03_dynamic.outputs(case).share == pytest.approx(2 / 3)
    with pytest.raises(Missed, match="FP16 allowed in the build"):
        points.half_precision(case)


@pytest.mark.parametrize("table", [None, {}, {1: 5.0}, {1: 1, 4: 2, 16: float("nan"), 32: 3}, "fast", {"a": 1}])
def test_without_four_measurements_a_good_engine_was_not_measured(table: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(s03_dynamic, "_images_per_second", lambda plan: 100.0)
    monkeypatch.setattr(points, "rate", lambda case: "right")
    with pytest.raises(Missed, match="images per second"):
        s03_dynamic.measured(_case(4, **{points.TABLE: table}))


@pytest.mark.parametrize(("largest", "kept"), [(11.0, True), (900.0, True), (9.0, False), (1100.0, False)])
def test_a_measurement_may_be_ten_times_off(largest: float, kept: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(s03_dynamic, "_images_per_second", lambda plan: 100.0)
    monkeypatch.setattr(points, "rate", lambda case: "right")
    case = _case(5, **{points.TABLE: {1: 10.0, 4: 20.0, 16: 30.0, 32: largest}})
    if kept:
        assert s03_dynamic.measured(case)
    else:
        with pytest.raises(Missed, match="about 100"):
            s03_dynamic.measured(case)


def test_without_an_engine_the_measuring_function_alone_is_judged(monkeypatch: Any) -> None:
    monkeypatch.setattr(points, "rate", lambda case: "right")
    case = Case(Student.in_process({}), 6)
    monkeypatch.setattr(case.student, "artifact", lambda name: None)
    assert s03_dynamic.measured(case) == "right"
