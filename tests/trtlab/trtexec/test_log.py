"""Are trtexec's logs read whatever their version, and is anything else one clear error?"""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError, LabError
from trtlab.trtexec.log import SUMMARY, dotted_version, parse_log_text, read_log
from trtlab.trtexec.parse import parse_file

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
LOGS = ["v8.2_end_to_end", "v8.4_one_percentile", "v8.6_int8", "v10.16_dynamic"]


def _parse(name: str, **given: object) -> dict:
    return parse_file(FIXTURES / name, **given)


def test_three_percentiles_of_86_are_read() -> None:
    run = _parse("v8.6_int8.log")
    assert run["latency"] == {
        "min_ms": 0.409, "max_ms": 0.741, "mean_ms": 0.421, "median_ms": 0.42,
        "p90_ms": 0.428, "p95_ms": 0.432, "p99_ms": 0.47,
    }  # fmt: skip
    assert (run["tensorrt_version"], run["gpu"]) == ("8.6.1", "NVIDIA H200")
    assert (run["throughput_qps"], run["total_host_walltime_s"], run["total_compute_s"]) == (2372.46, 3.0011, 2.54896)
    assert run["passed"] is True


def test_the_verbose_explanations_do_not_overwrite_the_figures() -> None:
    assert _parse("v8.6_int8.log")["compute"]["median_ms"] == 0.357


def test_warnings_are_kept_with_their_second_line() -> None:
    notes = _parse("v8.6_int8.log", batch=1)["notes"]
    assert len(notes) == 2
    assert notes[0].startswith("Throughput may be bound by Enqueue Time") and "--useCudaGraph" in notes[0]


def test_84_has_one_percentile() -> None:
    run = _parse("v8.4_one_percentile.log")
    assert [run["latency"][f"p{percent}_ms"] for percent in (90, 95)] == [None, None] and run["latency"]["p99_ms"]
    assert (run["logged_precision"], run["tensorrt_version"]) == ("FP32+FP16", "8.4.1")


def test_82_has_the_end_to_end_latency() -> None:
    assert _parse("v8.2_end_to_end.log")["end_to_end"]["median_ms"] == 0.411


def test_images_are_queries_times_an_explicit_batch() -> None:
    run = _parse("v10.16_dynamic.log")
    assert run["images_per_s"] == 8 * run["throughput_qps"] and run["batch"] == 8
    assert run["notes"] == []


def test_an_implicit_batch_is_already_counted() -> None:
    assert _parse("v8.2_end_to_end.log")["images_per_s"] == 40000


def test_the_parts_of_a_latency_add_up() -> None:
    for name in LOGS:
        run = _parse(f"{name}.log")
        parts = sum(run[part]["mean_ms"] for part in ("h2d", "compute", "d2h"))
        assert run["latency"]["mean_ms"] == pytest.approx(parts, abs=1e-3)


def test_utf16_as_powershell_redirects_it_is_read(tmp_path: Path) -> None:
    text = (FIXTURES / "v8.6_int8.log").read_text()
    (tmp_path / "utf16.log").write_text(text, encoding="utf-16")
    assert read_log(tmp_path / "utf16.log") == parse_log_text(text)


def test_windows_line_ends_and_bare_lines_are_read() -> None:
    text = (FIXTURES / "v10.16_dynamic.log").read_text()
    bare = "\n".join(line.partition("] [I] ")[2] or line for line in text.splitlines())
    assert parse_log_text(text.replace("\n", "\r\n")) == parse_log_text(text)
    assert parse_log_text(bare) == parse_log_text(text)


def test_several_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    joined = tmp_path / "all.log"
    joined.write_text("".join((FIXTURES / f"{name}.log").read_text() for name in LOGS))
    assert [run.tensorrt_version for run in read_log(joined)] == ["8.2.5", "8.4.1", "8.6.1", "10.16.1"]
    assert parse_file(joined)["tensorrt_version"] == "10.16.1" and "number 4" in parse_file(joined)["notes"][-1]
    assert parse_file(joined, batch=16)["tensorrt_version"] == "8.6.1"  # the last without another batch
    assert parse_file(joined, number=1)["tensorrt_version"] == "8.2.5"
    assert "4 runs" in parse_file(joined, number=1)["notes"][-1]
    for number in (0, 5):
        with pytest.raises(InputError, match=f"--run {number}: .* holds 4 runs; give 1 to 4"):
            parse_file(joined, number=number)


def test_a_failed_run_names_what_was_looked_for_and_trtexecs_error() -> None:
    with pytest.raises(InputError, match=r"=== Performance summary ===.*deserializeCudaEngine"):
        read_log(FIXTURES / "v10.16_failed.log")


@pytest.mark.parametrize(
    ("cut", "named"),
    [("Throughput", "Throughput"), ("Latency: min", "Latency"), ("GPU Compute Time: min", "GPU Compute Time")]
    + [("percentile(99%) = 1.0 ms", "GPU Compute Time"), ("Total Host Walltime", "Total Host Walltime")],
)
def test_a_summary_that_is_cut_off_names_the_missing_line(cut: str, named: str) -> None:
    text = (FIXTURES / "v10.16_dynamic.log").read_text()
    position = text.index(cut, text.index(SUMMARY))
    if cut.startswith("percentile"):
        text = text[: text.index("median", text.index("GPU Compute Time: min"))]
    with pytest.raises(InputError, match=f"cut off.*'{named}'"):
        parse_log_text(text[: position + 4])


@pytest.mark.parametrize("content", [b"", b"  \n", b"\x00\xff" * 500, b"\xff\xfe\x00", b"hello", b"[1, 2", b"{}"])
def test_anything_else_is_one_clear_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "some.log").write_bytes(content)
    with pytest.raises(InputError) as caught:
        parse_file(tmp_path / "some.log", "m", "fp32", 1)
    assert "\n" not in str(caught.value) and "some.log" in str(caught.value)


@pytest.mark.parametrize("path", ["missing.log", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError, match="cannot read the log"):
        read_log(path)


def test_a_figure_that_is_not_finite_is_refused() -> None:
    text = (FIXTURES / "v10.16_dynamic.log").read_text().replace("Throughput: 1200.5", "Throughput: 1e999")
    with pytest.raises(InputError, match="no finite number"):
        parse_log_text(text)


@pytest.mark.parametrize(
    ("banner", "dotted"),
    [("8601", "8.6.1"), ("8205", "8.2.5"), ("100200", "10.2.0"), ("101601", "10.16.1"), ("x", "x")],
)
def test_the_banners_version_is_dotted(banner: str, dotted: str) -> None:
    assert dotted_version(banner) == dotted


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


@settings(max_examples=150)
@given(st.binary(max_size=300))
def test_random_bytes_never_crash_the_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.log"
    path.write_bytes(content)
    with pytest.raises(LabError):
        parse_file(path, "m", "fp32", 1)
