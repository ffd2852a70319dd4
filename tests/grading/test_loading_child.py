"""The process in which strangers' files are loaded: what it gives is what this process gives, and what breaks it."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from onnx.parser import parse_model

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
def called(child: LoadingChild) -> Mock:
    """What the child is asked through, which notes the functions."""
    noting = Mock(wraps=child.run)
    room.elsewhere(noting)
    return noting


def test_it_gives_what_this_process_gives(called: Mock) -> None:
    model, quantised = tiny_onnx(3), explicit_network(5)
    plan = built(model, OPTIONS)

    def given() -> tuple[list[np.ndarray], list[object], dict[str, Any]]:
        outputs = [inferred(plan, IMAGES), model_outputs(model, IMAGES)]
        facts = [plan_facts(plan), onnx_facts(model), tensor_names(model), computes_as(plan, plan)]
        return outputs, facts, read_model(quantised)

    outputs, facts, reading = given()
    assert called.call_count == 8
    room.elsewhere(None)
    expected, same, again = given()
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    assert facts == same and reading["stored"].keys() == again["stored"].keys()
    assert reading["nodes"] == again["nodes"] and reading["pairs"] == again["pairs"]


def test_engines_are_timed_there(called: Mock) -> None:
    engine_bytes = built(tiny_onnx(3), OPTIONS)
    engine = opened(engine_bytes)
    assert (engine.min_batch, engine.opt_batch, engine.max_batch) == (1, 2, 4)
    ran = engine.executions(IMAGES[:2], 3)
    np.testing.assert_allclose(ran["outputs"][0], inferred.__wrapped__(engine_bytes, IMAGES[:2]), rtol=1e-5, atol=1e-6)
    times = [*ran["times"], *engine.inferences(IMAGES, 2)]
    assert len(times) == 5 and min(times) > 0
    assert [call.args[1] for call in called.call_args_list] == ["built", "_opened", "_executions", "_inferences"]
    with pytest.raises(InputError, match="outside the profile"):
        engine.executions(np.repeat(IMAGES[:1], 9, axis=0), 1)


def test_what_cannot_be_read_is_an_error_of_the_file(called: Mock) -> None:
    with pytest.raises(InputError, match="JSONDecodeError|ValueError"):
        parsed(b"{")
    with pytest.raises(InputError, match="at most"):
        parsed(b" " * (5 << 20))
    for broken in (lambda: onnx_facts(b"garbage"), lambda: array_of(b"garbage"), lambda: read_model(b"\xff" * 9)):
        with pytest.raises(LoadError):
            broken()
    assert called.call_count == 5
    assert parsed(b'{"a": [1, 2.5]}') == {"a": [1, 2.5]}  # it goes on


def _parsed(graph: str) -> bytes:
    """Return an ONNX model that takes images, from a text."""
    head = f'<ir_version: 8, opset_import: ["" : 17]> model (float[n, 3, {EDGE}, {EDGE}] input) => (float output)'
    return parse_model(f"{head} {graph}").SerializeToString()


ENDLESS = _parsed("""<bool true = {1}, int64 most = {9223372036854775807}> {
    output = Loop <body = body (int64 i, bool go, float state) => (bool on, float next) {
        on = Identity(go)
        next = Identity(state)
    }> (most, true, input)
}""")
VAST = _parsed("""<int64[1] shape = {536870912}> {
    zeros = ConstantOfShape(shape)
    output = Add(zeros, zeros)
}""")
"""Of a few bytes, and makes two gigabytes."""


def test_a_model_that_never_ends_costs_its_limit_and_the_next_file_is_loaded(child: LoadingChild) -> None:
    with pytest.raises(LoadError, match="took over 4 s"):
        child.run("trtlab.engines.served", "model_outputs", (ENDLESS, IMAGES), 4)
    assert tensor_names(tiny_onnx(0))[0] == "input"


def test_one_that_takes_too_much_is_ended_by_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LIMITS", Limits(memory_bytes=900 << 20, processes=32, scratch_bytes=1 << 30, seconds=60))
    with LoadingChild(WORKS[0], tmp_path / "scratch", gpu=False), pytest.raises(LoadError, match="memory"):
        model_outputs(VAST, IMAGES)


def _judged(tmp_path: Path, *asked: Callable[[], Any]) -> tuple[list[Any], bool]:
    """Return what the judge of one submission is answered, and whether any file was loaded for it."""
    (tmp_path / "answers").mkdir(exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=tmp_path))
    with LoadingChild(WORKS[0], scratch, gpu=False, memory=Memory(tmp_path / "answers")) as child:
        return [ask() for ask in asked], child._process is not None


def test_equal_files_in_equal_order_are_loaded_once(tmp_path: Path) -> None:
    one, other = (partial(model_outputs, tiny_onnx(seed), IMAGES) for seed in (3, 4))
    first, loaded = _judged(tmp_path, one, other)
    again, loaded_again = _judged(tmp_path, one, other)
    assert (loaded, loaded_again) == (True, False)
    np.testing.assert_array_equal(first, again)
    assert _judged(tmp_path, other)[1], "the first may have taken over the child that answered about it"
    assert _judged(tmp_path, one, one)[1]


def test_a_time_is_measured_each_time(tmp_path: Path) -> None:
    plan = built(tiny_onnx(3), OPTIONS)
    judged = [_judged(tmp_path, lambda: len(opened(plan).executions(IMAGES[:1], 3)["times"])) for _ in range(2)]
    assert judged == [([3], True)] * 2


def test_answers_that_are_large_share_a_place(tmp_path: Path) -> None:
    memory, name = Memory(tmp_path), "ab" + 62 * "0"
    memory.keep(name, bytes(2 << 20))
    assert memory.known(name) == [bytes(2 << 20)]
    memory.keep("ab" + 62 * "1", bytes(3 << 20))
    assert memory.known(name) == [] and len(list(tmp_path.iterdir())) == 1
    memory.keep(name, bytes(65 << 20))
    assert memory.known(name) == [] and Memory().known(name) == []
