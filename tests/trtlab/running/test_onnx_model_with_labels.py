"""`trtlab run --onnx --data folder:…`: somebody else's classifier with labelled images, on a real engine."""

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from helpers.tools.files import read_json
from tests.tools import own_models
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx
from trtcpu.errors import DataError, InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import Asked, encoded
from trtlab.models.class_names import names_beside
from trtlab.models.export import export_onnx
from trtlab.running.recipe import Recipe
from trtlab.running.run import run
from trtlab.running.run_options import RunOptions

NAMES = ["cat", "bee", "ant"]  # the folders' names in the order of the model's outputs
SHORT = {"bench_seconds": 0.01, "bench_calls": 3, "throughput_seconds": 0.01, "batches": (1, 4)}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Memory is not measured, since that starts a process an engine; links to images are kept apart."""
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path_factory.mktemp("root")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of flat colours with noise, which random weights tell apart somehow."""
    folder, random = tmp_path_factory.mktemp("pets"), np.random.default_rng(0)
    for split, number in (("train", 20), ("val", 8)):
        for place, name in enumerate(sorted(NAMES)):
            (folder / split / name).mkdir(parents=True)
            for index in range(number):
                pixels = random.integers(0, 120, (40, 40, 3)) + 135 * np.eye(3, dtype=int)[place]
                Image.fromarray(pixels.astype(np.uint8)).save(folder / split / name / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "pets.onnx"
    export_onnx(TinyNet(3).eval(), path, input_size=SIZE)
    return path


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "names.json"
    path.write_text(json.dumps(NAMES))
    return path


def _run(onnx: Path, out: Path, labels: str, **chosen: Any) -> str:
    output = StringIO()
    options = RunOptions.quickly(onnx=onnx, out=out, labels=labels, **{**SHORT, **chosen})
    run(options, Console(file=output, width=200))
    return output.getvalue()


def _top1(folder: Path) -> float:
    """Return PyTorch's top-1 in percent with the outputs named by NAMES."""
    images = sorted((folder / "val").glob("*/*.png"))
    with torch.no_grad():
        best = TinyNet(3).eval()(torch.from_numpy(Preprocessing.usual(3, SIZE, SIZE).load_batch(images))).argmax(1)
    right = [NAMES[place] == path.parent.name for path, place in zip(images, best, strict=True)]
    return 100 * sum(right) / len(right)


@pytest.mark.slow
def test_a_whole_run_has_the_accuracy_that_pytorch_has(model: Path, folder: Path, names: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = _run(model, out, f"folder:{folder}", classes=names)
    assert "Prepare images" in shown and "Prepare 12 calibration images" in shown and "on up to 24 images" in shown
    rows = {row["name"]: row for row in read_json(out / "accuracy.json")["rows"]}
    assert list(rows) == ["onnxruntime-fp32", "fp32", "fp16", "int8"]
    assert rows["onnxruntime-fp32"]["top1"] == rows["fp32"]["top1"] == pytest.approx(_top1(folder)) != 0
    assert rows["onnxruntime-fp32"]["loss"] is None and rows["fp32"]["changed"] == 0
    assert {row["what"].partition(" against")[0] for row in read_json(out / "checks.json")["rows"]} == {
        "outputs equal ONNX Runtime's",
        "drift of output",
    }
    record = read_json(out / "engines" / "pets_int8.engine.json")
    usual = Preprocessing.usual(3, SIZE, SIZE)
    assert record["preprocessing"] == usual.to_dict() and "note: pets.onnx has no preprocessing record" in shown
    assert read_json(out / "accuracy.json")["settings"]["preprocessing"] == usual.described()
    assert record["calibration"]["images"] == 12 and record["calibration"]["source"].endswith("calibration.npy")
    assert names_beside(out / "engines" / "pets_fp32.engine").names == NAMES
    report = (out / "report.md").read_text()
    assert "Loss is ONNX Runtime FP32's top-1" in report and "PyTorch FP32" not in report and "no labels" not in report
    assert _run(model, out, f"folder:{folder}", classes=names).count("done before") == shown.count("✓") - 1


def test_another_image_or_other_pixels_make_every_stage_again(model: Path, folder: Path, tmp_path: Path) -> None:
    pets = shutil.copytree(folder, tmp_path / "pets")

    def options() -> list[dict[str, Any]]:
        recipe = Recipe(RunOptions(onnx=model, out=tmp_path / "out", labels=f"folder:{pets}"))
        recipe.subject.prepare()
        return [dict(stage.options) for stage in recipe.stages()]

    first = options()
    assert options() == first
    Image.new("RGB", (9, 9)).save(pets / "val" / "ant" / "0.png")
    second = options()
    assert all(before != after for before, after in zip(first, second, strict=True))
    Image.new("RGB", (9, 9)).save(pets / "val" / "ant" / "new.png")
    assert all(before != after for before, after in zip(second, options(), strict=True))


def test_the_images_go_through_what_the_options_or_the_model_say(model: Path, folder: Path, tmp_path: Path) -> None:
    asked, other = Asked(mean=(0.5,) * 3, std=(0.5,) * 3), Preprocessing.usual(3, SIZE, SIZE, resize=48)
    options = {"out": tmp_path / "out", "labels": f"folder:{folder}", "preprocessing": asked}
    recipe = Recipe(RunOptions(onnx=model, **options))
    assert recipe.subject.preprocessing.mean == (0.5, 0.5, 0.5) and not recipe.subject.note
    export_onnx(TinyNet(3).eval(), tmp_path / "own.onnx", input_size=SIZE, metadata=encoded(other))
    with pytest.raises(InputError, match=r"--mean 0.5 .* contradicts the preprocessing record of own.onnx"):
        Recipe(RunOptions(onnx=tmp_path / "own.onnx", **options))
    recorded = Recipe(RunOptions(onnx=tmp_path / "own.onnx", **{**options, "preprocessing": Asked()}))
    assert recorded.subject.preprocessing == other and not recorded.subject.note


def test_a_fixed_batch_is_evaluated_on_every_image(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "fixed.onnx"
    export_onnx(TinyNet(3).eval(), model, dynamic_batch=False, batch_size=5, input_size=SIZE)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    recipe = Recipe(
        RunOptions(onnx=model, out=tmp_path / "out", labels=f"folder:{folder}", classes=tmp_path / "names.txt")
    )
    recipe.subject.prepare()
    stages = {stage.name: stage for stage in recipe.stages()}
    for name in ("take", "build-fp32"):
        stages[name].action(lambda text: None)
    recipe.engines = [spec for spec in recipe.engines if spec.name == "fp32"]
    rows = recipe._accuracy(lambda text: None)
    assert [(row["name"], row["num_samples"], row["top1"]) for row in rows] == [
        (name, 24, pytest.approx(_top1(folder))) for name in ("onnxruntime-fp32", "fp32")
    ]
    with InferenceEngine(tmp_path / "out" / "engines" / "fixed_fp32.engine") as engine:
        assert engine.max_batch == 5


def test_what_cannot_be_evaluated_writes_nothing_and_says_why(model: Path, folder: Path, tmp_path: Path) -> None:
    tokens, many = tmp_path / "tokens.onnx", tiny_onnx(tmp_path)
    from trtlab.models.model_inputs import parse_inputs

    export_onnx(own_models.tokens(), tokens, inputs=parse_inputs(["ids:batch,length:int64"], 1, 224))
    labels = f"folder:{folder}"
    for onnx, chosen, error, said in (
        (tokens, {"shapes": ("ids:1x2:2x8:4x12",)}, InputError, "takes ids int64 .*, no grey or RGB images"),
        (many, {}, InputError, r"tiny_dynamic_0.onnx has 10 outputs, .* has 3 classes \(ant, bee, cat\)"),
        (model, {"labels": f"folder:{tmp_path / 'none'}"}, DataError, "cannot read the image folder"),
        (model, {"labels": "flowers"}, InputError, "no data set named 'flowers'"),
    ):
        with pytest.raises(error, match=said) as caught:
            _run(onnx, tmp_path / "out", **{"labels": labels, **chosen})
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


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
    for arguments, said in (
        (("--classes", "n.txt"), "--classes is for a model of yours"),
        (("--resize", "32"), "preprocessing is for a model of yours"),
        (("--resize", "32", "--onnx", "m.onnx"), "preprocessing is for images"),
    ):
        code, _, err = trtlab("run", *arguments, "--out", tmp_path)
        assert code == 2 and said in err and err.count("\n") == 1
