"""Rows, tables and reading a results folder. The numbers are made up."""

import json

import pytest

from helpers.errors import InputError
from solutions.pipeline.results import (
    Row,
    accuracy_table,
    measurement_table,
    order_names,
    pretty_name,
    summary,
    with_speedup,
)
from solutions.pipeline.results_folder import load_results
from tests.pipeline.sample_results import ENGINE, sample_results, write_folder


def test_speedup_is_throughput_over_pytorch_at_the_same_batch():
    rows = with_speedup(
        [
            Row("pytorch-fp32", 1, images_per_s=30.0),
            Row("pytorch-fp32", 8, images_per_s=40.0),
            Row("int8", 1, images_per_s=150.0),
            Row("int8", 8, images_per_s=240.0),
            Row("int8", 32, images_per_s=300.0),
        ]
    )
    assert [row.speedup for row in rows] == [1.0, 1.0, 5.0, 6.0, None]


def test_summary_has_the_fields_that_readers_of_the_json_rely_on():
    content = summary(sample_results(), {"report_html": "report.html"})
    assert set(content["engine"]) == {"name", "version", "device"}
    times = {"mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms"}
    wanted = {"name", "batch", "images_per_s", "size_bytes", "peak_memory_bytes", "top1", "top5", "speedup"} | times
    assert all(wanted <= set(row) for row in content["rows"])
    assert (content["model"], content["data"]) == ("resnet50", "digits")
    assert content["files"] == {"report_html": "report.html"}
    json.dumps(content, allow_nan=False)


def test_names_are_ordered_baselines_first_then_by_falling_precision():
    names = ["int8", "mine", "fp16", "pytorch-fp32", "fp32", "onnxruntime-fp32"]
    assert order_names(names) == ["pytorch-fp32", "onnxruntime-fp32", "fp32", "fp16", "int8", "mine"]
    assert pretty_name("int8") == "INT8" and pretty_name("pytorch-fp32") == "PyTorch FP32"
    assert pretty_name("my_engine") == "my_engine"


def test_the_table_groups_batches_and_keeps_gaps_as_nan():
    frame = measurement_table(sample_results((1, 8)))
    assert list(frame["batch"]) == [1] * 7 + [8] * 7
    assert list(frame["name"][:3]) == ["pytorch-fp32", "onnxruntime-fp32", "fp32"]
    assert frame["size_bytes"].isna().sum() == 2, "PyTorch has no engine file, at either batch"


def test_the_accuracy_table_is_ordered_like_the_charts():
    assert list(accuracy_table(sample_results())["name"]) == ["pytorch-fp32", "fp32", "tf32", "fp16", "int8"]


def test_a_folder_is_read_back_as_it_was_measured(tmp_path):
    assert sorted(load_results(write_folder(tmp_path)).rows, key=str) == sorted(sample_results().rows, key=str)


def test_missing_stages_are_named(tmp_path):
    results = load_results(write_folder(tmp_path, ("latency",)))
    assert results.missing == ["throughput", "accuracy", "checks", "profile"]
    assert all(row.images_per_s is None and row.speedup is None and row.top1 is None for row in results.rows)


def test_accuracy_alone_can_be_read(tmp_path):
    results = load_results(write_folder(tmp_path, ("accuracy",)))
    assert results.rows == [] and len(results.accuracy) == 5


def test_an_empty_folder_says_what_to_run(tmp_path):
    with pytest.raises(InputError, match="has no latency.json.* measure first: trtlab run"):
        load_results(tmp_path)


def test_measurements_of_two_devices_are_never_put_side_by_side(tmp_path):
    write_folder(tmp_path)
    path = tmp_path / "accuracy.json"
    path.write_text(path.read_text().replace(ENGINE["device"], "another device"))
    with pytest.raises(InputError, match="mixes measurements of 2 devices.*accuracy.json: another device"):
        load_results(tmp_path)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda content: "", "is not a valid latency record"),
        (lambda content: [], '"engine"'),
        (lambda content: {**content, "engine": {"name": "x"}}, '"engine"'),
        (lambda content: {**content, "rows": {}}, '"rows"'),
        (lambda content: {**content, "rows": [5]}, '"rows"'),
        (lambda content: {**content, "rows": [{"batch": 1}]}, "name"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 0}]}, "batch is 0"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": None}]}, "batch is None"),
        (lambda content: {**content, "rows": [{"name": 3, "batch": 1}]}, "name is 3"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 1, "mean_ms": "fast"}]}, "mean_ms is 'fast'"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 1, "mean_ms": float("nan")}]}, "mean_ms is nan"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 1, "mean_ms": True}]}, "mean_ms is True"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 1.5}]}, "batch is 1.5"),
        (lambda content: {**content, "rows": [{"name": "a", "batch": 1, "median_ms": -2.0}]}, "median_ms is -2.0"),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path, damage, complaint):
    path = write_folder(tmp_path) / "latency.json"
    damaged = damage(json.loads(path.read_text()))
    path.write_text(damaged if damaged == "" else json.dumps(damaged))
    with pytest.raises(InputError, match="latency") as caught:
        load_results(tmp_path)
    assert complaint in str(caught.value)
