"""A bench JSON and a parsed log are read, alone and side by side; what cannot have been measured is one line.

Of several sources one device is at home; no other shares a headline or a speed-up. The numbers are made up.
"""

import dataclasses
import json
from types import SimpleNamespace

import pytest

from tests.trtlab.sample_results import (
    ENGINE,
    PARSED,
    RAN_IN,
    ROW,
    at,
    bench,
    sample_results,
    write,
    write_folder,
)
from tests.trtlab.trtexec.test_command import logged
from trtcpu.errors import InputError
from trtlab.report.findings import deploy, headline
from trtlab.report.pages import make_report
from trtlab.report.results import plain
from trtlab.report.sources import load_file, load_sources
from trtlab.trtexec.bench_log import format_log
from trtlab.trtexec.parse import parse_file

GPU = {"name": "tensorrt", "version": "10.16", "device": "TensorRT 10.16, NVIDIA TEST"}
FAST = {**ROW, "name": "int8", "median_ms": 0.1, "mean_ms": 0.1, "images_per_s": 80000.0}
BASE = {**ROW, "name": "pytorch-fp32", "median_ms": 10.0, "mean_ms": 10.0, "images_per_s": 800.0}


def on_gpu(*rows, device=GPU["device"], **facts):
    return {"engine": {**GPU, "device": device}, "rows": list(rows), **facts}


def speedups(results):
    """The speed-up of each row, by its title."""
    return {row["title"]: row["speedup"] for row in plain(results.rows)}


def only(results):
    """The one row, where nothing is known None."""
    (row,) = plain(results.rows)
    return SimpleNamespace(**row)


def test_parsed_logs_of_one_device_are_one_set_of_rows(tmp_path):
    told = {"fp16_8": {}, "fp16_1": {"batch": 1, "images_per_s": 490.0}, "int8_8": {"precision": "int8"}}
    paths = [write(tmp_path / f"{name}.json", {**PARSED, **parts}) for name, parts in told.items()]
    results = load_sources(paths)
    assert [(row.engine, row.batch) for row in results.rows.itertuples()] == [("fp16", 1), ("fp16", 8), ("int8", 8)]
    assert results.rows.machine.isna().all() and results.subject == "resnet50"
    assert results.settings["sources"] == "fp16_8, fp16_1, int8_8"


def test_another_machine_has_neither_headline_nor_speedup_and_says_its_name(tmp_path):
    home = write(tmp_path / "home.json", bench(BASE, ROW))
    away = write(tmp_path / "away.json", on_gpu(BASE, FAST))
    results = load_sources([home, away])
    assert speedups(results) == {
        "PyTorch FP32": 1.0, "FP16": 3900 / 800, "PyTorch FP32 · away": None, "INT8 · away": None,
    }  # fmt: skip
    assert results.machines == {"away": GPU["device"]} and results.device == ENGINE["device"]
    assert results.title("int8", "away") == "INT8 · away"
    assert [where.partition(",")[0] for _, _, where in headline(results)] == ["FP16", "FP16"]
    swapped = load_sources([away, home])
    assert list(speedups(swapped).values()) == [1.0, 100.0, None, None]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            {"name": "onnxruntime-fp32", "images_per_s": 400.0},
            {"PyTorch FP32": 1.0, "FP16": 3900 / 800, "ONNX Runtime FP32 · two": None, "FP16 · two": None},
        ),
        (
            {"median_ms": 20.0, "mean_ms": 20.0, "images_per_s": 400.0},
            {"PyTorch FP32": 1.0, "FP16": 3900 / 800, "PyTorch FP32 · two": 1.0, "FP16 · two": 3900 / 400},
        ),
    ],
    ids=["another baseline", "the same one"],
)
def test_a_second_run_of_the_machine_keeps_its_speedups_unless_they_are_over_another_baseline(
    tmp_path, other, expected
):
    one, two = bench(BASE, ROW), bench({**BASE, **other}, ROW)
    results = load_sources([write(tmp_path / "one.json", one), write(tmp_path / "two.json", two)])
    assert speedups(results) == expected and results.rows.machine.isna().all()


def test_two_models_are_not_taken_for_one(tmp_path):
    told = [{**PARSED, "model": model} for model in ("resnet50", "vit_b_16")]
    results = load_sources([write(tmp_path / f"{number}.json", parts) for number, parts in enumerate(told)])
    assert list(results.rows.title) == ["FP16", "FP16 · 1"] and results.subject == "resnet50, vit_b_16"


def test_no_engine_of_one_model_is_recommended_over_one_of_another_and_a_report_read_again_still_knows(tmp_path):
    seg, bert = (write(tmp_path / f"{model}.json", bench(ROW, FAST, model=model)) for model in ("seg", "bert"))
    for results in (load_sources([seg, bert]), load_sources([make_report([seg, bert]).summary])):
        assert deploy(results).startswith("No engine is recommended: these are of different models (seg, bert)")
        assert headline(results) == []
    again = write(tmp_path / "again.json", bench(ROW, model="seg"))
    away = write(tmp_path / "away.json", on_gpu(ROW, model="bert"))
    assert deploy(load_sources([seg, again, away])).startswith("Deploy INT8: "), "another machine is never recommended"


def test_a_log_that_names_no_device_is_on_a_machine_of_its_own(tmp_path):
    paths = [write(tmp_path / f"{name}.json", {**PARSED, "gpu": None}) for name in "ab"]
    assert load_sources(paths).machines["b"].startswith("TensorRT, machine of b")
    one = load_sources([paths[0], write(tmp_path / "c.json", {**PARSED, "gpu": None, "precision": "int8"})], "my A100")
    assert one.rows.machine.isna().all() and one.device == "my A100"


def test_a_baseline_on_the_processor_beside_the_other_gpu_stays_apart_from_it(tmp_path):
    ort = {**ROW, "name": "onnxruntime-fp32", "device": "ONNX Runtime 1, CPU, 16 threads"}
    paths = [write(tmp_path / "a.json", bench(ROW)), write(tmp_path / "b.json", on_gpu(ROW, ort))]
    results = load_sources(paths)
    row = at(results, "onnxruntime-fp32", 8, "b")
    assert (row.elsewhere, row.machine) == ("CPU, 16 threads", GPU["device"])
    assert [list(part.rows.engine) for part in results.by_machine()] == [["fp16"], ["fp16"]], "it is in no chart"


def test_accuracies_follow_their_rows(tmp_path):
    away = dataclasses.replace(sample_results(), engine=GPU)
    results = load_sources([write_folder(tmp_path / "run"), write_folder(tmp_path / "other", results=away)])
    assert set(results.accuracy.title) <= set(results.rows.title)
    assert len(results.accuracy) == 10


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "names nothing"),
        (["a.json", "a.json"], "twice"),
        (["nothing.json"], "cannot read the file of measurements"),
    ],
)
def test_no_source_and_one_given_twice_are_errors(tmp_path, names, complaint):
    write(tmp_path / "a.json", bench(ROW))
    with pytest.raises(InputError, match=complaint):
        load_sources([tmp_path / name for name in names])


def test_more_rows_than_a_report_can_show_are_refused(tmp_path):
    many = [{**ROW, "batch": batch, "images_per_s": None} for batch in range(1, 40)]
    with pytest.raises(InputError, match="39 rows of 39 batch sizes; a report shows at most 500 of 32"):
        load_sources([write(tmp_path / "a.json", bench(*many))])
    assert len(load_sources([write(tmp_path / "a.json", bench(*many[:32]))]).rows) == 32


def test_a_folder_without_measurements_names_no_file_that_cannot_be_read(tmp_path):
    write(tmp_path / "fp32.engine.json", {"engine_path": "fp32.engine"})
    with pytest.raises(InputError, match="or name a file of trtlab bench --output or parse-log") as error:
        load_sources([tmp_path])
    assert "fp32.engine.json" not in str(error.value)


def test_a_bench_json_of_any_name_is_read(tmp_path):
    baseline = {"name": "pytorch-fp32", "batch": 8, "median_ms": 20.0, "images_per_s": 400.0, "ran_in": RAN_IN["fp32"]}
    path = write(tmp_path / "tuesday.json", bench(baseline, ROW, measured="2026-01-02", versions={"a": "1"}))
    results = load_file(path)
    row = at(results, "fp16", 8)
    assert (row.median_ms, row.images_per_s, row.speedup) == (2.0, 3900.0, 3900 / 400)
    assert (row.iterations, row.executions) == (200, 200)
    assert (results.device, results.measured, results.versions) == (ENGINE["device"], "2026-01-02", {"a": "1"})
    assert results.missing == ["accuracy", "checks", "profile"] and results.subject == "Engines"


def test_a_parsed_log_is_one_row_of_its_precision(tmp_path):
    row = only(load_file(write(tmp_path / "a.json", PARSED)))
    assert (row.engine, row.batch, row.median_ms, row.p99_ms, row.iterations) == ("fp16", 8, 2.0, 2.9, 250)
    assert (row.device, row.images_per_s, row.speedup) == ("TensorRT 10.16.1, TEST GPU", 3900.0, None)


def test_what_parse_log_writes_is_read(tmp_path):
    result = logged(batch=4, device=ENGINE["device"], tensorrt_version=None, times_ms=[2.0] * 150)
    (tmp_path / "bench.log").write_text(format_log([result]))
    parsed = parse_file(tmp_path / "bench.log", "m", "int8", 4)
    row = only(load_file(write(tmp_path / "bench.json", parsed)))
    assert (row.engine, row.batch, row.median_ms, row.iterations) == ("int8", 4, 2.0, 150)
    assert row.images_per_s == pytest.approx(2000.0) and row.device == ENGINE["device"]


def test_a_short_log_has_a_mean_and_calls_that_follow_from_its_time(tmp_path):
    latency = {"min_ms": 1.0, "max_ms": 3.0, "mean_ms": 2.0, "median_ms": None, "p99_ms": None}
    short = {**PARSED, "latency": latency, "queries": None, "images_per_s": 4000.0}
    row = only(load_file(write(tmp_path / "a.json", short)))
    assert (row.typical_ms, row.median_ms, row.iterations) == (2.0, None, 250), "4000 images/s in 0.5 s, 8 a query"


@pytest.mark.parametrize(
    ("told", "device", "expected"),
    [
        ({"gpu": None}, None, "TensorRT, machine of a (not named there; --device names it)"),
        ({"gpu": None}, "the lab's A100", "the lab's A100"),
        ({"gpu": "TEST GPU", "tensorrt_version": None}, "the lab's A100", "TensorRT, TEST GPU"),
        ({"gpu": "CPU engine, OpenVINO 1, X"}, None, "CPU engine, OpenVINO 1, X"),
    ],
)
def test_the_device_is_the_log_s_then_what_was_typed(tmp_path, told, device, expected):
    assert load_file(write(tmp_path / "a.json", {**PARSED, **told}), device).device == expected


@pytest.mark.parametrize(
    ("told", "streams", "contradicts"),
    [
        ({}, None, True),
        ({"streams": 8}, 8, False),
        ({"streams": 2}, 2, True),
        ({"streams": 0}, None, True),
    ],
)
def test_several_streams_explain_a_throughput_above_one_over_latency(tmp_path, told, streams, contradicts):
    """4 ms for 8 images is 2,000 images/s in one stream; 16,000 are 8 streams, and 8 times too many for one."""
    latency = {**PARSED["latency"], "median_ms": 4.0}
    row = only(load_file(write(tmp_path / "a.json", {**PARSED, "latency": latency, "images_per_s": 16000.0, **told})))
    assert row.streams == streams and (row.apart is not None) == contradicts


def test_a_summary_is_read_with_its_accuracy_and_its_own_speedups(tmp_path):
    away = {**ROW, "source": "H200", "machine": "TensorRT, H200", "speedup": None}
    rows = plain(load_file(write(tmp_path / "summary.json", bench({**ROW, "speedup": 2.5, "top1": 95.0}, away))).rows)
    assert [(row["speedup"], row["machine"]) for row in rows] == [(2.5, None), (None, "TensorRT, H200")]
    assert [row["title"] for row in rows] == ["FP16", "FP16 · H200"] and rows[0]["top1"] == 95.0


DIGITS = int("9" * 400)
NOT_MEASURED = [
    ("mean_ms", DIGITS), ("batch", DIGITS), ("iterations", DIGITS), ("images_per_s", DIGITS), ("size_bytes", DIGITS),
    ("median_ms", float("nan")), ("median_ms", float("inf")), ("images_per_s", float("-inf")), ("median_ms", -3.0),
    ("median_ms", 0), ("median_ms", 1e308), ("images_per_s", 1e-308), ("median_ms", [1, 2]), ("batch", {}),
    ("batch", True), ("batch", 0), ("batch", 1.5), ("median_ms", "2"), ("name", []), ("name", None), ("name", " "),
    ("name", "a\nb"), ("name", "x" * 5000), ("streams", -1), ("device", 5),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), NOT_MEASURED)
def test_a_value_that_cannot_be_is_one_short_line(tmp_path, key, value):
    path = write(tmp_path / "b.json", bench({**ROW, key: value}))
    with pytest.raises(InputError, match="is damaged: ") as caught:
        load_file(path)
    text = str(caught.value)
    assert str(path) in text and key in text and "\n" not in text and len(text) < len(str(path)) + 250


PARSED_WRONG = [
    ({"batch": DIGITS}, "batch is 99"), ({"batch": None}, "again with --batch"), ({"images_per_s": DIGITS}, "damaged"),
    ({"latency": {"mean_ms": -1.0}}, "mean_ms is -1"), ({"latency": {"mean_ms": [1]}}, "mean_ms is"),
    ({"latency": [1], "images_per_s": None}, "neither a latency nor a throughput"), ({"precision": [1]}, "precision"),
    ({"latency": {}, "images_per_s": 0}, "neither a latency nor a throughput"), ({"queries": 1.5}, "iterations is 1.5"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "complaint"), PARSED_WRONG)
def test_a_damaged_parsed_log_is_one_line(tmp_path, told, complaint):
    with pytest.raises(InputError, match=complaint):
        load_file(write(tmp_path / "a.json", {**PARSED, **told}))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("&&&& RUNNING TensorRT.trtexec", "is not a valid file.* read by trtlab parse-log first"),
        ("", "is not a valid file"),
        ("[" * 100_000, "is not a valid file"),
        ("5", "is no JSON of trtlab bench"),
        ('[{"latencyMs": 1}]', "nor what trtlab parse-log makes of"),
        ('{"format": "trtexec exportProfile", "layers": []}', "it has the times of layers"),
        ('{"rows": []}', 'no "engine"'),
        (json.dumps(bench()), "has no rows; measure first: trtlab bench"),
        (json.dumps(bench(5)), 'no list of "rows"'),
        (json.dumps(bench(ROW, ROW)), "two rows of 'fp16' at batch 8"),
        (json.dumps(bench({"name": "fp16", "top1": 95.0, "top5": 99.0})), "give the folder that it lies in"),
    ],
)
def test_another_file_is_one_line_that_says_what_to_give(tmp_path, text, complaint):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        load_file(path)
