"""Rows, tables and reading a results folder. The numbers are made up."""

import dataclasses
import json

import pytest

from tests.trtlab.sample_results import (
    at,
    bench,
    edited,
    results_of,
    row,
    sample_results,
    score,
    speedups,
    write,
    write_folder,
)
from trtcpu.errors import InputError
from trtlab.ran_in import elsewhere, most_layers, ran_text
from trtlab.report.findings import findings, headline
from trtlab.report.folder import load_results
from trtlab.report.pages import report_tables
from trtlab.report.results import WORDS, summary
from trtlab.stats import times_apart


def test_speedup_is_throughput_over_pytorch_at_the_same_batch():
    base = [row("pytorch-fp32", batch, images_per_s=rate) for batch, rate in ((1, 30.0), (8, 40.0))]
    rates = [row("int8", batch, images_per_s=rate) for batch, rate in ((1, 150.0), (8, 240.0), (32, 300.0))]
    assert speedups(results_of(*rates, *base)) == [1.0, 1.0, 5.0, 6.0, None]


def test_without_pytorch_the_speedup_is_over_onnx_runtime_and_says_so():
    rows = [row("onnxruntime-fp32", 1, images_per_s=50.0), row("int8", 1, images_per_s=150.0)]
    results = results_of(
        *rows, scored=[score("onnxruntime-fp32", 90.0, 100), score("int8", 88.0, 100, 2.0, 0.5, 3.5, 4)]
    )
    assert speedups(results) == [1.0, 3.0] and results.baseline == "onnxruntime-fp32"
    said = " ".join(
        [*findings(results), *(table["note"] for table in report_tables(results)), *map(str, headline(results))]
    )
    assert "PyTorch" not in said and said.count("ONNX Runtime FP32") >= 5
    beside = results_of(*rows, row("pytorch-fp32", 1, images_per_s=75.0))
    assert speedups(beside) == [1.0, pytest.approx(2 / 3), 2.0] and beside.baseline == "pytorch-fp32"


def test_without_a_baseline_on_the_device_the_note_says_that_there_is_no_speedup():
    away = row("onnxruntime-fp32", 1, images_per_s=50.0, elsewhere="CPU")
    (table,) = report_tables(results_of(away, row("int8", 1, images_per_s=150.0)))
    assert table["note"].startswith("No speed-up: ONNX Runtime FP32 was not measured on this device.")


def test_with_a_baseline_that_contradicts_itself_the_note_says_that_this_is_why_there_is_no_speedup():
    base = row("onnxruntime-fp32", 1, images_per_s=1177.4, median_ms=0.179)  # in 0.179 ms: 5,587 images/s
    tables = report_tables(results_of(base, row("int8", 1, images_per_s=3000.0)))
    (note,) = [table["note"] for table in tables if "speed-up" in table["columns"]]
    assert note.startswith("No speed-up: ONNX Runtime FP32's throughput and latency contradict each other. ‡: ")


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ({}, {"images_per_s": 4000.0}, [1.0, 2.0, 1.0]),
        ({}, {"images_per_s": 4000.0, "elsewhere": "CPU, 2 threads"}, [1.0, None, 1.0]),
        ({"elsewhere": "CPU"}, {"images_per_s": 4000.0}, [None, None, None]),
        ({}, {"images_per_s": 20.0}, [1.0, None, 1.0]),
        ({"images_per_s": 20.0}, {"images_per_s": 4000.0}, [None, None, None]),
    ],
)
def test_what_ran_elsewhere_or_contradicts_itself_has_no_speedup_and_is_no_base_of_one(base, other, expected):
    sound = {"median_ms": 4.0, "images_per_s": 2000.0}
    rows = [row("pytorch-fp32", 8, **{**sound, **base}), row("fp16", 8, **{**sound, **other}), row("int8", 8, **sound)]
    assert speedups(results_of(*rows)) == expected


@pytest.mark.parametrize(
    ("latency_ms", "images_per_s", "streams", "apart"),
    [
        (4.0, 2000.0, 1, None),
        (4.0, 2000.0 * 2.99, 1, None),
        (4.0, 2000.0 / 2.99, 1, None),
        (4.0, 2000.0 * 4, 1, 4.0),
        (4.0, 2000.0 / 4, 1, 4.0),
        (4.0, 2000.0 * 4, 4, None),
        (4.0, 2000.0 * 16, 4, 4.0),
        (4.0, 2000.0 / 4, 4, 4.0),
        (float("nan"), 2000.0, 1, None),
        (4.0, float("nan"), 1, None),
    ],
)
def test_throughput_times_latency_is_what_was_in_flight(latency_ms, images_per_s, streams, apart):
    assert times_apart(8, latency_ms, images_per_s, streams) == (apart and pytest.approx(apart))


def test_the_median_is_what_contradicts_or_the_mean_of_a_short_log():
    mean = {"mean_ms": 40.0, "images_per_s": 2000.0}
    rows = results_of(row("a", 8, **mean), row("b", 8, **mean, median_ms=4.0)).rows
    assert list(rows.apart.notna()) == [True, False]


def test_times_of_a_row_that_was_measured_again_win(tmp_path):
    again = {"median_ms": 27.0, "p99_ms": 30.0, "iterations": 120}
    with edited(write_folder(tmp_path) / "throughput.json") as content:
        next(row for row in content["rows"] if (row["name"], row["batch"]) == ("int8", 8)).update(again)
    row = at(load_results(tmp_path), "int8", 8)
    assert (row.median_ms, row.p99_ms, row.iterations) == (27.0, 30.0, 120) and row.size_bytes


def test_an_error_of_any_size_is_told(tmp_path):
    with edited(write_folder(tmp_path) / "checks.json") as content:
        content["rows"][0] |= {"value": 1e30, "passed": False}
    assert load_results(tmp_path).checks[0]["value"] == 1e30


BUILT = {"precision": "int8", "profile": {"min": 1, "opt": 2, "max": 4}, "layers": 3, "seconds": 1, "calibration": None}
BUILT |= {"layer_precisions": {"int8": 3}}


def write_build(folder, **told):
    """A folder of latencies and of one engine's record."""
    (write_folder(folder, ("latency",)) / "engines").mkdir()
    return write(folder / "engines" / "m_int8.engine.json", {**BUILT, **told})


@pytest.mark.parametrize("seconds", ["1e999", "9" * 400, "NaN", "-1", '"long"', "[]"])
def test_a_record_of_a_build_that_cannot_be_is_left_out(tmp_path, seconds):
    path = write_build(tmp_path, seconds="it")
    row = {"name": "int8", "precision": "int8", "profile": "1", "layers": 3, "layer_precisions": "", "calibration": "–"}
    for each in (path, write(tmp_path / "summary.json", {"builds": [row | {"seconds": "it"}]})):
        each.write_text(each.read_text().replace('"it"', seconds))
    assert load_results(tmp_path).builds == []


@pytest.mark.parametrize(
    ("row", "title"),
    [
        (row("fp16", 1, "fp16", "fp16"), "FP16"),
        (row("fp16", 1, "fp16", "bf16"), "FP16 (BF16 ran)"),
        (row("fp16", 1, "fp16", None), "FP16"),
        (row("int8+fp16", 1, "int8+fp16", "int8"), "INT8+FP16"),
        (row("pytorch-fp32", 1, "fp32", "tf32"), "PyTorch FP32 (TF32 ran)"),
        (row("onnxruntime-fp32", 1, "fp32", "fp32", elsewhere="CPU, 2 threads"), "ONNX Runtime FP32 (on CPU)"),
        (row("my_engine", 1, "?", "fp16"), "my_engine"),
        (row("int8", 1, "int8", "fp32", how="2 streams"), "INT8, 2 streams (FP32 ran)"),
    ],
)
def test_a_title_says_what_the_name_does_not(row, title):
    assert list(results_of(row).rows.title) == [title]


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


def test_rows_are_ordered_baselines_first_then_by_falling_precision():
    names = ["int8", "mine", "fp16", "pytorch-fp32", "fp32", "onnxruntime-fp32"]
    rows = results_of(*(row(name, batch) for name in names for batch in (8, 1))).rows
    assert list(rows.engine[::2]) == ["pytorch-fp32", "onnxruntime-fp32", "fp32", "fp16", "int8", "mine"]
    assert list(rows.batch[:2]) == [1, 8]
    assert list(sample_results().accuracy.engine) == ["pytorch-fp32", "fp32", "tf32", "fp16", "int8"]


def test_the_tidy_table_has_a_row_for_each_figure_with_its_n_and_unit():
    table = sample_results((1, 8)).table
    assert {*WORDS, "batch", "figure", "value", "n", "unit"} <= set(table)
    assert not table.duplicated(["source", "engine", "how", "batch", "figure"]).any()
    found = table[(table.engine == "int8") & table.batch.isin([0, 8])].set_index("figure")
    assert found.loc["median_ms", ["value", "n", "unit"]].to_list() == [pytest.approx(31.2), 108, "ms"]
    assert found.loc["images_per_s", ["n", "unit"]].to_list() == [64, "images/s"]
    assert found.loc["top1", ["value", "n", "unit", "batch"]].to_list() == [94.4, 1000, "%", 0]
    assert "size_bytes" not in set(table[table.engine == "pytorch-fp32"].figure), "PyTorch has no engine file"


def test_a_folder_is_read_back_as_it_was_measured(tmp_path):
    assert load_results(write_folder(tmp_path)).rows.equals(sample_results().rows)


def test_an_old_file_is_read_without_percentiles_that_its_calls_cannot_give(tmp_path):
    with edited(write_folder(tmp_path) / "latency.json") as content:
        del content["versions"], content["measured"]
        for each in content["rows"]:
            del each["ran_in"], each["precision"]
            each["iterations"] = {1: None, 4: 9, 8: 10, 16: 99, 32: 100}[each["batch"]]
    rows = load_results(tmp_path).rows
    rows = rows[rows.engine == "int8"].set_index("batch")
    there = rows[["p90_ms", "p95_ms", "p99_ms"]].notna().T.to_dict("list")
    assert there == {1: [0, 0, 0], 4: [0, 0, 0], 8: [1, 0, 0], 16: [1, 1, 0], 32: [1, 1, 1]}
    assert rows.median_ms.all() and rows.ran_in.isna().all()


def test_the_dates_of_a_run_that_was_continued_are_the_first_and_the_last(tmp_path):
    with edited(write_folder(tmp_path) / "accuracy.json") as content:
        content["measured"] = "2026-01-05"
    assert load_results(tmp_path).measured == "2026-01-02 to 2026-01-05"


@pytest.mark.parametrize(
    ("typed", "said"), [(None, "entropy, 64 images"), ("m_int8.engine.onnx", "entropy, 64 images, as Q/DQ")]
)
def test_the_engines_say_whether_their_scales_stand_in_the_model(tmp_path, typed, said):
    write_build(tmp_path, calibration={"calibrator": "entropy", "images": 64}, typed_onnx=typed)
    assert [build["calibration"] for build in load_results(tmp_path).builds] == [said]


def test_the_engines_say_at_which_shapes_times_hold_where_more_than_the_batch_varies(tmp_path):
    shapes = {
        "ids": ([1, 4], [2, 16], [4, 64]),
        "image": ([1, 3, 32, 32], [2, 3, 96, 64], [4, 3, 128, 128]),
        "mask": ([1, 8], [2, 8], [4, 8]),  # nothing but the batch
        "state": ([1, 1, 20], [1, 2, 20], [1, 4, 20]),  # no batch at axis 0
        "scale": ([], [], []),
    }
    inputs = [{"name": name, **dict(zip(("min", "opt", "max"), each, strict=True))} for name, each in shapes.items()]
    for told, said in ((inputs, "1–2–4 at ids Nx16, image Nx3x96x64, state 1x2x20"), (inputs[2:3], "1–2–4")):
        folder = tmp_path / str(len(told))
        write_build(folder, inputs=told)
        results = load_results(folder)
        (table,) = [table for table in report_tables(results) if table["title"] == "Engines"]
        assert table["rows"][0][2] == said and ("all times are at" in table["note"]) is (" at " in said)


def test_a_folder_kept_without_its_engines_still_knows_how_they_were_built(tmp_path):
    build = {"engine": "int8", "precision": "int8", "profile": "1–8–8", "layers": 57, "seconds": 12.5}
    build |= {"layer_precisions": "55 int8, 2 other", "calibration": "entropy, 64 images"}
    results = dataclasses.replace(sample_results(), builds=[build])
    (write_folder(tmp_path) / "summary.json").write_text(json.dumps(summary(results, {})))
    assert load_results(tmp_path).builds == [{"source": "", **build}]


def test_measurements_of_two_devices_are_never_put_side_by_side(tmp_path):
    with edited(write_folder(tmp_path) / "accuracy.json") as content:
        content["engine"]["device"] = "another device"
    with pytest.raises(InputError, match="mixes measurements of 2 devices.*accuracy.json: another device"):
        load_results(tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([], 'no "engine"'),
        ({"engine": 5, "rows": []}, 'no "engine"'),
        ({"engine": {"name": "x"}, "rows": []}, 'no "engine"'),
        ({**bench(), "rows": {}}, 'no list of "rows"'),
        (bench(5), 'no list of "rows"'),
        (bench({"batch": 1}), "name is None"),
        (bench({"name": "a", "batch": 0}), "batch is 0"),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path, content, complaint):
    write(write_folder(tmp_path) / "latency.json", content)
    with pytest.raises(InputError, match=f"latency.json is damaged: .*{complaint}"):
        load_results(tmp_path)
