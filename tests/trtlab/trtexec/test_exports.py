"""Are trtexec's JSON exports summarised as NumPy would, and damaged ones refused in one line?"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError, LabError
from trtlab.trtexec.parse import parse_file, summarise_export

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"
TIMES = json.loads((FIXTURES / "times.json").read_text())
PROFILE = json.loads((FIXTURES / "profile.json").read_text())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def test_exported_times_are_told_by_content_and_summarised() -> None:
    run = parse_file(FIXTURES / "times.json", "resnet50", "fp16", 4)
    latencies = [1.15, 1.35, 1.7]
    assert run["format"] == "trtexec exportTimes"
    assert (run["queries"], run["latency"]["p99_ms"]) == (3, None), "p99 needs a hundred"
    assert run["latency"]["median_ms"] == pytest.approx(np.median(latencies))
    assert run["latency"]["std_ms"] == pytest.approx(np.std(latencies))
    assert run["throughput_qps"] == pytest.approx(3 / 4.5e-3)
    assert run["images_per_s"] == pytest.approx(4 * run["throughput_qps"])


def test_times_that_7_exported_are_summarised_like_todays() -> None:
    names = {"startH2dMs": "startInMs", "endH2dMs": "endInMs", "h2dMs": "inMs"}
    names |= {"startD2hMs": "startOutMs", "endD2hMs": "endOutMs", "d2hMs": "outMs"}
    older = [{names.get(key, key): value for key, value in entry.items() if "Enq" not in key} for entry in TIMES]
    expected = summarise_export(TIMES)
    assert expected["enqueue"]["mean_ms"] > 0
    assert summarise_export(older) == {**expected, "enqueue": None}


def test_an_exported_profile_is_told_by_content() -> None:
    run = parse_file(FIXTURES / "profile.json", "resnet50", "fp16", 4)
    assert (run["format"], run["iterations"], run["total_ms"]) == ("trtexec exportProfile", 100, 3.0)
    gemm = {"name": "/fc/Gemm", "time_ms": 1.0, "average_ms": 0.01, "median_ms": 0.01, "percent": 33.3333}
    assert run["layers"][1] == gemm
    assert "images_per_s" not in run


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


@pytest.mark.parametrize("value", [{}, [], [1], [{}], "text", None, [{"count": 3}], [{"count": 1}, {"name": 3}]])
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


@settings(max_examples=200)
@given(st.sampled_from([TIMES, PROFILE]), st.integers(0, 2), st.sampled_from([*TIMES[0], "count", "name"]), JSON)
def test_a_damaged_export_is_read_or_refused_and_never_crashes(good: list, index: int, key: str, value: object) -> None:
    damaged = [dict(entry) for entry in good]
    damaged[index][key] = value
    try:
        assert summarise_export(damaged)["format"].startswith("trtexec")
    except LabError as error:
        assert str(error)
