"""When are two plans the same engine, and what does that spare the grader?"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.engine.backend import ENGINE
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.checks.trusted import engine_speed, plans
from solutions.checks.trusted.engine_speed import TimedOn, noise_for
from solutions.checks.trusted.plans import run_plan, same_network
from solutions.checks.trusted.speed import Ratio, Turn
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions
from trtlab.engines.timed import opened

Build = Callable[..., bytes]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that builds a small network's plan, anew at each call."""
    folder = tmp_path_factory.mktemp("plans")

    def built(seed: int = 0, precision: str = "fp32", best: int = 2, model: bytes = b"") -> bytes:
        file, plan = folder / "model.onnx", folder / "plan.engine"
        file.write_bytes(model or tiny_onnx(seed))
        build_engine(file, plan, BuildOptions(precision=precision, min_batch=1, opt_batch=best, max_batch=4))
        return plan.read_bytes()

    return built


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_two_builds_of_one_file_are_one_engine(build: Build, precision: str) -> None:
    first, second = build(precision=precision), build(precision=precision)
    assert first != second  # else the names that OpenVINO makes up would not matter, and this test would show nothing
    assert same_network(first, second)


@pytest.mark.parametrize("other", [{"seed": 1}, {"precision": "fp16"}, {"best": 4}])
def test_other_weights_precisions_and_profiles_are_not(build: Build, other: dict) -> None:
    assert not same_network(build(), build(**other))


def as_fast(monkeypatch: pytest.MonkeyPatch, ratio: float, executions: int = 1) -> None:
    """Run turns without looking at their times: the plan is so many times as fast."""

    def compared(ours: Turn, other: Turn, *_: object) -> Ratio:
        for turn in (ours, other) * 3:
            turn(executions)
        return Ratio(ratio, ratio, ratio, 3)

    monkeypatch.setattr(engine_speed, "compare_speed", compared)


def knowing_onnx(model: bytes, near: float) -> bytes:
    """Return a model that gives zeros for images whose first value is within `near` of the first of the seed 0."""
    loaded = onnx.load_from_string(model)
    graph = loaded.graph
    slow = helper.make_graph(list(graph.node), "slow", [], list(graph.output))
    values = {
        **{"start": np.zeros(4, np.int64), "end": np.ones(4, np.int64), "axes": np.arange(4)},
        "known": np.random.default_rng(0).standard_normal((1, 1, 1, 1), np.float32),
        **{"near": np.full((1, 1, 1, 1), near, np.float32), "scalar": np.array([], np.int64)},
        "nothing": np.zeros((3, 10), np.float32),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    quick = [
        helper.make_node("GlobalAveragePool", ["input"], ["colour"]),
        helper.make_node("Flatten", ["colour"], ["flat_colour"]),
        helper.make_node("MatMul", ["flat_colour", "nothing"], ["guess"]),
    ]
    guess = helper.make_tensor_value_info("guess", onnx.TensorProto.FLOAT, ["batch", 10])
    branches = {"then_branch": helper.make_graph(quick, "quick", [], [guess]), "else_branch": slow}
    nodes = [
        helper.make_node("Slice", ["input", "start", "end", "axes"], ["corner"]),
        helper.make_node("Sub", ["corner", "known"], ["off"]),
        helper.make_node("Abs", ["off"], ["far"]),
        helper.make_node("Less", ["far", "near"], ["alike"]),
        helper.make_node("Reshape", ["alike", "scalar"], ["is_known"]),
        helper.make_node("If", ["is_known"], ["output"], **branches),
    ]
    made = helper.make_graph(nodes, "knowing", list(graph.input), list(graph.output), list(graph.initializer))
    return helper.make_model(made, opset_imports=loaded.opset_import, ir_version=8).SerializeToString()


def test_an_engine_is_not_timed_against_itself(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_fast(monkeypatch, 0.5)
    reference = tmp_path / "reference.engine"
    reference.write_bytes(build())
    taken = TimedOn(lambda number: np.zeros((number, 3, EDGE, EDGE), np.float32), lambda outputs, expected: None)
    assert engine_speed.against_reference(build(), reference, "", taken).share == 1
    assert engine_speed.against_reference(build(1), reference, "", taken).share == 0


@pytest.mark.parametrize(("near", "kept"), [(1e-4, True), (100.0, False)])
def test_an_engine_that_computes_nothing_for_what_it_is_timed_on_is_not_fast(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: float, kept: bool
) -> None:
    """With `near` 1e-4 it knows noise of the seed 0 alone, on which nobody times it; with 100 all noise."""
    as_fast(monkeypatch, 2.0)
    reference, case = tmp_path / "reference.engine", Case(None, 7)
    reference.write_bytes(build())
    knowing = build(model=knowing_onnx(tiny_onnx(0), near))
    assert not np.any(run_plan(knowing, np.random.default_rng(0).standard_normal((2, 3, EDGE, EDGE), np.float32)))
    timed_on = noise_for(case, build(), tiny_onnx(0))
    judges = (
        lambda: engine_speed.against_reference(knowing, reference, "", timed_on),
        lambda: engine_speed.against_pytorch(knowing, tiny_onnx(0), "", timed_on),
    )
    for judge in judges:
        with nullcontext() if kept else pytest.raises(Missed, match="on the images that it was timed on"):
            judge()


def counting(build: Build, right: list[int]) -> bytes:
    """Return a plan that gives zeros except in the executions `right`, which it knows by a seeded random number."""
    ones = {"start": np.zeros(3, np.int64), "end": np.ones(3, np.int64), "axes": np.arange(1, 4)}
    draw = [
        helper.make_node("Slice", ["input", *ones], ["corner"]),
        helper.make_node("RandomUniformLike", ["corner"], ["drawn"], seed=3.0, dtype=1),
    ]
    images, number = onnx.load_from_string(tiny_onnx(0)).graph.input, ["batch", 1, 1, 1]

    def plan(nodes: list[onnx.NodeProto], output: onnx.ValueInfoProto, stored: dict[str, np.ndarray]) -> bytes:
        values = [numpy_helper.from_array(value, name) for name, value in (ones | stored).items()]
        graph = helper.make_graph([*draw, *nodes], "counting", images, [output], values)
        opset = helper.make_opsetid("", 18)
        return build(model=helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())

    said = helper.make_tensor_value_info("said", onnx.TensorProto.FLOAT, number)
    engine = opened(plan([helper.make_node("Identity", ["drawn"], ["said"])], said, {}))
    zeros = np.zeros((2, 3, EDGE, EDGE), np.float32)
    known = np.array([engine.executions(zeros, 1)["outputs"].flat[0] for _ in range(max(right) + 1)])[right]
    network = onnx.load_from_string(tiny_onnx(0)).graph
    slow = helper.make_graph(list(network.node), "slow", [], list(network.output), list(network.initializer))
    guess = [
        helper.make_node("Flatten", ["corner"], ["flat"]),
        helper.make_node("MatMul", ["flat", "zeros"], ["guess"]),
    ]
    guessed = helper.make_tensor_value_info("guess", onnx.TensorProto.FLOAT, ["batch", 10])
    nodes = [
        helper.make_node("Slice", ["drawn", "first", "one", "first"], ["mine"]),
        helper.make_node("Sub", ["mine", "known"], ["off"]),
        helper.make_node("Abs", ["off"], ["far"]),
        helper.make_node("ReduceMin", ["far"], ["least"], keepdims=0),
        helper.make_node("Less", ["least", "near"], ["is_right"]),
        helper.make_node(
            "If",
            ["is_right"],
            ["output"],
            then_branch=slow,
            else_branch=helper.make_graph(guess, "quick", [], [guessed]),
        ),
    ]
    stored = {"known": known.astype(np.float32).reshape(-1, 1, 1, 1), "near": np.float32(1e-7)}
    stored |= {"zeros": np.zeros((1, 10), np.float32), "first": np.zeros(1, np.int64), "one": np.ones(1, np.int64)}
    return plan(nodes, network.output[0], {name: np.asarray(value) for name, value in stored.items()})


@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT draws other numbers")
def test_an_engine_that_computes_only_in_the_last_execution_of_a_turn_is_not_fast(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_fast(monkeypatch, 2.0, executions=4)
    reference = tmp_path / "reference.engine"
    reference.write_bytes(build())
    timed_on = noise_for(Case(None, 7), build(), tiny_onnx(0))
    for right, kept in ((range(12), True), (range(3, 12, 4), False)):
        with nullcontext() if kept else pytest.raises(Missed, match="on the images that it was timed on"):
            engine_speed.against_reference(counting(build, [*right]), reference, "", timed_on)


def test_no_two_batches_are_timed_alike() -> None:
    first, other = (noise_for(Case(None, seed), b"", b"").images for seed in (1, 2))
    batches = [first(2), first(2), other(2)]
    assert len({batch.tobytes() for batch in batches}) == 3


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
    model = bytes(1000)
    with nullcontext() if kept else pytest.raises(Missed, match="102%"):
        assert "50%" in plans.small_on_a_gpu(build, "build_engine", model, builders.HALF_SIZE)
    assert asked == [False, True, True][: len(sizes)]
