"""Sentences and headline numbers follow from the rows; nothing is said of what was not measured."""

import dataclasses

import pytest

from solutions.pipeline.findings import Saturation, best_row, findings, headline, saturation
from solutions.pipeline.results import AccuracyRow, CheckRow, LayerRow, Results, Row, with_speedup
from tests.pipeline.sample_results import ENGINE, sample_results


def results_of(*rows: Row, **parts) -> Results:
    return Results(ENGINE, "resnet50", "digits", with_speedup(rows), **parts)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(1, 100.0), (2, 150.0), (4, 160.0), (8, 165.0)], Saturation(2, 150.0, pytest.approx(10 / 150))),
        ([(1, 100.0), (2, 150.0), (4, 250.0)], Saturation(4, 250.0, None)),
        ([(1, 100.0), (2, 101.0), (4, 150.0), (8, 151.0)], Saturation(4, 150.0, pytest.approx(1 / 150))),
        ([(1, 100.0), (2, 90.0)], Saturation(1, 100.0, pytest.approx(-0.1))),
        ([(1, 100.0), (8, 200.0)], Saturation(8, 200.0, None)),
        ([(1, 100.0), (8, 120.0)], Saturation(1, 100.0, pytest.approx(1.2 ** (1 / 3) - 1))),
        ([(1, 100.0)], None),
        ([], None),
    ],
)
def test_throughput_saturates_where_no_later_doubling_gains_a_tenth(points, expected):
    assert saturation(points) == expected


def test_the_fastest_row_is_the_one_with_most_images_a_second():
    results = results_of(Row("pytorch-fp32", 1, images_per_s=50.0), Row("int8", 1, images_per_s=40.0))
    assert best_row(results).name == "pytorch-fp32"
    assert best_row(results, engines_only=True).name == "int8"


def test_the_findings_follow_the_numbers_when_int8_is_slower():
    results = results_of(Row("pytorch-fp32", 1, images_per_s=50.0), Row("int8", 1, images_per_s=40.0))
    said = " ".join(findings(results))
    assert "PyTorch FP32 at batch 1 had the highest throughput: 50 images/s." in said and "INT8 0.8×" in said


@pytest.mark.parametrize(
    ("loss", "low", "high", "changed", "expected"),
    [
        (0.6, 0.1, 1.1, 12, "INT8 lost 0.60 points of top-1 against PyTorch FP32 (95 % interval of the loss +0.10"),
        (-0.3, -0.9, 0.3, 9, "INT8 gained 0.30 points"),
        (0.1, -0.2, 0.4, 3, "no difference that this many images can tell from chance"),
        (0.0, -0.3, 0.3, 0, "INT8: right on exactly the images that PyTorch FP32 is right on"),
    ],
)
def test_the_loss_of_accuracy_is_told_with_its_interval(loss, low, high, changed, expected):
    results = results_of(accuracy=[AccuracyRow("int8", 94.0, 99.0, 1000, loss, low, high, changed)])
    assert any(expected in sentence for sentence in findings(results))


def test_a_loss_beyond_chance_is_not_called_chance():
    results = results_of(accuracy=[AccuracyRow("int8", 94.0, 99.0, 1000, 0.6, 0.1, 1.1)])
    assert not any("chance" in sentence for sentence in findings(results))


@pytest.mark.parametrize(("p95_ms", "told"), [(10.4, False), (19.0, True)])
def test_a_run_beside_other_programs_says_so(p95_ms, told):
    rows = [Row("fp32", batch, median_ms=10.0, p95_ms=p95_ms) for batch in (1, 8)]
    said = " ".join(findings(results_of(*rows)))
    assert ("the typical p95 is 1.9 times the median" in said) is told


def test_failed_checks_come_first():
    checks = [CheckRow("fp32", "outputs", True), CheckRow("int8", "outputs", False, 0.9, 0.15, "relative error 0.9")]
    first = findings(dataclasses.replace(sample_results(), checks=checks))[0]
    assert first == "1 of 2 checks failed: INT8: relative error 0.9."


def test_the_bound_is_the_one_that_most_layer_time_is_under():
    times = [("memory", 3.0), ("compute", 1.0), (None, 9.0)]
    layers = [LayerRow("int8", 8, "conv", "Convolution", "int8", ms, 0.0, bound=bound) for bound, ms in times]
    assert "75 % of the layers' time of INT8 at batch 8 is memory-bound" in " ".join(
        findings(results_of(layers=layers))
    )


def test_nothing_is_said_of_what_was_not_measured():
    assert findings(results_of()) == [] and headline(results_of()) == []


def test_the_headline_is_speed_latency_and_accuracy():
    assert [what for _, what, _ in headline(sample_results())] == [
        "PyTorch FP32's throughput",
        "median latency",
        "top-1",
    ]
