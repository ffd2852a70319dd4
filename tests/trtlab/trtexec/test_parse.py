"""Are trtexec's logs and exports read whatever their version and form, and is anything else one clear error?"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError, LabError
from trtlab.trtexec.log import STATISTICS, SUMMARY, parse_log_text
from trtlab.trtexec.parse import parse_file, summarise_export

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
LOGS = ("v8.2_end_to_end", "v8.4_one_percentile", "v8.6_int8", "v10.16_dynamic")
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
WARNINGS = [
    "Throughput may be bound by Enqueue Time rather than GPU Compute and the GPU may be under-utilized. If not already "
    "in use, --useCudaGraph (utilize CUDA graphs where possible) may increase the throughput.",
    "GPU compute time is unstable, with coefficient of variance = 2.1%. If not already in use, locking GPU clock "
    "frequency or adding --useSpinWait may improve the stability.",
]
BANNERS = {"8601": "8.6.1", "8205": "8.2.5", "100200": "10.2.0", "101601": "10.16.1", "x": "x"}
SHORT = """\
[I] === Performance summary ===
[I] Throughput: 500.5 qps
[I] Latency: min = 1.9 ms, max = 2.6 ms, mean = 2.1 ms
[I] GPU Compute Time: min = 1.8 ms, max = 2.5 ms, mean = 2 ms
"""
TIMES = json.loads((FIXTURES / "times.json").read_text())


@pytest.fixture
def parsed(tmp_path: Path) -> Callable[..., dict]:
    """Parse a text as a file."""

    def parse(text: str, **given: object) -> dict:
        (tmp_path / "some.log").write_text(text)
        return parse_file(tmp_path / "some.log", **given)

    return parse


def _statistics(*figures: float | None) -> dict[str, float | None]:
    return dict(zip(STATISTICS, figures, strict=True))


@pytest.mark.parametrize(
    ("text", "batch", "expected"),
    [
        (
            OLDER,
            None,
            {
                "latency": _statistics(49.1, 52.5, 50.2, 50.1, None, None, 52.5),
                "end_to_end": _statistics(49.2, 52.6, 50.3, 50.4, None, None, 52.6),
                "enqueue": _statistics(3.5, 4.5, None, 4.0, None, None, None),
                "compute": _statistics(49.0, 52.4, 50.1, 50.0, None, None, 52.4),
                **{"total_host_walltime_s": 3.01, "total_compute_s": 3.006, "workspace_mb": 16.0},
                **{"model": "net", "precision": "fp16", "batch": 2},
                **{"throughput_qps": 39.87, "images_per_s": 39.87, "queries": 30},
            },
        ),
        ("v8.2_end_to_end", None, {"batch": 16, "images_per_s": 40000, "tensorrt_version": "8.2.5"}),
        ("v8.4_one_percentile", None, {"logged_precision": "FP32+FP16", "tensorrt_version": "8.4.1"}),
        (
            "v8.6_int8",
            1,
            {
                "latency": _statistics(0.409, 0.741, 0.421, 0.42, 0.428, 0.432, 0.47),
                # the verbose explanations below the summary, which use the same names, do not count
                "compute": _statistics(0.35, 0.62, 0.358, 0.357, 0.363, 0.366, 0.39),
                "notes": WARNINGS,
                **{"tensorrt_version": "8.6.1", "gpu": "NVIDIA H200", "passed": True},
                **{"throughput_qps": 2372.46, "total_host_walltime_s": 3.0011, "total_compute_s": 2.54896},
            },
        ),
        (
            "v10.16_dynamic",
            None,
            {
                "enqueue": _statistics(0.2, 0.5, 0.25, 0.24, 0.3, 0.32, 0.4),
                "h2d": _statistics(0.38, 0.5, 0.4, 0.4, 0.42, 0.43, 0.45),
                "compute": _statistics(0.71, 1.3, 0.81, 0.8, 0.87, 0.9, 1.0),
                "d2h": _statistics(0.008, 0.02, 0.01, 0.01, 0.012, 0.013, 0.015),
                **{"tensorrt_version": "10.16.1", "images_per_s": 8 * 1200.5, "batch": 8, "notes": []},
            },
        ),
        (
            SHORT,
            4,
            {
                "latency": _statistics(1.9, 2.6, 2.1, None, None, None, None),
                "images_per_s": 4 * 500.5,
                **dict.fromkeys(("h2d", "d2h", "enqueue", "total_host_walltime_s", "gpu", "workspace_mb", "streams")),
            },
        ),
        (f"[I] Memory Pools: workspace: 2048 MiB, dlaSRAM: default\n{SHORT}", 4, {"workspace_mb": 2048.0}),
        (f"[I] Memory Pools: workspace: default, dlaSRAM: default\n{SHORT}", 4, {"workspace_mb": None}),
        (f"[I] Inference Streams: 4\n{SHORT}", 4, {"streams": 4}),
        *(
            (
                f"{SHORT}&&&& PASSED TensorRT.trtexec [TensorRT v{banner}] [b1] # trtexec",
                4,
                {"tensorrt_version": dotted},
            )
            for banner, dotted in BANNERS.items()
        ),
        (
            f"trtexec --onnx='nets/some.onnx' --int8 --fp16 --shapes=x:2x3x8x8\n{SHORT}",
            None,
            {"precision": "int8+fp16", "model": "some"},
        ),
    ],
)
def test_what_each_version_prints_is_read(text: str, batch: int | None, expected: dict, parsed) -> None:
    run = parsed((FIXTURES / f"{text}.log").read_text() if text in LOGS else text, batch=batch)
    assert {key: run[key] for key in expected} == expected


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda line: line.partition("] ")[2] if line.startswith("[") else line,
        lambda line: line.partition("] [I] ")[2] or line,
        lambda line: f"[INFO] {line}",
        lambda line: f"trt-1  | {line}",
        lambda line: f"    {line}",
        lambda line: f"{line}\r",
        lambda line: f"\x1b[32m{line}\x1b[0m",
        lambda line: f"2026-01-02T03:04:05Z {line}",
        lambda line: f"trt-1 | {line.partition('] [I] ')[2] or line}",
    ],
    ids=["no time", "bare", "logger", "compose", "indented", "Windows", "coloured", "time in front", "bare, compose"],
)
def test_what_stands_around_the_lines_changes_nothing(wrapped) -> None:
    assert parse_log_text("\n".join(map(wrapped, WHOLE.splitlines()))) == parse_log_text(WHOLE)


def test_utf16_as_powershell_redirects_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "utf16.log").write_text(WHOLE, encoding="utf-16")
    assert parse_file(tmp_path / "utf16.log")["latency"] == parse_log_text(WHOLE)[0].metrics["latency"]


def test_of_several_runs_the_last_that_fits_is_taken_or_the_one_that_is_named(parsed) -> None:
    text = OLDER + "".join((FIXTURES / f"{name}.log").read_text() for name in LOGS)
    assert parsed(text)["tensorrt_version"] == "10.16.1" and "number 5" in parsed(text)["notes"][-1]
    assert parsed(text, batch=16)["tensorrt_version"] == "8.6.1"  # the last without another batch
    assert parsed(text, model="net", batch=2)["throughput_qps"] == 39.87
    assert parsed(text, number=2)["tensorrt_version"] == "8.2.5" and "5 runs" in parsed(text, number=2)["notes"][-1]
    assert "number 2" in parsed(2 * OLDER, number=2)["notes"][-1], "of two equal runs"
    for number in (0, 6):
        with pytest.raises(InputError, match=f"--run {number}: .*some.log holds 5 runs; give 1 to 5"):
            parsed(text, number=number)


@pytest.mark.parametrize(
    ("text", "end", "named"),
    [
        (WHOLE, "Thro", "Throughput"),
        (WHOLE, "Latency: min", "Latency"),
        (WHOLE, "GPU Compute Time: min", "GPU Compute Time"),
        (WHOLE, "Total Host Wall", "Total Host Walltime"),
        (WHOLE.replace("Throughput: 1200.5", "Throughput: 1e999"), "PASSED", "Throughput"),
        (SHORT, "mean = 2.1", "Latency"),
        (SHORT, "max = 2.6 ms, mean", "Latency"),
        (SHORT, "Latency: min = 1.9 ms", "Latency"),
        (OLDER, "Enqueue Time", "GPU Compute Time"),
    ],
)
def test_a_summary_that_is_cut_off_names_the_missing_line(text: str, end: str, named: str) -> None:
    start = max(text.find(SUMMARY), 0)
    with pytest.raises(InputError, match=f"cut off.*'{named}'"):
        parse_log_text(text[: text.index(end, start) + len(end)])


@pytest.mark.parametrize("content", [b"", b"  \n", b"\x00\xff" * 500, b"\xff\xfe\x00", b"hello", b"[1, 2", b"{}"])
def test_anything_else_is_one_clear_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "some.log").write_bytes(content)
    with pytest.raises(InputError, match=r"^[^\n]*some\.log[^\n]*$"):
        parse_file(tmp_path / "some.log")


@pytest.mark.parametrize("path", ["missing.log", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError, match="cannot read the log"):
        parse_file(path)


@settings(max_examples=150)
@given(st.sampled_from(LOGS), st.data())
def test_a_damaged_log_is_read_or_refused_and_never_crashes(name: str, data: st.DataObject) -> None:
    content = bytearray((FIXTURES / f"{name}.log").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position : position + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=12))
    try:
        runs = parse_log_text(content.decode(errors="replace"))
    except LabError:
        return
    figures = [value for run in runs for metric in run.metrics.values() for value in metric.values()]
    assert all(math.isfinite(value) for value in figures if value is not None)


@pytest.mark.parametrize(
    ("before", "after", "batch", "images"),
    [
        ("[I] Input binding for x with dimensions 8x3x28x28 is created.\n", "", 8, 8),
        ("[I] Input binding for x with dimensions 8x3x28x28 and type fp32 is created.\n", "", 8, 8),
        ("[I] Set shape of input tensor x to: 8x3x28x28\n", "", 8, 8),
        ("[I] Input inference shape : x=8x3x28x28\n", "", 8, 8),
        ("trtexec --loadEngine=e --shapes=x:8x3x28x28\n", "", 8, 8),
        ("$ /usr/src/tensorrt/bin/trtexec --onnx=m --shapes='x':8x3x28x28\n", "", 8, 8),
        ("trtexec --loadEngine=e --batch=16\n", "", 16, 1),
        ("[I] Batch: 16\n", "", 16, 1),
        ("", "&&&& PASSED TensorRT.trtexec [TensorRT v8400] # trtexec --loadEngine=e --batch=16\n", 16, 1),
    ],
)
def test_the_batch_is_found_wherever_the_log_says_it(before: str, after: str, batch: int, images: int, parsed) -> None:
    text = before + SHORT + after
    for run in (parsed(text), parsed(text, batch=batch)):
        assert (run["batch"], run["images_per_s"]) == (batch, images * 500.5)
    with pytest.raises(InputError, match=f"--batch 5 contradicts .*some.log: batch {batch} ran there"):
        parsed(text, batch=5)


def test_without_a_batch_images_per_second_are_open_and_the_note_says_why(parsed) -> None:
    lines = "[I] Input inference shape : voxels=40000x32x10\n[I] Input inference shape : number=1\n"
    for text, inputs in ((SHORT, ""), (lines + SHORT, " (inputs: voxels 40000x32x10, number 1)")):
        run = parsed(text)
        assert run["images_per_s"] is None and run["notes"][-1].endswith(f"give --batch{inputs}")
    assert parsed(lines + SHORT, batch=1)["images_per_s"] == 500.5


@pytest.mark.parametrize("shapes", ["voxels:40000x32x10", "voxels:40000x32x10,places:40000x4"])
def test_a_first_dimension_that_may_be_no_batch_is_named(shapes: str, parsed) -> None:
    text = f"trtexec --loadEngine=e --shapes={shapes}\n{SHORT}"
    found, given = parsed(text), parsed(text, batch=1)
    assert found["batch"] == 40000 and given["images_per_s"] == 500.5
    assert "batch 40000 is the first dimension; inputs: voxels 40000x32x10" in found["notes"][-1]
    assert "batch 1 was given; inputs: voxels" in given["notes"][-1]
    assert parsed(text, batch=40000)["notes"] == []


@pytest.mark.parametrize(
    ("logged", "typed", "fits"),
    [
        ("FP32+INT8", "int8", True), ("FP32+FP16+INT8", "int8+fp16", True), ("FP32+FP16+INT8", "int8", True),
        ("FP32", "fp32", True), ("FP32", "tf32", True), ("FP32+FP16", "best", True),
        ("FP32+INT8", "fp16", False), ("FP32+FP16", "fp32", False), ("FP32", "fp16", False),
    ],
)  # fmt: skip
def test_a_precision_that_the_log_contradicts_is_refused(logged: str, typed: str, fits: bool, parsed) -> None:
    text = f"[I] Precision: {logged}\n{SHORT}"
    if fits:
        assert parsed(text, precision=typed)["precision"] == typed
    else:
        with pytest.raises(InputError, match=rf"--precision {typed} contradicts .*{logged.replace('+', '.')}"):
            parsed(text, precision=typed)


def test_precisions_that_a_command_allows_are_kept_to_and_a_loaded_engine_has_any(parsed) -> None:
    with pytest.raises(InputError, match=r"--precision bf16 contradicts .*FP32\+FP16\+INT8"):
        parsed(f"trtexec --onnx=m --int8 --fp16\n{SHORT}", precision="bf16")
    loaded = f"trtexec --loadEngine=e --batch=1\n[I] Precision: FP32\n{SHORT}"  # a default, which says nothing
    assert parsed(loaded)["precision"] is None and parsed(loaded, precision="int8")["precision"] == "int8"


def test_the_0_qps_of_7_are_its_queries_by_their_time(parsed) -> None:
    zero = OLDER.replace("39.87", "0")
    run = parsed(zero)
    assert run["throughput_qps"] == pytest.approx(60 / 3.01) and "printed 0 qps" in run["notes"][-1]
    with pytest.raises(InputError, match="printed a throughput of 0 queries/s"):
        parsed(zero[zero.index("[02/03/2020-10:00:05] [I] Host Latency") :])


def test_exported_times_are_told_by_content_and_summarised() -> None:
    run = parse_file(FIXTURES / "times.json", "resnet50", "fp16", 4)
    assert (run["format"], run["queries"], run["batch"]) == ("trtexec exportTimes", 3, 4)
    tails = dict.fromkeys(("p90_ms", "p95_ms", "p99_ms"))  # p90 needs ten
    middle = {"mean_ms": 1.4, "median_ms": 1.35, "std_ms": np.std([1.15, 1.35, 1.7]), "min_ms": 1.15, "max_ms": 1.7}
    assert run["latency"] == pytest.approx(middle | tails)
    assert (run["throughput_qps"], run["images_per_s"]) == pytest.approx((3 / 4.5e-3, 4 * 3 / 4.5e-3))


def test_times_that_7_exported_are_summarised_like_todays() -> None:
    names = {"startH2dMs": "startInMs", "endH2dMs": "endInMs", "h2dMs": "inMs"}
    names |= {"startD2hMs": "startOutMs", "endD2hMs": "endOutMs", "d2hMs": "outMs"}
    older = [{names.get(key, key): value for key, value in entry.items() if "Enq" not in key} for entry in TIMES]
    expected = summarise_export(TIMES)
    assert expected["enqueue"]["mean_ms"] > 0
    assert summarise_export(older) == {**expected, "enqueue": None}


def test_an_exported_profile_is_told_by_content() -> None:
    run = parse_file(FIXTURES / "profile.json", "resnet50", "fp16", 4)
    expected = {"format": "trtexec exportProfile", "iterations": 100, "total_ms": 3.0, "average_ms": 0.03}
    gemm = {"name": "/fc/Gemm", "time_ms": 1.0, "average_ms": 0.01, "median_ms": 0.01, "percent": 33.3333}
    assert expected.items() <= run.items() and run["layers"][1] == gemm and "images_per_s" not in run


def test_exports_one_after_the_other_are_runs(tmp_path: Path) -> None:
    path, text = tmp_path / "some.json", json.dumps(TIMES) + "\n" + json.dumps(TIMES[:2])
    path.write_text(text)
    last, named = parse_file(path, batch=1), parse_file(path, batch=1, number=1)
    assert (last["queries"], named["queries"]) == (2, 3) and "holds 2 runs; this is number 2" in last["notes"][0]
    with pytest.raises(InputError, match=r"--run 3: .*some.json holds 2 runs; give 1 to 2"):
        parse_file(path, number=3)
    path.write_text(text[:-9])
    with pytest.raises(InputError, match="some.json: JSON of 1 runs, and then"):
        parse_file(path)


@pytest.mark.parametrize(("start", "note"), [(0.0, []), (1000.0, ["in steps of 0.01 ms only"])])
def test_enqueue_times_below_what_six_digits_can_tell_are_left_out(start: float, note: list[str]) -> None:
    entries = []
    for begin in start + np.arange(10) / 2:
        end, enqueued = float(f"{begin + 0.5:.6g}"), float(f"{begin + 0.0015:.6g}")
        durations = {"h2dMs": 0, "computeMs": 0.5, "d2hMs": 0, "latencyMs": 0.5}
        stamps = {"startEnqMs": float(begin), "endEnqMs": enqueued, "startH2dMs": float(begin), "endD2hMs": end}
        entries.append(stamps | durations)
    run = summarise_export(entries)
    assert [text[-len(note[0]) :] for text in run["notes"]] == note
    assert run["enqueue"] is None if note else run["enqueue"]["median_ms"] == pytest.approx(0.0015)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        [1],
        [{}],
        "text",
        None,
        [1.5, None],
        [{"count": None}, {"name": "x"}],
        [{"count": 3}],
        [{"count": 1}, {"name": 3}],
    ],
)
def test_other_json_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        summarise_export(value)


@pytest.mark.parametrize("figure", ["1.0", None, True, float("nan"), float("inf"), 1e200, 10**400, [1]])
def test_a_figure_that_is_no_number_is_refused(figure: object) -> None:
    with pytest.raises(InputError, match="should be a number"):
        summarise_export([TIMES[0], {**TIMES[1], "computeMs": figure}])


@pytest.mark.parametrize("wrong", [{"endEnqMs": 100.0}, {"endD2hMs": 100.0}, {"computeMs": -1}])
def test_times_that_run_backwards_are_refused(wrong: dict) -> None:
    with pytest.raises(InputError, match="ends before it starts"):
        summarise_export([{**TIMES[0], **wrong}])
