"""Sentences and headline numbers follow from the rows; nothing is said of what was not measured."""

import dataclasses
import functools
import itertools
import json
import operator
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trtlab.sample_results import results_of, row, sample_results, score
from trtlab.report.findings import (
    deploy,
    fastest,
    findings,
    headline,
    most_layers,
    saturation,
)

SOLUTIONS = Path(__file__).parents[3] / "solutions"


def saturates(points) -> tuple[int, float, bool]:
    return saturation(pd.DataFrame(points, columns=["batch", "value"]))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(1, 100.0), (2, 150.0), (4, 160.0), (8, 165.0)], (2, 150.0, True)),
        ([(1, 100.0), (2, 150.0), (4, 250.0)], (4, 250.0, False)),
        ([(1, 100.0), (2, 101.0), (4, 150.0), (8, 151.0)], (1, 100.0, True)),
        ([(1, 100.0), (2, 90.0)], (1, 100.0, True)),
        ([(1, 100.0), (8, 200.0)], (8, 200.0, False)),
        ([(1, 100.0), (8, 120.0)], (8, 120.0, False)),
        ([(1, 100.0), (2, 110.1), (4, 121.0)], (2, 110.1, True)),
        ([(1, 100.0)], (1, 100.0, False)),
    ],
)
def test_throughput_saturates_where_the_next_larger_batch_gains_less_than_a_tenth(points, expected):
    assert saturates(points) == expected


def test_of_one_batch_it_is_not_said_whether_throughput_saturates():
    assert findings(results_of(row("fp32", 8, images_per_s=100.0))) == []


@functools.cache
def solution_of(step: str, name: str):
    """Return a function that a step's solution defines."""
    notebook = json.loads((SOLUTIONS / step / f"{step}.ipynb").read_text())
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace: dict = {}
    exec(next(source for source in sources if f"def {name}(" in source), namespace)
    return namespace[name]


@given(st.lists(st.floats(0.5, 1.0999) | st.floats(1.1001, 2), min_size=1, max_size=6))
def test_the_rule_is_that_of_steps_3_and_8(gains):
    points = [(2**place, rate) for place, rate in enumerate(itertools.accumulate([100.0, *gains], operator.mul))]
    assert saturates(points)[0] == solution_of("03_dynamic", "saturation_batch")(dict(points))
    assert saturates(points)[0] == solution_of("08_report", "saturation")({str(batch): r for batch, r in points})


def test_the_headline_accuracy_is_the_fastest_evaluated_engines():
    rows = [row("dynamic-fp16", 8, images_per_s=900.0), row("fp16", 8, images_per_s=800.0)]
    results = results_of(*rows, scored=[score("fp16", 94.0, 100)])
    assert [(number, what) for number, what, _ in headline(results)][-1] == ("94.0 %", "top-1")


def test_the_fastest_engine_is_the_one_with_most_images_a_second_baselines_left_out():
    results = results_of(
        row("pytorch-fp32", 1, images_per_s=50.0), row("fp32", 1, images_per_s=30.0), row("int8", 1, images_per_s=40.0)
    )
    assert fastest(results).engine == "int8" and fastest(results, ["FP16"]) is None


@pytest.mark.parametrize(
    ("loss", "low", "high", "changed", "chance", "expected"),
    [
        (
            0.6,
            0.1,
            1.1,
            12,
            False,
            "points of top-1 against PyTorch FP32 (95 % interval of the loss +0.10",
        ),
        (-0.3, -0.9, 0.3, 9, True, "INT8 gained 0.30 points"),
        (0.1, -0.2, 0.4, 3, True, "no difference that this many images can tell from chance"),
        (0.0, -0.3, 0.3, 0, False, "INT8: right on exactly the images that PyTorch FP32 is right on"),
    ],
)
def test_the_loss_of_accuracy_is_told_with_its_interval(loss, low, high, changed, chance, expected):
    (sentence,) = findings(results_of(scored=[score("int8", 94.0, 1000, loss, low, high, changed)]))
    assert expected in sentence and ("chance" in sentence) is chance


@pytest.mark.parametrize(("p95_ms", "told"), [(10.4, False), (19.0, True)])
def test_a_run_beside_other_programs_says_so(p95_ms, told):
    rows = [row("fp32", batch, median_ms=10.0, p95_ms=p95_ms) for batch in (1, 8)]
    said = " ".join(findings(results_of(*rows)))
    assert ("the typical p95 is 1.9 times the median" in said) is told


def test_failed_checks_come_first():
    passed = {"engine": "fp32", "what": "outputs", "passed": True}
    checks = [passed, {**passed, "engine": "int8", "passed": False, "message": "relative error 0.9"}]
    first = findings(dataclasses.replace(sample_results(), checks=checks))[0]
    assert first == "1 of 2 checks failed: INT8: relative error 0.9."


def test_the_bound_is_the_one_that_most_layer_time_is_under():
    times = [("memory", 3.0), ("compute", 1.0), (None, 9.0)]
    layers = [{"engine": "int8", "batch": 8, "time_ms": ms, "bound": bound} for bound, ms in times]
    assert "75 % of the layers' time of INT8 at batch 8 is memory-bound" in " ".join(
        findings(results_of(layers=layers))
    )


def test_nothing_is_said_of_what_was_not_measured():
    assert findings(results_of()) == [] and headline(results_of()) == []


def test_the_headline_is_speed_latency_and_accuracy():
    assert [what for _, what, _ in headline(sample_results())] == [
        "the throughput of PyTorch FP32",
        "median latency",
        "top-1",
    ]


def test_no_headline_names_a_precision_that_did_not_run():
    rows = [row("pytorch-fp32", 8, "fp32", "fp32", images_per_s=80.0, median_ms=90.0)]
    rows += [row("fp16", 8, "fp16", "fp32", images_per_s=160.0, median_ms=50.0, iterations=30)]
    results = results_of(*rows, scored=[score("fp16", 94.0, 1000)])
    assert [where for _, _, where in headline(results)] == [
        "FP16 (FP32 ran), batch 8",
        "FP16 (FP32 ran), batch 8, 30 calls",
        "FP16 (FP32 ran), 1,000 images",
    ]
    assert all("FP16 (FP32 ran)" in sentence for sentence in findings(results) if "FP16" in sentence)
    assert most_layers(results) == "Most layers ran in FP32: PyTorch FP32, FP16 (FP32 ran)."


def test_a_row_of_another_device_is_never_the_best_and_is_named():
    slow = {"device": "TensorRT 8.6.0, TEST GPU", "median_ms": 3.0, "images_per_s": 2500.0}
    fast = {"device": "ONNX Runtime 1, CPU, 2 threads", "elsewhere": "CPU, 2 threads"}
    rows = [row("int8", 8, **slow), row("onnxruntime-fp32", 8, **fast, median_ms=1.0, images_per_s=7900.0)]
    results = results_of(row("pytorch-fp32", 8, **slow), *rows)
    assert "ONNX" not in " ".join(where for _, _, where in headline(results))
    assert "ONNX Runtime FP32 (on CPU) ran on CPU, 2 threads, not on the GPU: it has no speed-up" in " ".join(
        findings(results)
    )


def test_an_engine_that_loses_too_much_is_not_the_one_to_deploy():
    results = sample_results()
    lossy = [{**row, "loss": 1.2} if row["engine"] == "int8" else row for row in results.scored]
    assert deploy(dataclasses.replace(results, scored=lossy)).startswith("Deploy FP16 (BF16 ran): ")
    assert "its accuracy was not measured" in deploy(dataclasses.replace(results, scored=[]))
    assert deploy(dataclasses.replace(results, found=[])) is None


def test_an_engine_whose_loss_is_not_known_is_named_without_it():
    results = sample_results()
    scores = [score(row["engine"], row["top1"], row["num_samples"]) for row in results.scored]
    assert deploy(dataclasses.replace(results, scored=scores)).endswith("top-1 94.4 % (n = 1,000 images).")
