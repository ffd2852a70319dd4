"""The visible checks of step 8 on small texts and figures: what is read in them, and what is said of a miss."""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from helpers import feedback
from helpers.feedback.chart_parts import check_device, check_labels
from helpers.feedback.checklist import NotYet
from helpers.feedback.page_parts import check_page
from helpers.feedback.text_parts import check_length, check_quotes
from helpers.missed import Missed
from helpers.probes.figures import drawn_as, recorded_figures
from helpers.probes.measurements import BATCHES, made_up
from helpers.probes.quotes import count_words, quotes


@pytest.fixture(autouse=True)
def _artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path / "artifacts"))


def _report(seed: int = 1) -> dict:
    sizes = {name: 10_000_000 + place for place, name in enumerate(("onnx", "fp32", "fp16", "int8"))}
    return made_up(seed).report(sizes, {name: size // 9 for name, size in sizes.items() if name != "onnx"})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4.82× as fast", ["4.82 ×"]),
        ("**1,234.5 images/s**, 2.9x, 3 img/s", ["1234.5 images/s", "2.9 ×", "3 images/s"]),
        ("12 images per second, 1.4 times as much", ["12 images/s", "1.4 ×"]),
        ("92.61 % top-1, −0.12 points, 26.1 MB, 5.3 ms", ["92.61 %", "-0.12 points", "26.1 MB", "5.3 ms"]),
        ("224×224 images, batch 32, 8 bits, int8, TensorRT 10.3", []),
        ("at most 50 ms, a budget of 20 ms, the 10 % rule, under 1.5 points", []),
    ],
)
def test_figures_are_read_with_their_units(text: str, found: list[str]) -> None:
    assert [f"{quote.value:g} {quote.unit}" for quote in quotes(text) if not quote.free] == found


def test_words_are_what_stands_between_white_space() -> None:
    assert count_words("INT8 is 3.2× faster — **really**.\n\n| a |") == (6, 9)


@pytest.mark.parametrize("words", [199, 401])
def test_an_analysis_has_200_to_400_words(words: int) -> None:
    assert check_length("word " * 200) == "200 words"
    with pytest.raises(Missed, match=f"found {words}"):
        check_length("word " * words)


def test_a_figure_that_the_report_does_not_hold_is_named() -> None:
    report = _report()
    times, rates = report["latency_ms"]["int8"], report["throughput"]["int8"]
    text = f"{times['1']:.2f} ms, {times['32']:.1f} ms, {rates['8']:,.0f} images/s, {rates['32'] / rates['1']:.2f}×, "
    text += f"{report['accuracy']['int8']['top1']:.1f} %"
    assert check_quotes(text, report).startswith("5 figures")
    with pytest.raises(Missed, match="'0.0123 ms' matches nothing"):
        check_quotes(f"{text}, 0.0123 ms", report)
    round_one = {**report, "accuracy": {"int8": {"top1": 71.98, "top5": 90.02}}}
    assert "72.0 %" in check_quotes(text.rpartition(",")[0] + ", 72.0 %", round_one)
    with pytest.raises(Missed, match="at least 5 figures"):
        check_quotes(text.partition(",")[0], report)


@pytest.mark.parametrize("seed", range(30))
def test_made_up_runs_saturate_where_they_say(seed: int) -> None:
    run = made_up(seed)
    for name, series in run.images_per_s.items():
        gains = {batch: series[larger] / series[batch] for batch, larger in zip(BATCHES, BATCHES[1:], strict=False)}
        assert next((batch for batch, gain in gains.items() if gain < 1.1), BATCHES[-1]) == run.saturation[name]
    assert run.images_per_s[run.fastest[0]][run.fastest[1]] == max(
        rate for series in run.images_per_s.values() for rate in series.values()
    )


def test_figures_are_recorded_however_they_are_saved(tmp_path: Path) -> None:
    with recorded_figures() as drawn:
        plt.plot([1, 2], [3.5, 4.5], label="int8")
        plt.xlabel("batch")
        plt.ylabel("median latency (ms)")
        plt.title("made-up\ndevice 7")
        plt.savefig(tmp_path / "latency.png")
        figure = Figure()
        figure.subplots().bar(["a", "b"], [7.25, 9])
        figure.supylabel("images / s")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        (tmp_path / "throughput.png").write_bytes(buffer.getvalue())
    assert not plt.get_fignums()
    latency, throughput = (drawn_as(drawn, tmp_path / name) for name in ("latency.png", "throughput.png"))
    assert {3.5, 4.5} <= set(latency.numbers) and {7.25, 9.0} <= set(throughput.numbers)
    assert "median latency (ms)" in check_labels("latency.png", latency)
    assert check_device("latency.png", latency, ["made-up device 7"])
    with pytest.raises(Missed, match="no x label"):
        check_labels("throughput.png", throughput)
    with pytest.raises(Missed, match="made-up device 7"):
        check_device("throughput.png", throughput, ["made-up device 7"])
    assert drawn_as(drawn, tmp_path / "speedup.png") is None


def test_a_page_that_links_a_chart_that_is_not_there_is_told() -> None:
    with pytest.raises(Missed, match=r"no file latency\.png"):
        check_page('<img src="latency.png">', {"latency.png": None}, _report())


def test_the_missing_engine_is_named_before_the_report_runs(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(NotYet):
        feedback.check_report(lambda source, target: 1 / 0)
    assert "run step 01_export" in capsys.readouterr().out


def test_an_analysis_that_is_typed_is_told_so(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(NotYet):
        feedback.check_analysis(lambda report: {}, lambda report: "INT8 is 4.83× as fast with 95 images/s. " * 30)
    shown = capsys.readouterr().out
    assert "matches nothing in the report that was passed in" in shown and "figures.fastest_name" in shown
