"""The commands report, visualize and run, as a shell sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trtlab.sample_results import ENGINE, PARSED, ROW, bench, write, write_folder
from trtcpu.errors import InputError
from trtlab.commands import report

ROOT = Path(__file__).resolve().parents[2]


def call(trtlab, *arguments: object) -> str:
    """Run a command that must succeed, and return what it printed."""
    code, out, err = trtlab(*arguments)
    assert code == 0, err
    return out


def test_report_prints_the_headline_the_device_and_where_it_lies(trtlab, tmp_path):
    output = call(trtlab, "report", "--results", write_folder(tmp_path))
    assert "5.0×  the throughput of PyTorch FP32" in output
    assert f"measured on {ENGINE['device']}" in output and str(tmp_path / "report.html") in output


@pytest.mark.parametrize("told", [False, True])
def test_visualize_draws_only_charts_and_into_the_results_unless_told_otherwise(trtlab, tmp_path, told):
    folder = write_folder(tmp_path / "results")
    charts = tmp_path / "elsewhere" if told else folder / "charts"
    output = call(trtlab, "visualize", "--results", folder, *(["--out", charts] if told else []))
    assert len(output.splitlines()) == len(list(charts.glob("*.png"))) == 5
    assert not (folder / "report.html").exists()


def test_report_takes_several_results_after_one_flag(trtlab, tmp_path):
    home, away = write(tmp_path / "a.json", bench(ROW)), write(tmp_path / "b.json", {**PARSED, "gpu": None})
    output = call(
        trtlab, "report", "--results", home, away, "--device", "TensorRT 10, A100", "--out", tmp_path / "both"
    )
    assert "3,900  images/s (FP16, batch 8)" in output and f"measured on {ENGINE['device']}" in output
    assert "beside it, with charts of its own: b (TensorRT 10, A100)" in output
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        "charts", "measurements.csv", "report.html", "report.md", "summary.json",
    ]  # fmt: skip
    call(trtlab, "report", "--results", home, "--results", away)
    assert (tmp_path / "report" / "report.html").is_file()


def test_report_says_what_contradicts_itself(trtlab, tmp_path):
    output = call(trtlab, "report", "--results", write(tmp_path / "a.json", bench({**ROW, "images_per_s": 39.0})))
    assert "note: Throughput and latency contradict each other: FP16 at batch 8 (102.6 times apart)" in output
    assert "images/s (" not in output and "median latency (" not in output


def test_visualize_draws_a_file_beside_it_as_png_and_svg(trtlab, tmp_path):
    output = call(trtlab, "visualize", "--results", write(tmp_path / "a.json", bench(ROW)))
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert names == {
        f"{name}.{kind}" for name in ("latency_by_precision", "throughput_by_batch") for kind in ("png", "svg")
    }
    assert all(name in output for name in names)


@pytest.mark.parametrize("command", ["report", "visualize"])
def test_a_number_with_400_digits_is_one_line_and_leaves_nothing(trtlab, tmp_path, command):
    path = write(tmp_path / "a.json", bench({**ROW, "mean_ms": int("9" * 400)}))
    code, _, err = trtlab(command, "--results", path)
    assert code == 2 and err.count("\n") == 1 and "mean_ms is 999" in err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", ["report", "visualize"])
def test_a_folder_without_results_is_one_clear_error(trtlab, tmp_path, command):
    code, _, err = trtlab(command, "--results", tmp_path / "nothing")
    assert code == 2 and "measure first: trtlab run" in err
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_does_not_exist_is_refused_before_anything_runs(trtlab, tmp_path):
    code, _, err = trtlab("run", "--engine", "gpu", "--out", tmp_path / "results")
    assert code == 2 and "--engine 'gpu' is unknown; choose one of auto, tensorrt, cpu" in err
    assert not (tmp_path / "results").exists()


def test_the_engine_is_chosen_before_the_backend_is_imported():
    code = (
        "import sys, trtlab.cli; from trtlab.commands import report;"
        "assert 'helpers.engine.backend' not in sys.modules; report._choose_engine('cpu');"
        "import helpers.engine.backend; print(helpers.engine.backend.ENGINE)"
    )
    environment = {**os.environ, "TRT_LAB_ENGINE": "tensorrt", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cpu"


def test_another_engine_than_the_one_in_use_is_refused():
    from helpers.engine.backend import ENGINE as in_use

    other = {"cpu": "tensorrt", "tensorrt": "cpu"}[in_use]
    with pytest.raises(InputError, match="already uses the engine"):
        report._choose_engine(other)
