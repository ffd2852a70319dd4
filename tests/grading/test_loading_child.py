"""The process in which strangers' files are loaded: what it gives is what this process gives, and what breaks it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.checks.points.files import array_of, parsed
from helpers.checks.points.s14_explicit_quantisation.networks import explicit_network
from helpers.checks.points.s14_explicit_quantisation.reading import read_model
from helpers.checks.probes.builds import computes_as, plan_facts
from helpers.checks.probes.loads import LoadError
from helpers.checks.probes.onnx_files import onnx_facts, tensor_names
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.grading.judge import child as room
from solutions.grading.judge.child import LoadingChild, Memory
from solutions.sandbox import KINDS, Limits, trouble
from trtcpu.errors import InputError
from trtlab.building.served import built
from trtlab.engines.served import inferred, model_outputs, opened

WORKS = [kind for kind in KINDS if not trouble(kind)]
OPTIONS = {"precision": "fp32", "min_batch": 1, "opt_batch": 2, "max_batch": 4}
IMAGES = np.random.default_rng(0).standard_normal((2, 3, EDGE, EDGE)).astype(np.float32)

pytestmark = pytest.mark.skipif(not WORKS, reason="no sandbox works here")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[LoadingChild]:
    with LoadingChild(WORKS[0], tmp_path / "scratch", gpu=False) as started:
        yield started


@pytest.fixture
def called(child: LoadingChild) -> list[str]:
    """The names of the functions that the child was asked for."""
    names: list[str] = []

    def noting(module: str, name: str, given: tuple[Any, ...], *how: Any) -> Any:
        names.append(name)
        return child.run(module, name, given, *how)

    room.elsewhere(noting)
    return names


def test_it_gives_what_this_process_gives(called: list[str]) -> None:
    model, quantised = tiny_onnx(3), explicit_network(5)
    plan = built(model, OPTIONS)
    assert called == ["built"]
    there = [inferred(plan, IMAGES), model_outputs(model, IMAGES)]
    facts = [plan_facts(plan), onnx_facts(model), tensor_names(model), computes_as(plan, plan)]
    reading = read_model(quantised)
    assert len(called) == 8
    room.elsewhere(None)
    here = [inferred(plan, IMAGES), model_outputs(model, IMAGES)]
    for one, other in zip(there, here, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert facts == [plan_facts(plan), onnx_facts(model), tensor_names(model), computes_as(plan, plan)]
    again = read_model(quantised)
    assert reading["nodes"] == again["nodes"] and reading["pairs"] == again["pairs"]
    assert reading["stored"].keys() == again["stored"].keys()


def test_engines_are_timed_there(called: list[str]) -> None:
    engine_bytes = built(tiny_onnx(3), OPTIONS)
    engine = opened(engine_bytes)
    assert (engine.min_batch, engine.opt_batch, engine.max_batch) == (1, 2, 4)
    ran = engine.executions(IMAGES[:2], 3)
    np.testing.assert_allclose(ran["outputs"][0], inferred.__wrapped__(engine_bytes, IMAGES[:2]), rtol=1e-5, atol=1e-6)
    times = [*ran["times"], *engine.inferences(IMAGES, 2)]
    assert len(times) == 5 and min(times) > 0 and called == ["built", "_opened", "_executions", "_inferences"]
    with pytest.raises(InputError, match="outside the profile"):
        engine.executions(np.repeat(IMAGES[:1], 9, axis=0), 1)


def test_what_cannot_be_read_is_an_error_of_the_file(called: list[str]) -> None:
    with pytest.raises(InputError, match="JSONDecodeError|ValueError"):
        parsed(b"{")
    with pytest.raises(InputError, match="at most"):
        parsed(b" " * (5 << 20))
    for broken in (lambda: onnx_facts(b"garbage"), lambda: array_of(b"garbage"), lambda: read_model(b"\xff" * 9)):
        with pytest.raises(LoadError):
            broken()
    assert len(called) == 5
    assert parsed(b'{"a": [1, 2.5]}') == {"a": [1, 2.5]}  # it goes on


def endless() -> bytes:
    """An ONNX model whose Loop does not end."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["state"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "true", "input"], ["output"], body=body)],
        "endless",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, EDGE, EDGE])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [helper.make_tensor("true", TensorProto.BOOL, [], [True])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_a_model_that_never_ends_costs_its_limit_and_the_next_file_is_loaded(child: LoadingChild) -> None:
    with pytest.raises(LoadError, match="took over 4 s"):
        child.run("trtlab.engines.served", "model_outputs", (endless(), IMAGES), 4)
    assert tensor_names(tiny_onnx(0))[0] == "input"


def vast() -> bytes:
    """An ONNX model of a few bytes that makes two gigabytes."""
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
            helper.make_node("Add", ["zeros", "zeros"], ["output"]),
        ],
        "vast",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, EDGE, EDGE])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [helper.make_tensor("shape", TensorProto.INT64, [1], [1 << 29])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_one_that_takes_too_much_is_ended_by_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LIMITS", Limits(memory_bytes=900 << 20, processes=32, scratch_bytes=1 << 30, seconds=60))
    with LoadingChild(WORKS[0], tmp_path / "scratch", gpu=False), pytest.raises(LoadError, match="memory"):
        model_outputs(vast(), IMAGES)


def _judged(tmp_path: Path, name: str, *models: bytes) -> tuple[list[np.ndarray], bool]:
    """Return what models compute as the judge of one submission asks for it, and whether any was loaded."""
    answers = tmp_path / "answers"
    answers.mkdir(exist_ok=True)
    with LoadingChild(WORKS[0], tmp_path / name, gpu=False, memory=Memory(answers)) as child:
        outputs = [model_outputs(model, IMAGES) for model in models]
        return outputs, child._process is not None


def test_equal_files_in_equal_order_are_loaded_once(tmp_path: Path) -> None:
    one, other = tiny_onnx(3), tiny_onnx(4)
    first, loaded = _judged(tmp_path, "a", one, other)
    again, loaded_again = _judged(tmp_path, "b", one, other)
    assert (loaded, loaded_again) == (True, False)
    assert all(np.array_equal(*both) for both in zip(first, again, strict=True))


def test_what_was_answered_behind_another_file_is_nobody_elses(tmp_path: Path) -> None:
    one, other = tiny_onnx(3), tiny_onnx(4)
    _judged(tmp_path, "a", one, other)
    assert _judged(tmp_path, "b", other)[1]  # `one` may have taken over the child that answered about it
    assert _judged(tmp_path, "c", one, one)[1]


def test_a_time_is_measured_each_time(tmp_path: Path) -> None:
    plan, loaded = built(tiny_onnx(3), OPTIONS), []
    for name in "ab":
        (tmp_path / "answers").mkdir(exist_ok=True)
        with LoadingChild(WORKS[0], tmp_path / name, gpu=False, memory=Memory(tmp_path / "answers")) as child:
            assert len(opened(plan).executions(IMAGES[:1], 3)["times"]) == 3
            loaded.append(child._process is not None)
    assert loaded == [True, True]


def test_answers_that_are_large_share_a_place(tmp_path: Path) -> None:
    memory, name = Memory(tmp_path), "ab" + 62 * "0"
    memory.keep(name, bytes(2 << 20))
    assert memory.known(name) == [bytes(2 << 20)]
    memory.keep("ab" + 62 * "1", bytes(3 << 20))
    assert memory.known(name) == [] and len(list(tmp_path.iterdir())) == 1
    memory.keep(name, bytes(65 << 20))
    assert memory.known(name) == [] and Memory().known(name) == []
