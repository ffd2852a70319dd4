"""The commands report, visualize and run, as a shell sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from helpers.errors import InputError
from solutions.pipeline.commands import report
from tests.pipeline.sample_results import ENGINE, write_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    app = typer.Typer(pretty_exceptions_enable=False)
    report.register(app)
    return app


def call(app: typer.Typer, *arguments: object) -> str:
    """Run a command that must succeed, and return what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_report_prints_the_headline_the_device_and_where_it_lies(app, tmp_path):
    output = call(app, "report", "--results", write_folder(tmp_path))
    assert "5.0×  the throughput of PyTorch FP32" in output
    assert f"measured on {ENGINE['device']}" in output and str(tmp_path / "report.html") in output


def test_visualize_draws_only_charts(app, tmp_path):
    folder = write_folder(tmp_path / "results")
    output = call(app, "visualize", "--results", folder, "--out", tmp_path / "charts")
    assert len(output.splitlines()) == len(list((tmp_path / "charts").glob("*.png"))) == 5
    assert not (folder / "report.html").exists()


def test_visualize_draws_into_the_results_unless_told_otherwise(app, tmp_path):
    call(app, "visualize", "--results", write_folder(tmp_path))
    assert len(list((tmp_path / "charts").glob("*.png"))) == 5


@pytest.mark.parametrize("command", ["report", "visualize"])
def test_a_folder_without_results_is_one_clear_error(app, tmp_path, command):
    with pytest.raises(InputError, match="measure first: trtlab run"):
        call(app, command, "--results", tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_does_not_exist_is_refused_before_anything_runs(app, tmp_path):
    with pytest.raises(InputError, match="--engine 'gpu' is unknown; choose one of auto, tensorrt, cpu"):
        call(app, "run", "--engine", "gpu", "--out", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_the_engine_is_chosen_before_the_backend_is_imported():
    code = (
        "import sys; from solutions.pipeline.commands import report; assert 'helpers.backend' not in sys.modules;"
        "report._choose_engine('cpu'); import helpers.backend; print(helpers.backend.ENGINE)"
    )
    environment = {**os.environ, "TRT_LAB_ENGINE": "tensorrt", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "cpu"


def test_another_engine_than_the_one_in_use_is_refused():
    from helpers.backend import ENGINE as in_use

    other = {"cpu": "tensorrt", "tensorrt": "cpu"}[in_use]
    with pytest.raises(InputError, match="already uses the engine"):
        report._choose_engine(other)
