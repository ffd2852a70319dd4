"""When are two plans the same engine, and does a plan's size tell the type of its weights?"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.toys.networks import tiny_onnx, wide_onnx
from solutions.checks.trusted import engine_speed, plans
from solutions.checks.trusted.plans import same_network
from solutions.checks.trusted.speed import Ratio
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions

Build = Callable[..., bytes]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that builds a small network's plan, anew at each call."""
    folder = tmp_path_factory.mktemp("plans")

    def built(seed: int = 0, precision: str = "fp32", best: int = 2) -> bytes:
        file, plan = folder / "model.onnx", folder / "plan.engine"
        file.write_bytes(tiny_onnx(seed))
        build_engine(file, plan, BuildOptions(precision=precision, min_batch=1, opt_batch=best, max_batch=4))
        return plan.read_bytes()

    return built


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_two_builds_of_one_file_are_one_engine(build: Build, precision: str) -> None:
    first, second = build(precision=precision), build(precision=precision)
    assert first != second  # else the names that OpenVINO makes up would not matter, and this test would show nothing
    assert same_network(first, second)


def test_an_engine_is_not_timed_against_itself(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_speed, "compare_speed", lambda ours, other, *bounds: Ratio(0.5, 0.5, 0.5, 3))
    reference = tmp_path / "reference.engine"
    reference.write_bytes(build())
    assert engine_speed.against_reference(Case(None, 7), build(), reference, "").share == 1
    assert engine_speed.against_reference(Case(None, 7), build(1), reference, "").share == 0


@pytest.mark.parametrize(("sizes", "kept"), [((0.5,), True), ((1.02, 1.02, 0.5), True), ((1.02, 1.02, 1.02), False)])
def test_one_small_build_of_three_tells_what_was_allowed(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[float, ...], kept: bool
) -> None:
    asked: list[bool] = []

    def build(model: bytes, *, fresh: bool) -> dict[str, object]:
        asked.append(fresh)
        return {"returned": bytes(int(sizes[len(asked) - 1] * len(model)))}

    monkeypatch.setattr(plans, "ENGINE", "tensorrt")
    monkeypatch.setattr(builders, "plan_of", lambda built, function: built["returned"])
    monkeypatch.setattr(plans, "wide_onnx", bytes)  # as many zeros as the seed says
    with nullcontext() if kept else pytest.raises(Missed, match="102%"):
        assert "50%" in plans.small_on_a_gpu(build, "build_engine", 1000, builders.HALF_SIZE)
    assert asked == [False, True, True][: len(sizes)]


@pytest.mark.parametrize(("precision", "small"), [("fp32", False), ("fp16", True)])
def test_a_wide_networks_engine_is_small_only_in_a_small_type(tmp_path: Path, precision: str, small: bool) -> None:
    file, plan, model = tmp_path / "wide.onnx", tmp_path / "wide.engine", wide_onnx(7)
    file.write_bytes(model)
    build_engine(file, plan, BuildOptions(precision=precision))
    with nullcontext() if small else pytest.raises(Missed, match="of the ONNX file's size"):
        builders.small_enough(plan.read_bytes(), model, builders.HALF_SIZE)
