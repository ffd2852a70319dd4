"""Logs as people have them: excerpts, wrappers, old versions; what was typed is held to what is logged."""

import json
from pathlib import Path

import pytest

from trtcpu.errors import InputError
from trtlab.trtexec.log import parse_log_text
from trtlab.trtexec.parse import parse_file

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
WHOLE = (FIXTURES / "v10.16_dynamic.log").read_text()
OLDER = """\
&&&& RUNNING TensorRT.trtexec # trtexec --deploy=net.prototxt --fp16 --batch=2
[02/03/2020-10:00:00] [I] === Model Options ===
[02/03/2020-10:00:00] [I] Format: Caffe
[02/03/2020-10:00:00] [I] Model:
[02/03/2020-10:00:00] [I] Prototxt: net.prototxt
[02/03/2020-10:00:00] [I] Workspace: 16 MB
[02/03/2020-10:00:00] [I] Precision: FP32+FP16
[02/03/2020-10:00:00] [I] Batch: 2
[02/03/2020-10:00:05] [I] Timing trace has 60 queries over 3.01 s
[02/03/2020-10:00:05] [I] Host Latency
[02/03/2020-10:00:05] [I] min: 49.1 ms (end to end 49.2 ms)
[02/03/2020-10:00:05] [I] max: 52.5 ms (end to end 52.6 ms)
[02/03/2020-10:00:05] [I] mean: 50.2 ms (end to end 50.3 ms)
[02/03/2020-10:00:05] [I] median: 50.1 ms (end to end 50.4 ms)
[02/03/2020-10:00:05] [I] percentile: 52.5 ms at 99% (end to end 52.6 ms at 99%)
[02/03/2020-10:00:05] [I] throughput: 39.87 qps
[02/03/2020-10:00:05] [I] walltime: 3.01 s
[02/03/2020-10:00:05] [I] Enqueue Time
[02/03/2020-10:00:05] [I] min: 3.5 ms
[02/03/2020-10:00:05] [I] max: 4.5 ms
[02/03/2020-10:00:05] [I] median: 4.0 ms
[02/03/2020-10:00:05] [I] GPU Compute
[02/03/2020-10:00:05] [I] min: 49.0 ms
[02/03/2020-10:00:05] [I] max: 52.4 ms
[02/03/2020-10:00:05] [I] mean: 50.1 ms
[02/03/2020-10:00:05] [I] median: 50.0 ms
[02/03/2020-10:00:05] [I] percentile: 52.4 ms at 99%
[02/03/2020-10:00:05] [I] total compute time: 3.006 s
&&&& PASSED TensorRT.trtexec # trtexec --deploy=net.prototxt --fp16 --batch=2
"""
SHORT = """\
[I] === Performance summary ===
[I] Throughput: 500.5 qps
[I] Latency: min = 1.9 ms, max = 2.6 ms, mean = 2.1 ms
[I] GPU Compute Time: min = 1.8 ms, max = 2.5 ms, mean = 2 ms
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "some.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda line: line.partition("] ")[2] if line.startswith("[") else line,
        lambda line: f"[INFO] {line}",
        lambda line: f"trt-1  | {line}",
        lambda line: f"    {line}",
        lambda line: f"\x1b[32m{line}\x1b[0m",
        lambda line: f"2026-01-02T03:04:05Z {line}",
        lambda line: f"trt-1 | {line.partition('] [I] ')[2] or line}",
    ],
    ids=[
        "no time",
        "a logger's prefix",
        "compose's prefix",
        "indented",
        "coloured",
        "a time in front",
        "bare, compose",
    ],
)
def test_what_stands_before_the_lines_changes_nothing(wrapped) -> None:
    assert parse_log_text("\n".join(map(wrapped, WHOLE.splitlines()))) == parse_log_text(WHOLE)


def test_a_short_summary_is_read_and_what_it_does_not_print_is_null(tmp_path: Path) -> None:
    run = parse_file(_file(tmp_path, SHORT), batch=4)
    assert run["latency"] == {
        "min_ms": 1.9, "max_ms": 2.6, "mean_ms": 2.1, "median_ms": None, "p90_ms": None, "p95_ms": None, "p99_ms": None,
    }  # fmt: skip
    assert (run["h2d"], run["d2h"], run["enqueue"], run["total_host_walltime_s"], run["gpu"]) == (None,) * 5
    assert run["images_per_s"] == 4 * 500.5


def test_without_a_batch_images_per_second_are_open_and_the_note_says_why(tmp_path: Path) -> None:
    run = parse_file(_file(tmp_path, SHORT))
    assert run["images_per_s"] is None and "give --batch" in run["notes"][-1]


@pytest.mark.parametrize("cut", ["mean = 2.1", "max = 2.6 ms, mean", "Latency: min = 1.9 ms"])
def test_an_excerpt_that_ends_within_its_latency_is_cut_off(cut: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cut off.*'Latency'"):
        parse_file(_file(tmp_path, SHORT[: SHORT.index(cut) + len(cut)]))


def test_the_summary_of_7_is_read(tmp_path: Path) -> None:
    run = parse_file(_file(tmp_path, OLDER))
    assert run["latency"] == {
        "min_ms": 49.1, "max_ms": 52.5, "mean_ms": 50.2, "median_ms": 50.1,
        "p90_ms": None, "p95_ms": None, "p99_ms": 52.5,
    }  # fmt: skip
    assert run["end_to_end"]["median_ms"] == 50.4 and run["enqueue"]["mean_ms"] is None
    assert run["compute"]["p99_ms"] == 52.4 and (run["total_host_walltime_s"], run["total_compute_s"]) == (3.01, 3.006)
    assert (run["model"], run["precision"], run["batch"], run["workspace_mb"]) == ("net", "fp16", 2, 16.0)
    assert (run["throughput_qps"], run["images_per_s"], run["queries"]) == (39.87, 39.87, 30)


def test_of_two_runs_of_7_the_last_is_taken_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = _file(tmp_path, OLDER + OLDER.replace("39.87", "41.5"))
    assert parse_file(path)["throughput_qps"] == 41.5 and "number 2" in parse_file(path)["notes"][-1]
    assert parse_file(path, number=1)["throughput_qps"] == 39.87


def test_a_summary_of_7_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cut off.*'GPU Compute Time'"):
        parse_file(_file(tmp_path, OLDER[: OLDER.index("[02/03/2020-10:00:05] [I] GPU Compute")]))


@pytest.mark.parametrize(
    ("before", "batch", "images"),
    [
        ("[I] Input binding for x with dimensions 8x3x28x28 is created.\n", 8, 8),
        ("[I] Input binding for x with dimensions 8x3x28x28 and type fp32 is created.\n", 8, 8),
        ("[I] Set shape of input tensor x to: 8x3x28x28\n", 8, 8),
        ("[I] Input inference shape : x=8x3x28x28\n", 8, 8),
        ("trtexec --loadEngine=e --shapes=x:8x3x28x28\n", 8, 8),
        ("$ /usr/src/tensorrt/bin/trtexec --onnx=m --shapes='x':8x3x28x28\n", 8, 8),
        ("trtexec --loadEngine=e --batch=16\n", 16, 1),
        ("[I] Batch: 16\n", 16, 1),
    ],
)
def test_the_batch_is_found_wherever_the_log_says_it(before: str, batch: int, images: int, tmp_path: Path) -> None:
    run = parse_file(_file(tmp_path, before + SHORT))
    assert (run["batch"], run["images_per_s"]) == (batch, images * 500.5)
    with pytest.raises(InputError, match=f"--batch 5 contradicts .*some.log: batch {batch} ran there"):
        parse_file(_file(tmp_path, before + SHORT), batch=5)


@pytest.mark.parametrize(
    ("logged", "typed", "fits"),
    [
        ("FP32+INT8", "int8", True), ("FP32+FP16+INT8", "int8+fp16", True), ("FP32+FP16+INT8", "int8", True),
        ("FP32", "fp32", True), ("FP32", "tf32", True), ("FP32+FP16", "best", True),
        ("FP32+INT8", "fp16", False), ("FP32+FP16", "fp32", False), ("FP32", "fp16", False),
    ],
)  # fmt: skip
def test_a_precision_that_the_log_contradicts_is_refused(logged: str, typed: str, fits: bool, tmp_path: Path) -> None:
    path = _file(tmp_path, f"[I] Precision: {logged}\n{SHORT}")
    if fits:
        assert parse_file(path, precision=typed)["precision"] == typed
    else:
        with pytest.raises(InputError, match=rf"--precision {typed} contradicts .*{logged.replace('+', '.')}"):
            parse_file(path, precision=typed)


def test_precision_and_model_are_the_command_s_where_no_line_says_them(tmp_path: Path) -> None:
    path = _file(tmp_path, f"trtexec --onnx='nets/some.onnx' --int8 --fp16 --shapes=x:2x3x8x8\n{SHORT}")
    assert (parse_file(path)["precision"], parse_file(path)["model"]) == ("int8+fp16", "some")
    for typed in ("fp32", "bf16"):
        with pytest.raises(InputError, match=rf"--precision {typed} contradicts .*FP32\+FP16\+INT8"):
            parse_file(path, precision=typed)


def test_the_precision_of_a_run_that_loads_an_engine_is_not_in_its_log(tmp_path: Path) -> None:
    path = _file(tmp_path, f"trtexec --loadEngine=e --batch=1\n[I] Precision: FP32\n{SHORT}")
    assert parse_file(path)["precision"] is None and parse_file(path, precision="int8")["precision"] == "int8"


def test_workspace_version_gpu_and_streams_are_in_one_record(tmp_path: Path) -> None:
    options = "[I] Memory Pools: workspace: 2048 MiB, dlaSRAM: default\n[I] Inference Streams: 4\n"
    banner, rest = WHOLE.split("\n", 1)
    run = parse_file(_file(tmp_path, f"{banner}\n{options}{rest}"))
    assert (run["workspace_mb"], run["streams"]) == (2048.0, 4)
    assert (run["tensorrt_version"], run["gpu"]) == ("10.16.1", parse_log_text(WHOLE)[0].device)
    assert run["gpu"]


def test_a_workspace_left_to_trtexec_is_null(tmp_path: Path) -> None:
    run = parse_file(_file(tmp_path, f"[I] Memory Pools: workspace: default, dlaSRAM: default\n{SHORT}"))
    assert (run["workspace_mb"], run["streams"]) == (None, None)


def test_times_that_7_exported_are_summarised_like_todays(tmp_path: Path) -> None:
    today = json.loads((FIXTURES / "times.json").read_text())
    names = {"startH2dMs": "startInMs", "endH2dMs": "endInMs", "h2dMs": "inMs"}
    names |= {"startD2hMs": "startOutMs", "endD2hMs": "endOutMs", "d2hMs": "outMs"}
    older = [{names.get(key, key): value for key, value in entry.items() if "Enq" not in key} for entry in today]
    path = tmp_path / "times.json"
    path.write_text(json.dumps(older))
    found, expected = parse_file(path, batch=4), parse_file(FIXTURES / "times.json", batch=4)
    assert found["enqueue"] is None and expected["enqueue"]["mean_ms"] > 0
    for key in ("latency", "h2d", "compute", "d2h", "throughput_qps", "images_per_s"):
        assert found[key] == expected[key]


@pytest.mark.parametrize("given", [None, 16])
def test_the_command_of_an_excerpt_may_stand_in_its_last_line_alone(given: int | None, tmp_path: Path) -> None:
    banner = "&&&& PASSED TensorRT.trtexec [TensorRT v8400] # trtexec --loadEngine=net16.trt --batch=16\n"
    run = parse_file(_file(tmp_path, SHORT + banner), batch=given)
    assert (run["batch"], run["images_per_s"], run["tensorrt_version"]) == (16, 500.5, "8.4.0")


@pytest.mark.parametrize("shapes", ["voxels:40000x32x10", "voxels:40000x32x10,places:40000x4"])
def test_a_first_dimension_that_may_be_no_batch_is_named(shapes: str, tmp_path: Path) -> None:
    path = _file(tmp_path, f"trtexec --loadEngine=e --shapes={shapes}\n{SHORT}")
    found, given = parse_file(path), parse_file(path, batch=1)
    assert (
        found["batch"] == 40000
        and "batch 40000 is the first dimension; inputs: voxels 40000x32x10" in found["notes"][-1]
    )
    assert given["images_per_s"] == 500.5 and "batch 1 was given; inputs: voxels" in given["notes"][-1]
    assert parse_file(path, batch=40000)["notes"] == []


def test_inputs_of_several_first_dimensions_leave_the_batch_open(tmp_path: Path) -> None:
    lines = "[I] Input inference shape : voxels=40000x32x10\n[I] Input inference shape : number=1\n"
    path = _file(tmp_path, lines + SHORT)
    assert parse_file(path)["images_per_s"] is None and "voxels 40000x32x10, number 1" in parse_file(path)["notes"][-1]
    assert parse_file(path, batch=1)["images_per_s"] == 500.5


def test_executions_of_an_implicit_batch_are_counted_and_not_their_images(tmp_path: Path) -> None:
    traced = "trtexec --deploy=n --batch=128\n[I] Timing trace has 1792 queries over 3.0 s\n"
    assert parse_file(_file(tmp_path, traced + SHORT))["queries"] == 14


def test_the_0_qps_of_7_are_its_queries_by_their_time(tmp_path: Path) -> None:
    zero = OLDER.replace("39.87", "0")
    run = parse_file(_file(tmp_path, zero))
    assert run["throughput_qps"] == pytest.approx(60 / 3.01) and "printed 0 qps" in run["notes"][-1]
    with pytest.raises(InputError, match="printed a throughput of 0 queries/s"):
        parse_file(_file(tmp_path, zero[zero.index("[02/03/2020-10:00:05] [I] Host Latency") :]))


def test_exports_one_after_the_other_are_runs(tmp_path: Path) -> None:
    first = (FIXTURES / "times.json").read_text()
    second = json.dumps(json.loads(first)[:2])
    path = _file(tmp_path, f"{first}\n{second}\n")
    last, named = parse_file(path, batch=1), parse_file(path, batch=1, number=1)
    assert (last["queries"], named["queries"]) == (2, 3) and "holds 2 runs; this is number 2" in last["notes"][0]
    with pytest.raises(InputError, match=r"--run 3: .*some.log holds 2 runs; give 1 to 2"):
        parse_file(path, number=3)
    with pytest.raises(InputError, match="some.log: JSON of 1 runs, and then"):
        parse_file(_file(tmp_path, first + second[:40]))


def test_enqueue_times_below_what_six_digits_can_tell_are_left_out(tmp_path: Path) -> None:
    def entry(start: float) -> dict[str, float]:
        end, enqueued = float(f"{start + 0.5:.6g}"), float(f"{start + 0.0015:.6g}")
        stamps = {"startEnqMs": start, "endEnqMs": enqueued, "startH2dMs": start, "endH2dMs": start}
        return {**stamps, "startComputeMs": start, "endComputeMs": end, "startD2hMs": end, "endD2hMs": end}

    late, early = ([entry(first + i / 2) for i in range(10)] for first in (1000.0, 0.0))
    run = parse_file(_file(tmp_path, json.dumps(late)), batch=1)
    assert run["enqueue"] is None and "in steps of 0.01 ms" in run["notes"][0]
    assert parse_file(_file(tmp_path, json.dumps(early)), batch=1)["enqueue"]["median_ms"] == pytest.approx(0.0015)
