"""The whole run on a network and a data set small enough for a test: every stage, on a real engine."""

import contextlib
import functools
import itertools
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.engine.arithmetic import has_half
from helpers.engine.backend import DEVICE, describe
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder
from trtcpu.errors import EngineError, InputError
from trtlab.images.preprocessing import Preprocessing, load_batch
from trtlab.running import checks
from trtlab.running.recipe import Recipe
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import run_stages

ENGINES = ["fp32", "tf32", "fp16", "int8", "dynamic-fp16"]
FEW = {"calibration_images": 16, "accuracy_images": 12, "input_size": SIZE, "model": "tiny", "data": "tiny"}


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


@pytest.fixture(scope="module", autouse=True)
def tiny_data(tmp_path_factory) -> Iterator[TinyData]:
    """Model and data set come from this file; memory is not measured, since that starts a process an engine."""
    data = TinyData(tmp_path_factory.mktemp("tiny_data"))
    image_folder(data.folder / "calibration", 16)
    image_folder(data.folder / "validation", 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("helpers.data.models.load_model", lambda name, data="digits": TinyNet().eval())
        patch.setattr("helpers.data.models.WEIGHTS", data.folder)
        patch.setattr("helpers.data.models.check_model", lambda name, data: None)
        patch.setattr("trtlab.running.subjects.load_dataset", lambda name: data)
        patch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})
        # three calls of a tiny network on a busy machine may contradict themselves: test_remeasure.py is about that
        patch.setattr("trtlab.stats.MOST_APART", math.inf)
        # 16 tiny images are too few for entropy calibration: it clips the 256 averages that the last layer sees
        patch.setitem(checks.TOLERANCES, "int8", 0.7)
        yield data


@pytest.fixture(scope="module")
def tiny_run(quick_run) -> Callable[..., str]:
    return functools.partial(quick_run, **FEW)


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_run) -> Path:
    """The results of one whole run."""
    out = tmp_path_factory.mktemp("finished") / "results"
    tiny_run(out=out)
    return out


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


def test_the_same_run_again_does_nothing_again_and_says_what_it_runs_on_and_why(results, tiny_run, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*.engine")}
    text = tiny_run(out=results)
    assert DEVICE in text and str((results / "report.html").resolve()) in text and "TensorRT" not in text
    monkeypatch.setattr("trtlab.running.run.WHY_CPU", "TensorRT 11.0.1 has no calibrators")
    monkeypatch.setattr("trtlab.running.run.contradiction", lambda results: "INT8 contradicts itself")
    text = tiny_run(out=results)
    assert text.count("done before") == len(Recipe(RunOptions.quickly(out=results, **FEW)).stages())
    assert "installed and not used: TensorRT 11.0.1 has no calibrators" in text and "note: INT8 contradicts" in text
    assert before == {path: path.stat().st_mtime_ns for path in results.rglob("*.engine")}


def test_more_images_for_the_accuracy_measure_only_that_again(results, tiny_run):
    text = tiny_run(out=results, accuracy_images=11)
    again = [line for line in text.splitlines() if line.startswith("✓") and "done before" not in line]
    titles = ["✓ Prepare images and weights", "✓ Evaluate accuracy on up to 11 images", "✓ Write the report"]
    assert [line.split("  ")[0] for line in again] == titles


@pytest.mark.parametrize(("place", "after"), [(1, 2), (2, 1), (3, 1)])
def test_a_run_stopped_inside_a_stage_leaves_nothing_half_written_and_goes_on_there(tmp_path, place, after):
    stages, said = Recipe(RunOptions.quickly(out=tmp_path, **FEW)).stages()[:4], itertools.count(1)

    def stop(text: str) -> None:
        if next(said) == after:
            raise KeyboardInterrupt

    def working(title: str) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext(stop if title == stages[place].title else str)

    with pytest.raises(KeyboardInterrupt):
        list(run_stages(stages, tmp_path, {}, working))
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {".state.json"} | {output for done in stages[:place] for output in done.outputs}
    assert [seconds is None for _, seconds in run_stages(stages, tmp_path, {}, working)] == [
        number < place for number in range(4)
    ]


def test_a_wrong_engine_fails_the_run_but_leaves_a_report_that_says_so(results, tiny_run, tmp_path, monkeypatch):
    shutil.copytree(results, tmp_path, dirs_exist_ok=True)
    (tmp_path / "checks.json").unlink()
    monkeypatch.setattr("trtlab.running.checks.relative_error", lambda found, reference: float("nan"))
    with pytest.raises(EngineError, match="5 checks failed: FP32: relative error nan"):
        tiny_run(out=tmp_path)
    assert "5 of 10 checks failed" in (tmp_path / "report.md").read_text()
    json.loads((tmp_path / "checks.json").read_text(), parse_constant=pytest.fail)


def test_one_calibration_image_is_one_clear_error(tiny_run, tmp_path):
    with pytest.raises(InputError, match="calibration needs at least"):
        tiny_run(out=tmp_path, calibration_images=1)


def test_the_calibration_tensor_is_what_the_network_is_fed(results, tiny_data):
    tensor = np.load(results / "calibration" / "calibration.npy")
    expected = load_batch([path for path, _ in tiny_data.images("calibration")], SIZE)
    np.testing.assert_array_equal(tensor, expected)


def test_the_run_s_preprocessing_is_in_every_engine_s_record_and_in_the_report(results):
    wanted = Preprocessing.usual(3, SIZE, SIZE)
    found = [json.loads(path.read_text())["preprocessing"] for path in (results / "engines").glob("*.engine.json")]
    assert found == [wanted.to_dict()] * len(ENGINES)
    assert all(wanted.described() in (results / f"report.{kind}").read_text() for kind in ("md", "html"))
