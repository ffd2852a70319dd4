"""The student's side lies about itself, in ways that were once evidence: the claim is lost all the same.

Each lie replaces a part of helpers/ in the student's process, as a submission can.
"""

from typing import Any

import numpy as np
import onnx
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s01_export, s03_dynamic, s13_compilers
from helpers.checks.points.case import Case
from helpers.checks.points.s01_export import probes as simplifying
from helpers.checks.points.s04_int8 import calibrator, engine
from helpers.checks.points.s04_int8.calibrator import random_images
from helpers.checks.points.s06_benchmark import latency, throughput
from helpers.checks.points.task import Point
from helpers.checks.probes import answer, student
from helpers.checks.probes.student import Student
from helpers.checks.probes.timed_calls import ServedModel
from helpers.engine.given import recorded_engine
from helpers.tools.outputs import onnx_session
from solutions.checks.core.asked import points_of
from solutions.checks.core.decide import decide

TYPED = {"mean_ms": 3.0, "median_ms": 3.0, "p95_ms": 4.0, "p99_ms": 5.0, "std_ms": 0.5}


def case_of(**names: Any) -> Case:
    return Case(Student.in_process(names), 3)


def claim_of(cell: str, name: str) -> Point:
    return next(claim for claim in points_of(cell) if claim.name == name)


def lies(monkeypatch: pytest.MonkeyPatch, name: str, reply: Any) -> None:
    """Have the student's side answer a probe with what it likes."""
    monkeypatch.setattr(answer, "_PROBES", {**answer._PROBES, name: lambda notebook, **data: reply(notebook, data)})


def test_a_reply_with_typed_figures_is_held_to_the_calls_that_the_judge_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"returned": TYPED, "followed": True}
    lies(monkeypatch, "time_latency", lambda notebook, data: told)
    lies(monkeypatch, "time_throughput", lambda notebook, data: told | {"returned": 900.0})
    lies(monkeypatch, "time_by_host", lambda notebook, data: told)
    case = case_of()
    for point in (*latency.LATENCY.points, *throughput.THROUGHPUT.points, s13_compilers.host_times):
        with pytest.raises(Missed):
            point(case)


def test_questions_leave_little_in_the_judge_s_memory() -> None:
    model = ServedModel({"durations_ms": [0.001]})
    model.call(now=0.0, shape=[1] * 1000, dtype="d" * 60_000, given=True)
    log = model.log()
    assert len(log["shapes"][0]) < 10 and len(log["dtypes"][0]) < 100
    stopped = [model.wait(now=0.0)["stopped"] for _ in range(100_000)]
    assert (stopped[0], stopped[-1], model.stopped) == (False, True, True)
    with pytest.raises(ValueError):
        model.wait(now=float("nan"))


def test_answers_to_one_cell_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    lies(monkeypatch, "timed_rate", lambda notebook, data: 1234.5)
    monkeypatch.setattr(student, "_MOST_RECEIVED", 10)
    with pytest.raises(Missed, match="GB of answers"):
        s03_dynamic.rate(case_of())


def test_a_typed_rate_is_held_to_the_runs_that_the_judge_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"returned": 1234.5, "followed": True}
    lies(monkeypatch, "timed_rate", lambda notebook, data: told)
    with pytest.raises(Missed, match="to call the model"):
        s03_dynamic.rate(case_of())


@pytest.mark.parametrize("raised", ["ValueError: they differ", None])
def test_who_refuses_all_or_nothing_does_not_compare(monkeypatch: pytest.MonkeyPatch, raised: str | None) -> None:
    def told(notebook: Any, data: dict[str, Any]) -> dict[str, Any]:
        if raised and data.get("instead"):
            return {"files": {}, "raised": raised}
        return {"files": {simplifying.SIMPLIFIED: data.get("instead") or data["onnx"]}, "raised": None}

    lies(monkeypatch, "simplify_model", told)
    with pytest.raises(Missed, match="dst to be written for" if raised else "an exception for a model with"):
        s01_export.refuses(case_of())


def test_a_calibrator_is_judged_by_a_real_calibration_whatever_is_said_to_lie_at_its_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_of()
    images = random_images(case.number("calibrator.images"), 32)
    parts = [images[start : start + 5] for start in range(0, 30, 5)]
    run = {"size": 5, "batches": parts, "ended": True}
    lies(monkeypatch, "calibrator_runs", lambda notebook, data: [run] * 3)
    lies(monkeypatch, "calibrate", lambda notebook, data: b"TRT-101600-EntropyCalibration2\ninput: 3a000000\n")
    assert calibrator.batches(case).startswith("6 batches")
    found = decide(claim_of("calibrator", "calibrator.batches"), case)
    assert found.earned == 0 and "0 of 16 scales within" in found.missed["found"]


def _largest(model: bytes, names: list[str], images: np.ndarray) -> dict[str, float]:
    """Return the largest magnitude of each of a model's tensors, as ONNX Runtime computes them."""
    network = onnx.load_from_string(model)
    network.graph.output.extend([onnx.ValueInfoProto(name=name) for name in names if name != "output"])
    values = onnx_session(network.SerializeToString()).run(names, {"input": images})
    return {name: float(abs(value).max()) for name, value in zip(names, values, strict=True)}


def test_a_cache_is_what_the_engine_shows_whatever_was_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    case, ranges = case_of(), {}
    for model, strength in ((0, 1.0), (1, 1024.0)):
        images = random_images(0, 4, strength)
        names = [*(f"{kind}{number}" for kind in ("conv", "relu") for number in range(4)), "pooled", "output"]
        largest = _largest(engine.models(case)[model], names, images)
        ranges[strength] = {"input": float(abs(images).max()), **largest}

    def told(notebook: Any, data: dict[str, Any], own: Any = lambda strength: strength) -> list[dict[str, Any]]:
        plans = [
            recorded_engine(data["models"][one["model"]], engine.BATCHES, ("INT8",), ranges[own(one["strength"])], {})
            for one in data["builds"]
        ]
        return [
            {"returned": plan, "returned_type": "", "file": plan, "builds": [], "given": 2, "noted": True}
            for plan in plans
        ]

    lies(monkeypatch, "int8_builds", told)
    assert decide(claim_of("int8_engine", "int8.stale_cache"), case).status == "kept"
    lies(monkeypatch, "int8_builds", lambda notebook, data: told(notebook, data, lambda strength: 1.0))
    found = decide(claim_of("int8_engine", "int8.stale_cache"), case_of())
    assert found.status == "lost" and "a relative error of" in found.missed["found"]
