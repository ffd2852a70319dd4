"""The commands report, visualize and run, as a shell sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trtlab.sample_results import ENGINE, PARSED, ROW, bench, write, write_folder
from tests.trtlab.shell import fails, says

ROOT = Path(__file__).resolve().parents[2]


def test_report_prints_the_headline_the_device_and_where_it_lies(trtlab, tmp_path):
    output = says(trtlab("report", "--results", write_folder(tmp_path)))
    assert "5.0×  the throughput of PyTorch FP32" in output
    assert f"measured on {ENGINE['device']}" in output and str(tmp_path / "report.html") in output


def test_report_takes_several_results_after_one_flag(trtlab, tmp_path):
    home, away = write(tmp_path / "a.json", bench(ROW)), write(tmp_path / "b.json", {**PARSED, "gpu": None})
    output = says(
        trtlab("report", "--results", home, away, "--device", "TensorRT 10, A100", "--out", tmp_path / "both")
    )
    assert "3,900  images/s (FP16, batch 8)" in output and f"measured on {ENGINE['device']}" in output
    assert "beside it, with charts of its own and no speed-up: b (TensorRT 10, A100)" in output
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == [
        "charts", "measurements.csv", "report.html", "report.md", "summary.json",
    ]  # fmt: skip
    says(trtlab("report", "--results", home, "--results", away))
    assert (tmp_path / "report" / "report.html").is_file()


def test_report_says_what_contradicts_itself(trtlab, tmp_path):
    output = says(trtlab("report", "--results", write(tmp_path / "a.json", bench({**ROW, "images_per_s": 39.0}))))
    assert "note: Throughput and latency contradict each other: FP16 at batch 8 (102.6 times apart)" in output
    assert "images/s (" not in output and "median latency (" not in output


@pytest.mark.parametrize(("options", "charts"), [((), "charts"), (("--out", "elsewhere"), "elsewhere")])
def test_visualize_draws_only_charts_beside_the_results_unless_told_otherwise(
    trtlab, tmp_path, monkeypatch, options, charts
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.json", bench(ROW))
    drawn = ("latency_by_precision", "throughput_by_batch")
    names = {f"{name}.{kind}" for name in drawn for kind in ("png", "svg")}
    says(trtlab("visualize", "--results", "a.json", *options), *names)
    assert {path.name for path in (tmp_path / charts).iterdir()} == names
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", charts}


@pytest.mark.parametrize("command", ["report", "visualize"])
def test_a_folder_without_results_is_one_clear_error(trtlab, tmp_path, command):
    fails(trtlab(command, "--results", tmp_path / "nothing"), "measure first: trtlab run")
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_does_not_exist_is_refused_before_anything_runs(trtlab, tmp_path):
    fails(trtlab("run", "--engine", "gpu", "--out", tmp_path / "results"), "--engine", '"auto", "tensorrt", "cpu"')
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_the_engine_is_chosen_before_the_backend_is_imported(tmp_path):
    command = [sys.executable, "-m", "trtlab", "run", "--engine", "cpu", "--data", "none", "--out", str(tmp_path / "r")]
    environment = {**os.environ, "TRT_LAB_ENGINE": "none", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "no data set named 'none'" in done.stderr
