"""`trtlab run --onnx`: somebody else's model, with labelled images or without, through all stages on a real engine."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch
from PIL import Image

from helpers.tools.files import read_json
from tests.tools import own_models
from tests.trtlab.shell import fails
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, tiny_onnx
from trtcpu.errors import DataError, InputError
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import Asked, encoded
from trtlab.models.class_names import names_beside
from trtlab.models.export import export_onnx
from trtlab.models.own_models import parse_inputs
from trtlab.running.recipe import Recipe
from trtlab.running.run_options import RunOptions

SHAPES = ("ids:1x2:2x8:4x12",)
NAMES = ["cat", "bee", "ant"]  # the folders' names in the order of the model's outputs
USUAL = Preprocessing.usual(3, SIZE, SIZE)
HALF = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
OTHER = Preprocessing.usual(3, SIZE, SIZE, resize=48)
ROUNDED = """<ir_version: 8, opset_import: ["" : 17]> rounded (float[N,8] x) => (float[N,8] y)
<float s = {0.1}, int8 z = {0}> { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models: of token ids, of images, of images with a preprocessing record, rounded; and of names."""
    folder = tmp_path_factory.mktemp("models")
    export_onnx(own_models.tokens(), folder / "words.onnx", inputs=parse_inputs(["ids:batch,length:int64"], 1, 224))
    export_onnx(TinyNet(3).eval(), folder / "pets.onnx", input_size=SIZE)
    export_onnx(TinyNet(3).eval(), folder / "own.onnx", input_size=SIZE, metadata=encoded(OTHER))
    onnx.save(onnx.parser.parse_model(ROUNDED), folder / "rounded.onnx")
    (folder / "names.json").write_text(json.dumps(NAMES))
    return folder


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of three classes: flat colours with noise, which random weights tell apart somehow."""
    folder, random = tmp_path_factory.mktemp("pets"), np.random.default_rng(0)
    for split, number in (("train", 20), ("val", 8)):
        for place, name in enumerate(sorted(NAMES)):
            (folder / split / name).mkdir(parents=True)
            for index in range(number):
                pixels = random.integers(0, 120, (40, 40, 3)) + 135 * np.eye(3, dtype=int)[place]
                Image.fromarray(pixels.astype(np.uint8)).save(folder / split / name / f"{index}.png")
    return folder


def _run_stages(recipe: Recipe, *names: str) -> None:
    for stage in recipe.stages():
        if stage.name.startswith(names):
            stage.action(lambda text: None)


def _checks(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in read_json(folder / "checks.json")["rows"]}


def _up_to_checks(options: RunOptions) -> dict[str, dict[str, Any]]:
    """Run the stages that come before anything is measured; return the checks by engine."""
    _run_stages(Recipe(options), "take", "samples", "build", "checks")
    return _checks(options.out)


def _top1(folder: Path) -> float:
    """Return PyTorch's top-1 in percent with the outputs named by NAMES."""
    images = sorted((folder / "val").glob("*/*.png"))
    with torch.no_grad():
        best = TinyNet(3).eval()(torch.from_numpy(USUAL.load_batch(images))).argmax(1)
    right = [NAMES[place] == path.parent.name for path, place in zip(images, best, strict=True)]
    return 100 * sum(right) / len(right)


@pytest.mark.slow
def test_token_ids_without_samples_run_on_noise_and_leave_int8_out(models: Path, tmp_path: Path, quick_run) -> None:
    out = tmp_path / "out"
    shown = quick_run(onnx=models / "words.onnx", out=out, shapes=SHAPES)
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
    options = RunOptions(onnx=tiny_onnx(tmp_path, dynamic=False, batch=5), out=tmp_path / "out")
    assert Recipe(options).options.batches == (5,)
    found = _up_to_checks(options)
    assert list(found) == ["fp32", "tf32", "fp16"] and all(row["passed"] for row in found.values())


def test_outputs_that_are_no_numbers_fail_their_check(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = InferenceEngine.predict_all

    def broken(engine: InferenceEngine, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        factor = np.nan if engine.name.endswith("fp16") else 1
        return {name: factor * output for name, output in predict(engine, feeds).items()}

    monkeypatch.setattr(InferenceEngine, "predict_all", broken)
    found = _up_to_checks(RunOptions(onnx=models / "words.onnx", out=tmp_path / "out", shapes=SHAPES, batches=(1, 4)))
    assert [name for name, row in found.items() if not row["passed"]] == ["fp16"]
    assert "NaN or infinite" in found["fp16"]["message"]


@pytest.mark.parametrize(
    ("model", "chosen", "error", "said"),
    [
        ("none.onnx", {}, InputError, "cannot read the ONNX model"),
        ("rounded.onnx", {}, InputError, "rounded.onnx has Q/DQ nodes, so its only engine is INT8"),
        ("words.onnx", {}, InputError, "ids is dynamic in batch, length"),
        ("words.onnx", {"shapes": ("words:1x2",)}, InputError, "'words', which is no input"),
        ("words.onnx", {"shapes": SHAPES, "samples": "s.npz"}, InputError, "holds other, but no ids"),
        ("words.onnx", {"shapes": SHAPES, "labels": "pets"}, InputError, "takes ids int64 .*, no grey or RGB images"),
        ("ten.onnx", {"labels": "pets"}, InputError, r"ten.onnx has 10 outputs, .* has 3 classes \(ant, bee, cat\)"),
        ("pets.onnx", {"labels": "folder:none"}, DataError, "cannot read the image folder"),
        ("pets.onnx", {"labels": "flowers"}, InputError, "no data set named 'flowers'"),
        ("ten.onnx", {"classes": "names.json"}, InputError, "names.json names 3 classes, but ten.onnx has 10 outputs"),
        (
            "own.onnx",
            {"labels": "pets", "preprocessing": Asked(resize=40)},
            InputError,
            "--resize 40 contradicts the preprocessing record of own.onnx",
        ),
    ],
)
def test_what_cannot_be_run_writes_nothing_and_says_why(
    models: Path, pets: Path, tmp_path: Path, quick_run, model: str, chosen: dict, error: type, said: str
) -> None:
    np.savez(tmp_path / "s.npz", other=np.zeros((4, 8), np.int64))
    shutil.copy(tiny_onnx(models), models / "ten.onnx")
    places = {"pets": f"folder:{pets}", "s.npz": tmp_path / "s.npz", "names.json": models / "names.json"}
    given = {name: places.get(value, value) if isinstance(value, str) else value for name, value in chosen.items()}
    with pytest.raises(error, match=rf"\A[^\n]*{said}[^\n]*\Z"):
        quick_run(onnx=models / model, out=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_samples_made_from_images_bring_their_preprocessing_along(models: Path, tmp_path: Path) -> None:
    images = sorted(image_folder(tmp_path / "images", 16).iterdir())
    options = {"samples": tmp_path / "c.npy", "out": tmp_path / "out", "batches": (1,)}
    list(write_calibration_tensor(images, options["samples"], preprocessing=USUAL))
    _up_to_checks(RunOptions.quickly(onnx=models / "pets.onnx", **options))
    assert read_json(next((tmp_path / "out").rglob("*int8.engine.json")))["preprocessing"] == USUAL.to_dict()
    assert read_json(tmp_path / "out" / "checks.json")["settings"]["preprocessing"] == USUAL.described()
    with pytest.raises(InputError, match=r"own\.onnx is preprocessed by .*resize 48.*c\.npy by .*resize 37"):
        Recipe(RunOptions(onnx=models / "own.onnx", **options))


@pytest.mark.slow
def test_a_whole_run_has_the_accuracy_that_pytorch_has(models: Path, pets: Path, tmp_path: Path, quick_run) -> None:
    out, asked = tmp_path / "out", {"labels": f"folder:{pets}", "classes": models / "names.json"}
    shown = quick_run(onnx=models / "pets.onnx", out=out, **asked)
    assert "Prepare images" in shown and "Prepare 12 calibration images" in shown and "on up to 24 images" in shown
    rows = {row["name"]: row for row in read_json(out / "accuracy.json")["rows"]}
    assert list(rows) == ["onnxruntime-fp32", "fp32", "fp16", "int8"]
    assert rows["onnxruntime-fp32"]["top1"] == rows["fp32"]["top1"] == pytest.approx(_top1(pets)) != 0
    assert rows["onnxruntime-fp32"]["loss"] is None and rows["fp32"]["changed"] == 0
    assert {row["what"].partition(" against")[0] for row in read_json(out / "checks.json")["rows"]} == {
        "outputs equal ONNX Runtime's",
        "drift of output",
    }
    record = read_json(out / "engines" / "pets_int8.engine.json")
    assert record["preprocessing"] == USUAL.to_dict() and "note: pets.onnx has no preprocessing record" in shown
    assert read_json(out / "accuracy.json")["settings"]["preprocessing"] == USUAL.described()
    assert record["calibration"]["images"] == 12 and record["calibration"]["source"].endswith("calibration.npy")
    assert names_beside(out / "engines" / "pets_fp32.engine").names == NAMES
    report = (out / "report.md").read_text()
    assert "Loss is ONNX Runtime FP32's top-1" in report and "PyTorch FP32" not in report and "no labels" not in report
    again = quick_run(onnx=models / "pets.onnx", out=out, **asked)
    assert again.count("done before") == shown.count("✓") - 1


def test_another_image_or_other_pixels_make_every_stage_again(models: Path, pets: Path, tmp_path: Path) -> None:
    shutil.copytree(pets, tmp_path / "pets")

    def options() -> list[dict[str, Any]]:
        recipe = Recipe(RunOptions(onnx=models / "pets.onnx", labels=f"folder:{tmp_path / 'pets'}"))
        recipe.subject.prepare()
        return [dict(stage.options) for stage in recipe.stages()]

    first = options()
    assert options() == first
    for name in ("0.png", "new.png"):
        Image.new("RGB", (9, 9)).save(tmp_path / "pets" / "val" / "ant" / name)
        second = options()
        assert all(before != after for before, after in zip(first, second, strict=True))
        first = second


@pytest.mark.parametrize(
    ("model", "asked", "wanted"),
    [
        ("pets.onnx", Asked(**HALF), Preprocessing.usual(3, SIZE, SIZE, **HALF)),
        ("own.onnx", Asked(), OTHER),
    ],
)
def test_the_images_go_through_what_the_options_or_the_model_say(
    models: Path, pets: Path, model: str, asked: Asked, wanted: Preprocessing
) -> None:
    subject = Recipe(RunOptions(onnx=models / model, labels=f"folder:{pets}", preprocessing=asked)).subject
    assert subject.preprocessing == wanted and not subject.note


def test_a_fixed_batch_is_evaluated_on_every_image(pets: Path, models: Path, tmp_path: Path) -> None:
    model = tmp_path / "fixed.onnx"
    export_onnx(TinyNet(3).eval(), model, dynamic_batch=False, batch_size=5, input_size=SIZE)
    options = {"out": tmp_path / "out", "labels": f"folder:{pets}", "classes": models / "names.json"}
    recipe = Recipe(RunOptions(onnx=model, **options))
    recipe.subject.prepare()
    _run_stages(recipe, "take", "build-fp32")
    recipe.engines = [spec for spec in recipe.engines if spec.name == "fp32"]
    rows = recipe._accuracy(lambda text: None)
    assert [(row["name"], row["num_samples"], row["top1"]) for row in rows] == [
        (name, 24, pytest.approx(_top1(pets))) for name in ("onnxruntime-fp32", "fp32")
    ]
    with InferenceEngine(tmp_path / "out" / "engines" / "fixed_fp32.engine") as engine:
        assert engine.max_batch == 5


def test_the_commands_options_reach_the_run(trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunOptions] = []
    monkeypatch.setattr("trtlab.running.run.run", lambda options, console: asked.append(options))
    common = ("run", "--onnx", "m.onnx", "--out", tmp_path)
    assert trtlab(*common, "--data", "folder:pets", "--classes", "n.txt")[0] == 0
    assert trtlab(*common, "--data", "s.npz")[0] == 0
    assert trtlab(*common, "--data", "folder:pets", "--mean", "0.5", "0.4", "0.3", "--std", "1,1,1")[0] == 0
    assert asked.pop().preprocessing == Asked(mean=(0.5, 0.4, 0.3), std=(1.0, 1.0, 1.0))
    assert [(each.labels, each.samples, each.classes) for each in asked] == [
        ("folder:pets", None, Path("n.txt")),
        (None, Path("s.npz"), None),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--classes", "n.txt"), "--classes is for a model of yours"),
        (("--resize", "32"), "preprocessing is for a model of yours"),
        (("--resize", "32", "--onnx", "m.onnx"), "preprocessing is for images"),
    ],
)
def test_an_option_that_the_model_cannot_have_is_refused(trtlab, tmp_path: Path, arguments: tuple, said: str) -> None:
    fails(trtlab("run", *arguments, "--out", tmp_path), said)
