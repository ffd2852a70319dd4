"""`trtlab run --onnx`: a model without labels through all stages, on a real engine."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from rich.console import Console

from helpers.tools.files import read_json
from tests.tools import own_models
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import encoded
from trtlab.models.class_names import names_beside
from trtlab.models.export import export_onnx
from trtlab.models.model_inputs import parse_inputs
from trtlab.running.recipe import Recipe
from trtlab.running.run import RunView, run
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import run_stages

SHAPES = ("ids:1x2:2x8:4x12",)


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is not measured, since that starts a process an engine."""
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "words.onnx"
    export_onnx(own_models.tokens(), path, inputs=parse_inputs(["ids:batch,length:int64"], 1, 224))
    return path


def _run(onnx: Path, out: Path, **chosen: Any) -> str:
    short = {"bench_seconds": 0.01, "bench_calls": 3, "throughput_seconds": 0.01, "batches": (1, 4)}
    output = StringIO()
    run(RunOptions.quickly(onnx=onnx, out=out, **{**short, **chosen}), Console(file=output, width=200))
    return output.getvalue()


def _up_to_checks(options: RunOptions) -> dict[str, dict[str, Any]]:
    """Run the stages that come before anything is measured; return the checks by engine."""
    stages = Recipe(options).stages()
    until = [stage.name for stage in stages].index("checks")
    with RunView(Console(file=StringIO())) as view:
        run_stages(stages[: until + 1], options.out, {}, view)
    return _checks(options.out)


@pytest.fixture(scope="module")
def finished(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One whole run, and what it printed."""
    out = tmp_path_factory.mktemp("finished") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})
        return out, _run(tokens, out, shapes=SHAPES)


def _checks(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in read_json(folder / "checks.json")["rows"]}


@pytest.mark.slow
def test_token_ids_without_samples_run_on_noise_and_leave_int8_out(finished: tuple[Path, str]) -> None:
    out, shown = finished
    assert "no labels: drift against FP32 in place of accuracy" in shown and "INT8 left out without --data" in shown
    assert list(_checks(out)) == ["fp32", "tf32", "fp16"]
    summary = json.loads((out / "summary.json").read_text())
    assert {row["name"] for row in summary["rows"]} == {"onnxruntime-fp32", "fp32", "tf32", "fp16"}
    assert summary["not_measured"] == ["accuracy"] and "Prepare" not in shown
    report = (out / "report.md").read_text()
    assert "drift of output against FP32" in report and "no labels" in report
    assert "Throughput, size and memory" in report and "PyTorch FP32" not in report
    assert "input size" not in report and "accuracy images" not in report


def test_the_drift_is_that_of_the_outputs_on_the_samples(tmp_path: Path) -> None:
    model, samples = tiny_onnx(tmp_path), tmp_path / "s.npy"
    images = np.random.default_rng(0).standard_normal((16, 3, 32, 32), dtype=np.float32)
    np.save(samples, images)
    found = _up_to_checks(RunOptions(onnx=model, out=tmp_path / "out", samples=samples, batches=(1, 4)))
    assert list(found) == ["fp32", "tf32", "fp16", "int8", "dynamic-fp16"]
    assert all(row["passed"] for row in found.values())
    expected = onnxruntime.InferenceSession(str(model)).run(None, {"input": images})[0]
    with InferenceEngine(tmp_path / "out" / "engines" / f"{model.stem}_int8.engine") as engine:
        drift = np.linalg.norm(engine.predict(images) - expected) / np.linalg.norm(expected)
    assert found["int8"]["value"] == pytest.approx(drift, rel=1e-2)


def test_a_fixed_batch_is_the_only_one(tmp_path: Path) -> None:
    recipe = Recipe(RunOptions(onnx=tiny_onnx(tmp_path, dynamic=False, batch=2), out=tmp_path / "out"))
    assert recipe.options.batches == (2,) and "dynamic-fp16" not in [spec.name for spec in recipe.engines]
    found = _up_to_checks(RunOptions(onnx=recipe.subject.original, out=tmp_path / "out"))
    assert all(row["passed"] for row in found.values())


def test_outputs_that_are_no_numbers_fail_their_check(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = InferenceEngine.predict_all

    def broken(engine: InferenceEngine, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        factor = np.nan if engine.name.endswith("fp16") else 1
        return {name: factor * output for name, output in predict(engine, feeds).items()}

    monkeypatch.setattr(InferenceEngine, "predict_all", broken)
    found = _up_to_checks(RunOptions(onnx=tokens, out=tmp_path / "out", shapes=SHAPES, batches=(1, 4)))
    assert [name for name, row in found.items() if not row["passed"]] == ["fp16"]
    assert "NaN or infinite" in found["fp16"]["message"]


def test_a_wrong_model_shape_or_sample_writes_nothing(tokens: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", other=np.zeros((4, 8), np.int64))
    for chosen, said in (
        ({"onnx": tmp_path / "none.onnx"}, "cannot read the ONNX model"),
        ({}, "ids is dynamic in batch, length"),
        ({"shapes": ("words:1x2",)}, "'words', which is no input"),
        ({"shapes": SHAPES, "samples": tmp_path / "s.npz"}, "holds other, but no ids"),
    ):
        with pytest.raises(InputError, match=said):
            _run(chosen.get("onnx", tokens), tmp_path / "out", **{k: v for k, v in chosen.items() if k != "onnx"})
    assert not (tmp_path / "out").exists()


def test_names_of_the_classes_travel_to_the_engines_and_are_counted_first(tokens: Path, tmp_path: Path) -> None:
    model, names = tiny_onnx(tmp_path), tmp_path / "names.txt"
    names.write_text("\n".join("abcdefghij"))
    _up_to_checks(RunOptions(onnx=model, out=tmp_path / "out", classes=names, batches=(1, 4)))
    assert names_beside(tmp_path / "out" / "engines" / f"{model.stem}_fp32.engine").names == list("abcdefghij")
    names.write_text("a\nb")
    with pytest.raises(InputError, match=r"names.txt names 2 classes, but tiny_dynamic_0.onnx has 10 outputs"):
        Recipe(RunOptions(onnx=model, out=tmp_path / "other", classes=names))
    assert not (tmp_path / "other").exists()


def test_samples_made_from_images_bring_their_preprocessing_along(tmp_path: Path) -> None:
    images, made = sorted(image_folder(tmp_path / "images", 16).iterdir()), Preprocessing.usual(3, SIZE, SIZE)
    samples, options = tmp_path / "c.npy", {"samples": tmp_path / "c.npy", "out": tmp_path / "out", "batches": (1,)}
    list(write_calibration_tensor(images, samples, preprocessing=made))
    _up_to_checks(RunOptions.quickly(onnx=tiny_onnx(tmp_path), **options))
    assert read_json(next((tmp_path / "out").rglob("*int8.engine.json")))["preprocessing"] == made.to_dict()
    assert read_json(tmp_path / "out" / "checks.json")["settings"]["preprocessing"] == made.described()
    other = Preprocessing.usual(3, SIZE, SIZE, resize=48)
    export_onnx(TinyNet().eval(), tmp_path / "other.onnx", input_size=SIZE, metadata=encoded(other))
    with pytest.raises(InputError, match=r"other\.onnx is preprocessed by .*resize 48.*c\.npy by .*resize 37"):
        Recipe(RunOptions(onnx=tmp_path / "other.onnx", **{**options, "out": tmp_path / "no"}))
