"""Rows, tables and reading a results folder. The numbers are made up."""

import dataclasses
import json

import pytest

from tests.trtlab.sample_results import ENGINE, sample_results, write_folder
from trtcpu.errors import InputError
from trtlab.ran_in import elsewhere, most_layers, ran_text
from trtlab.report.findings import findings, headline
from trtlab.report.folder import load_results
from trtlab.report.results import (
    AccuracyRow,
    BuildRow,
    Results,
    Row,
    accuracy_table,
    measurement_table,
    order_names,
    pretty_name,
    summary,
    with_speedup,
)
from trtlab.report.tables import report_tables


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


def test_without_pytorch_the_speedup_is_over_onnx_runtime_and_says_so():
    rows = [Row("onnxruntime-fp32", 1, images_per_s=50.0), Row("int8", 1, images_per_s=150.0)]
    scores = [AccuracyRow("onnxruntime-fp32", 90.0, 99.0, 100), AccuracyRow("int8", 88.0, 99.0, 100, 2.0, 0.5, 3.5, 4)]
    results = Results(ENGINE, "m", "d", with_speedup(rows), scores)
    assert [row.speedup for row in results.rows] == [1.0, 3.0] and results.baseline == "onnxruntime-fp32"
    said = " ".join(
        [*findings(results), *(table.note for table in report_tables(results)), *map(str, headline(results))]
    )
    assert "PyTorch" not in said and said.count("ONNX Runtime FP32") >= 5
    beside = Results(ENGINE, "m", "d", with_speedup([*rows, Row("pytorch-fp32", 1, images_per_s=75.0)]))
    assert [row.speedup for row in beside.rows] == [pytest.approx(2 / 3), 2.0, 1.0]
    assert beside.baseline == "pytorch-fp32"


def test_without_a_baseline_on_the_device_the_note_says_that_there_is_no_speedup():
    rows = [Row("onnxruntime-fp32", 1, images_per_s=50.0, elsewhere="CPU"), Row("int8", 1, images_per_s=150.0)]
    results = Results(ENGINE, "m", "d", with_speedup(rows))
    (table,) = report_tables(results)
    assert table.note.startswith("No speed-up: ONNX Runtime FP32 was not measured on this device.")


def test_what_ran_elsewhere_has_no_speedup_and_is_no_base_of_one():
    away = Row("onnxruntime-fp32", 1, images_per_s=300.0, elsewhere="CPU, 2 threads")
    rows = with_speedup([Row("pytorch-fp32", 1, images_per_s=30.0), away, Row("int8", 1, images_per_s=150.0)])
    assert [row.speedup for row in rows] == [1.0, None, 5.0]
    rows = with_speedup([Row("pytorch-fp32", 1, images_per_s=30.0, elsewhere="CPU"), Row("int8", 1, images_per_s=9.0)])
    assert [row.speedup for row in rows] == [None, None]


@pytest.mark.parametrize(
    ("latency", "images_per_s", "streams", "apart"),
    [
        ({"median_ms": 4.0}, 2000.0, None, None),
        ({"median_ms": 4.0}, 2000.0 * 2.99, None, None),
        ({"median_ms": 4.0}, 2000.0 / 2.99, None, None),
        ({"median_ms": 4.0}, 2000.0 * 4, None, 4.0),
        ({"median_ms": 4.0}, 2000.0 / 4, None, 4.0),
        ({"median_ms": 4.0}, 2000.0 * 4, 4, None),
        ({"median_ms": 4.0}, 2000.0 * 16, 4, 4.0),
        ({"median_ms": 4.0}, 2000.0 / 4, 4, 4.0),
        ({"mean_ms": 40.0}, 2000.0, None, 10.0),
        ({"median_ms": 4.0, "mean_ms": 40.0}, 2000.0, None, None),
        ({}, 2000.0, None, None),
        ({"median_ms": 4.0}, None, None, None),
    ],
)
def test_throughput_times_latency_is_what_was_in_flight(latency, images_per_s, streams, apart):
    row = Row("int8", 8, **latency, images_per_s=images_per_s, streams=streams)
    assert row.apart == (apart and pytest.approx(apart))


def test_a_row_that_contradicts_itself_has_no_speedup_and_is_no_base_of_one():
    sound, wrong = {"median_ms": 4.0, "images_per_s": 2000.0}, {"median_ms": 4.0, "images_per_s": 20.0}
    rows = with_speedup([Row("pytorch-fp32", 8, **sound), Row("fp16", 8, **wrong), Row("int8", 8, **sound)])
    assert [row.speedup for row in rows] == [1.0, None, 1.0]
    assert [row.speedup for row in with_speedup([Row("pytorch-fp32", 8, **wrong), Row("int8", 8, **sound)])] == [
        None
    ] * 2


def test_the_summary_names_what_contradicts_itself():
    results = Results(ENGINE, "m", "d", [Row("int8", 8, median_ms=4.0, images_per_s=20.0), Row("fp16", 8)])
    assert summary(results, {})["contradictions"] == [{"name": "int8", "batch": 8, "apart": pytest.approx(100.0)}]


def test_times_of_a_row_that_was_measured_again_win(tmp_path):
    path = write_folder(tmp_path) / "throughput.json"
    content = json.loads(path.read_text())
    again = next(row for row in content["rows"] if (row["name"], row["batch"]) == ("int8", 8))
    again |= {"median_ms": 27.0, "p99_ms": 30.0, "iterations": 120}
    path.write_text(json.dumps(content))
    row = load_results(tmp_path).row("int8", 8)
    assert (row.median_ms, row.p99_ms, row.iterations) == (27.0, 30.0, 120) and row.size_bytes


@pytest.mark.parametrize("digits", [400, 4000])
@pytest.mark.parametrize(
    ("part", "key"),
    [("latency", "mean_ms"), ("throughput", "images_per_s"), ("accuracy", "loss"), ("accuracy", "num_samples")]
    + [("checks", "value"), ("latency", "size_bytes")],
)
def test_a_number_with_hundreds_of_digits_is_one_short_line(tmp_path, part, key, digits):
    path = write_folder(tmp_path) / f"{part}.json"
    content = json.loads(path.read_text())
    content["rows"][0][key] = "many"
    path.write_text(json.dumps(content).replace('"many"', "9" * digits))
    with pytest.raises(InputError, match=rf"{part}.json is damaged: {key} is 9{{50}}… \({digits} characters\)"):
        load_results(tmp_path)


def test_an_error_of_any_size_is_told(tmp_path):
    path = write_folder(tmp_path) / "checks.json"
    content = json.loads(path.read_text())
    content["rows"][0] |= {"value": 1e30, "passed": False}
    path.write_text(json.dumps(content))
    assert load_results(tmp_path).checks[0].value == 1e30


@pytest.mark.parametrize("seconds", ["1e999", "9" * 400, "NaN", "-1", '"long"', "[]"])
def test_a_record_of_a_build_that_cannot_be_is_left_out(tmp_path, seconds):
    folder = write_folder(tmp_path, ("latency",))
    record = {"precision": "fp16", "profile": {"min": 1, "opt": 2, "max": 4}, "layers": 3, "calibration": None}
    record |= {"layer_precisions": {"fp16": 3}, "seconds": "long"}
    (folder / "engines").mkdir()
    (folder / "engines" / "m_fp16.engine.json").write_text(json.dumps(record).replace('"long"', seconds))
    row = {"name": "int8", "precision": "int8", "profile": "1", "layers": 3, "layer_precisions": "", "calibration": "–"}
    (folder / "summary.json").write_text(json.dumps({"builds": [row | {"seconds": "long"}]}).replace('"long"', seconds))
    assert load_results(folder).builds == []


@pytest.mark.parametrize(
    ("row", "title"),
    [
        (Row("fp16", 1, "fp16", "fp16"), "FP16"),
        (Row("fp16", 1, "fp16", "bf16"), "FP16 (BF16 ran)"),
        (Row("fp16", 1, "fp16", None), "FP16"),
        (Row("int8+fp16", 1, "int8+fp16", "int8"), "INT8+FP16"),
        (Row("pytorch-fp32", 1, "fp32", "tf32"), "PyTorch FP32 (TF32 ran)"),
        (Row("onnxruntime-fp32", 1, "fp32", "fp32", elsewhere="CPU, 2 threads"), "ONNX Runtime FP32 (on CPU)"),
        (Row("my_engine", 1, "?", "fp16"), "my_engine"),
    ],
)
def test_a_title_says_what_the_name_does_not(row, title):
    assert Results(ENGINE, "m", "d", [row]).title(row.name) == title


@pytest.mark.parametrize(
    ("counts", "most"),
    [({"int8": 55, "other": 60}, "int8"), ({"bf16": 5, "fp32": 6}, "fp32"), ({"other": 3}, None), ({}, None)],
)
def test_most_layers_are_counted_without_those_that_do_not_say(counts, most):
    assert most_layers(counts) == most


@pytest.mark.parametrize(
    ("asked", "ran_in", "text"),
    [
        ("fp16", "bf16", "BF16 (asked FP16)"),
        ("fp16", "fp32", "FP32 (asked FP16)"),
        ("tf32", "tf32", "TF32"),
        ("?", "int8", "INT8"),
        ("fp16", None, None),
    ],
)
def test_the_column_says_what_ran_and_what_was_asked(asked, ran_in, text):
    assert ran_text(asked, ran_in) == text


@pytest.mark.parametrize(
    ("name", "device", "where"),
    [
        ("tensorrt", "ONNX Runtime 1.23.2, CPU, 16 threads", "CPU, 16 threads"),
        ("tensorrt", "ONNX Runtime 1.23.2, CUDAExecutionProvider", None),
        ("tensorrt", "PyTorch 2.11.0+cu130, NVIDIA H200", None),
        ("cpu", "PyTorch 2.15.0, CPU, 2 threads", None),
        ("tensorrt", None, None),
    ],
)
def test_only_the_cpu_beside_a_gpu_is_elsewhere(name, device, where):
    assert elsewhere({"name": name}, device) == where


def test_summary_has_the_fields_that_readers_of_the_json_rely_on():
    content = summary(sample_results(), {"report_html": "report.html"})
    assert set(content["engine"]) == {"name", "version", "device"}
    times = {"mean_ms", "median_ms", "p95_ms", "p99_ms", "std_ms"}
    wanted = {"name", "batch", "images_per_s", "size_bytes", "peak_memory_bytes", "top1", "top5", "speedup"} | times
    assert all(wanted <= set(row) for row in content["rows"])
    assert (content["model"], content["data"], content["measured"]) == ("resnet50", "digits", "2026-01-02")
    assert content["versions"] == sample_results().versions
    assert all(
        {"iterations", "executions", "precision", "ran_in", "device", "elsewhere"} <= set(row)
        for row in content["rows"]
    )
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


def test_an_old_file_is_read_without_percentiles_that_its_calls_cannot_give(tmp_path):
    path = write_folder(tmp_path) / "latency.json"
    content = json.loads(path.read_text())
    del content["versions"], content["measured"]
    for row in content["rows"]:
        del row["ran_in"], row["precision"]
        row["iterations"] = {1: 9, 4: 10, 8: 20, 16: 99, 32: 100}[row["batch"]]
    path.write_text(json.dumps(content))
    rows = [row for row in load_results(tmp_path).rows if row.name == "int8"]
    there = {row.batch: [row.p90_ms is not None, row.p95_ms is not None, row.p99_ms is not None] for row in rows}
    assert there == {1: [0, 0, 0], 4: [1, 0, 0], 8: [1, 1, 0], 16: [1, 1, 0], 32: [1, 1, 1]}
    assert all(row.median_ms and row.ran_in is None for row in rows)


def test_percentiles_of_an_unknown_number_of_calls_are_not_told(tmp_path):
    path = write_folder(tmp_path, ("latency",)) / "latency.json"
    path.write_text(path.read_text().replace('"iterations"', '"calls"'))
    assert all(row.p90_ms is row.p99_ms is None and row.median_ms for row in load_results(tmp_path).rows)


def test_the_dates_of_a_run_that_was_continued_are_the_first_and_the_last(tmp_path):
    path = write_folder(tmp_path) / "accuracy.json"
    path.write_text(path.read_text().replace("2026-01-02", "2026-01-05"))
    assert load_results(tmp_path).measured == "2026-01-02 to 2026-01-05"


@pytest.mark.parametrize(
    ("typed", "said"), [(None, "entropy, 64 images"), ("m_int8.engine.onnx", "entropy, 64 images, as Q/DQ")]
)
def test_the_engines_say_whether_their_scales_stand_in_the_model(tmp_path, typed, said):
    folder = write_folder(tmp_path, ("latency",))
    record = {"precision": "int8", "profile": {"min": 1, "opt": 2, "max": 4}, "layers": 3, "seconds": 1}
    record |= {"layer_precisions": {"int8": 3}, "calibration": {"calibrator": "entropy", "images": 64}}
    (folder / "engines").mkdir()
    (folder / "engines" / "m_int8.engine.json").write_text(json.dumps(record | {"typed_onnx": typed}))
    assert [build.calibration for build in load_results(folder).builds] == [said]


def test_a_folder_kept_without_its_engines_still_knows_how_they_were_built(tmp_path):
    build = BuildRow("int8", "int8", "1–8–8", 57, "55 int8, 2 other", "entropy, 64 images", 12.5)
    results = dataclasses.replace(sample_results(), builds=[build])
    (write_folder(tmp_path) / "summary.json").write_text(json.dumps(summary(results, {})))
    assert load_results(tmp_path).builds == [build]
    (tmp_path / "summary.json").write_text('{"builds": [{"name": "int8"}]}')
    assert load_results(tmp_path).builds == []


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
