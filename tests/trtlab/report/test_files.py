"""A bench JSON and a parsed log are read; what cannot have been measured is one line. Made-up numbers."""

import json
from types import SimpleNamespace

import pytest

from tests.trtlab.sample_results import ENGINE, RAN_IN, at
from tests.trtlab.trtexec.test_bench_log import logged
from trtcpu.errors import InputError
from trtlab.report.files import load_file
from trtlab.report.table import plain
from trtlab.trtexec.bench_log import format_log
from trtlab.trtexec.parse import parse_file

ROW = {"name": "fp16", "batch": 8, "median_ms": 2.0, "mean_ms": 2.1, "images_per_s": 3900.0, "iterations": 200}
PARSED = {
    "format": "trtexec log", "source": "a.log", "model": "resnet50", "precision": "fp16", "batch": 8,
    "gpu": "TEST GPU", "tensorrt_version": "10.16.1", "command": "trtexec --loadEngine=e", "queries": 250,
    "images_per_s": 3900.0, "total_host_walltime_s": 0.5,
    "latency": {"min_ms": 1.9, "max_ms": 3.0, "mean_ms": 2.1, "median_ms": 2.0, "p99_ms": 2.9}, "notes": [],
}  # fmt: skip


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def only(results):
    """The one row, where nothing is known None."""
    (row,) = plain(results.rows)
    return SimpleNamespace(**row)


def bench(*rows, **facts):
    return {"engine": ENGINE, "rows": list(rows), **facts}


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
    times = [2.0] * 150
    result = logged(batch=4, device=ENGINE["device"], tensorrt_version=None, times_ms=times)
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
        ({"command": "trtexec --streams=8 --batch=8"}, 8, False),
        ({"command": "trtexec --infStreams=8"}, 8, False),
        ({"command": "trtexec --streams=2"}, 2, True),
        ({"command": "trtexec --streams=0"}, None, True),
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
        (json.dumps(bench({**ROW, "device": "\ud800"})), "text that cannot be written"),
    ],
)
def test_another_file_is_one_line_that_says_what_to_give(tmp_path, text, complaint):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        load_file(path)
