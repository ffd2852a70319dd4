"""The whole run on a network and a data set small enough for a test: every stage, on a real engine."""

import json
import math
import shutil
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from helpers.engine.arithmetic import has_half
from helpers.engine.backend import DEVICE, describe
from tests.trtlab.sample_results import results_of, row
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder
from trtcpu.errors import EngineError, InputError
from trtlab.images.preprocessing import Preprocessing, load_batch
from trtlab.running import checks
from trtlab.running.recipe import Recipe
from trtlab.running.run import _print_end, run
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import run_stages

ENGINES = ["fp32", "tf32", "fp16", "int8", "dynamic-fp16"]


@dataclass
class TinyData:
    """Random images whose labels are what the network says of them, so that FP32 is always right."""

    folder: Path
    name: str = "tiny"
    classes: tuple[str, ...] = tuple("0123456789")

    def images(self, split: str, limit: int | None = None, seed: int = 0) -> list[tuple[Path, int]]:
        paths = sorted((self.folder / split).iterdir())[:limit]
        with torch.inference_mode():
            labels = TinyNet().eval()(torch.from_numpy(load_batch(paths, SIZE))).argmax(1)
        return list(zip(paths, labels.tolist(), strict=True))


@pytest.fixture(scope="module")
def tiny_data(tmp_path_factory) -> TinyData:
    folder = tmp_path_factory.mktemp("tiny_data")
    image_folder(folder / "calibration", 16)
    image_folder(folder / "validation", 12)
    return TinyData(folder)


@pytest.fixture(autouse=True)
def tiny_world(monkeypatch, tiny_data):
    """Model and data set come from this file; memory is not measured, since that starts a process an engine."""
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data="digits": TinyNet().eval())
    monkeypatch.setattr("helpers.data.models.WEIGHTS", tiny_data.folder)
    monkeypatch.setattr("helpers.data.models.check_model", lambda name, data: None)
    monkeypatch.setattr("trtlab.running.lab_model.load_dataset", lambda name: tiny_data)
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})
    # three calls of a tiny network on a busy machine may contradict themselves: test_remeasure.py is about that
    monkeypatch.setattr("trtlab.stats.MOST_APART", math.inf)
    # 16 tiny images are too few for entropy calibration: it clips the 256 averages that the last layer sees
    monkeypatch.setitem(checks.TOLERANCES, "int8", 0.7)


def options(out: Path, **chosen) -> RunOptions:
    short = {"bench_seconds": 0.01, "bench_calls": 3, "throughput_seconds": 0.01, "batches": (1, 4)}
    few = {"calibration_images": 16, "accuracy_images": 12, "input_size": SIZE, "model": "tiny", "data": "tiny"}
    return RunOptions.quickly(out=out, **{**short, **few, **chosen})


def run_quietly(chosen: RunOptions) -> str:
    output = StringIO()
    run(chosen, Console(file=output, width=200))
    return output.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder for one run that several tests look at."""
    return tmp_path_factory.mktemp("finished") / "results"


@pytest.fixture
def results(finished) -> Path:
    """The results of one whole run; made once."""
    if not (finished / "summary.json").exists():
        run_quietly(options(finished))
    return finished


@pytest.mark.slow
def test_a_run_ends_with_report_charts_and_summary(results):
    names = {path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file()}
    assert {"report.html", "report.md", "summary.json", "latency.json", "throughput.json", "accuracy.json"} <= names
    assert {"models/tiny.onnx", "models/tiny_simplified.onnx", "calibration/tiny_calib.cache"} <= names
    assert {f"engines/tiny_{name.replace('-', '_')}.engine" for name in ENGINES} <= names
    assert len(list((results / "charts").glob("*.png"))) >= 4


def test_the_summary_has_every_engine_at_every_batch_with_its_speedup(results):
    summary = json.loads((results / "summary.json").read_text())
    assert summary["engine"] == describe()
    rows = {(row["name"], row["batch"]): row for row in summary["rows"]}
    half = ["pytorch-fp16"] if has_half("fp16") else []
    names = ["pytorch-fp32", *half, "onnxruntime-fp32", *ENGINES]
    assert set(rows) == {(name, batch) for name in names for batch in (1, 4)}
    for (_, batch), found in rows.items():
        base = rows["pytorch-fp32", batch]["images_per_s"]
        assert found["speedup"] == pytest.approx(found["images_per_s"] / base)
        assert found["median_ms"] > 0 and found["ran_in"] in ("fp32", "fp16", "bf16", "int8")
        assert (found["p99_ms"] is None) == (found["iterations"] < 100) and found["executions"] > 0
    assert rows["pytorch-fp32", 1]["top1"] == rows["fp32", 4]["top1"] == 100.0


def test_every_engine_was_checked_against_pytorch(results):
    checks = json.loads((results / "checks.json").read_text())["rows"]
    assert [check["name"] for check in checks] == [name for name in ENGINES for _ in range(2)]
    assert all(check["passed"] for check in checks)


def test_a_run_on_the_cpu_says_why_an_installed_tensorrt_is_not_used(results, monkeypatch):
    assert "TensorRT" not in run_quietly(options(results))
    monkeypatch.setattr("trtlab.running.run.WHY_CPU", "TensorRT 11.0.1 has no calibrators")
    assert "installed and not used: TensorRT 11.0.1 has no calibrators" in run_quietly(options(results))


def test_the_same_run_again_does_nothing_again(results):
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*.engine")}
    text = run_quietly(options(results))
    stages = Recipe(options(results)).stages()
    assert text.count("done before") == len(stages)
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("*.engine")}


def test_the_run_names_its_device_and_says_where_the_report_lies(results):
    text = run_quietly(options(results))
    assert DEVICE in text and str((results / "report.html").resolve()) in text


def test_more_images_for_the_accuracy_measure_only_that_again(results):
    text = run_quietly(options(results, accuracy_images=11))
    again = [line for line in text.splitlines() if line.startswith("✓") and "done before" not in line]
    titles = ["✓ Prepare images and weights", "✓ Evaluate accuracy on up to 11 images", "✓ Write the report"]
    assert [line.split("  ")[0] for line in again] == titles


class Stop:
    """An observer that ends the run as Ctrl-C does when a stage has said `after` things."""

    def __init__(self, stage: str, after: int) -> None:
        self.stage, self.after, self.done = stage, after, []

    def started(self, stage):
        pass

    def progressed(self, stage, text):
        if stage.name == self.stage:
            self.after -= 1
            if self.after <= 0:
                raise KeyboardInterrupt

    def ended(self, stage, seconds):
        self.done.append((stage.name, seconds is None))


@pytest.mark.parametrize(("stage", "after"), [("simplify", 2), ("calibration-data", 1), ("build-fp32", 1)])
def test_a_run_stopped_inside_a_stage_leaves_nothing_half_written_and_goes_on_there(tmp_path, stage, after):
    recipe = Recipe(options(tmp_path))
    stages = recipe.stages()[:4]
    with pytest.raises(KeyboardInterrupt):
        run_stages(stages, tmp_path, {}, Stop(stage, after))
    names = [stage.name for stage in stages]
    place = names.index(stage)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {".state.json"} | {output for done in stages[:place] for output in done.outputs}
    watcher = Stop("", 1)
    run_stages(stages, tmp_path, {}, watcher)
    assert watcher.done == [(name, number < place) for number, name in enumerate(names)]


def test_a_wrong_engine_fails_the_run_but_leaves_a_report_that_says_so(results, tmp_path, monkeypatch):
    shutil.copytree(results, tmp_path, dirs_exist_ok=True)
    (tmp_path / "checks.json").unlink()
    monkeypatch.setattr("trtlab.running.checks.relative_error", lambda found, reference: float("nan"))
    with pytest.raises(EngineError, match="5 checks failed: FP32: relative error nan"):
        run_quietly(options(tmp_path))
    assert "5 of 10 checks failed" in (tmp_path / "report.md").read_text()
    json.loads((tmp_path / "checks.json").read_text(), parse_constant=pytest.fail)


def test_one_calibration_image_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="calibration needs at least"):
        run_quietly(options(tmp_path, calibration_images=1))


def test_the_calibration_tensor_is_what_the_network_is_fed(results, tiny_data):
    tensor = np.load(results / "calibration" / "calibration.npy")
    expected = load_batch([path for path, _ in tiny_data.images("calibration")], SIZE)
    np.testing.assert_array_equal(tensor, expected)


def test_the_closing_lines_name_rows_that_contradict_themselves(monkeypatch):
    monkeypatch.setattr("trtlab.stats.MOST_APART", 3.0)
    results = results_of(row("int8", 8, median_ms=4.0, images_per_s=20.0))
    output = StringIO()
    _print_end(Console(file=output, width=200), RunOptions(), results, 1.0)
    assert (
        "note: Throughput and latency contradict each other: INT8 at batch 8 (100.0 times apart)" in output.getvalue()
    )


def test_the_run_s_preprocessing_is_in_every_engine_s_record_and_in_the_report(results):
    wanted = Preprocessing.usual(3, SIZE, SIZE)
    found = [json.loads(path.read_text())["preprocessing"] for path in (results / "engines").glob("*.engine.json")]
    assert found == [wanted.to_dict()] * len(ENGINES)
    assert wanted.described() in (results / "report.md").read_text()
    assert wanted.described() in (results / "report.html").read_text()
