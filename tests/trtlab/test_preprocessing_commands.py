"""One preprocessing from export to evaluate: it travels, PyTorch agrees with what comes out, contradictions fail."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision import transforms

from tests.trtlab.shell import call, fails, says
from tests.trtlab.test_core_commands import labelled
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import ONNX_KEY, Asked, encoded, read_beside
from trtlab.models.export import export_onnx
from trtlab.models.own_models import ModelInput

OPTIONS = ("--mean", "0.4", "--std", "0.2", "--resize", "36", "--crop", "32x24", "--channels", "1")
GREY = Preprocessing(1, 36, (32, 24), (0.4,), (0.2,))


def grey() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    return nn.Sequential(*layers).eval()


def mlp() -> nn.Module:
    return nn.Linear(3, 2)


def two() -> nn.Module:
    return nn.PairwiseDistance()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey model of one's own with its preprocessing inside, its engine, 13 images, and an engine without record."""
    folder = tmp_path_factory.mktemp("preprocessing")
    image_folder(folder / "images", 13)
    build_engine(tiny_onnx(folder), folder / "bare.engine", BuildOptions())
    assert call("export", "--model", f"{__file__}:grey", "--out", folder / "grey.onnx", *OPTIONS) == 0
    assert call("build", "--onnx", folder / "grey.onnx", "--engine", folder / "grey.engine") == 0
    return folder


@pytest.fixture
def paths(folder: Path) -> list[Path]:
    return sorted((folder / "images").iterdir())


@pytest.fixture
def data(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return labelled(paths, 4, monkeypatch)


def _record(path: Path) -> dict | None:
    return json.loads(Path(f"{path}.json").read_text())["preprocessing"]


def _torchvision(paths: list[Path]) -> torch.Tensor:
    steps = [transforms.Grayscale(), transforms.Resize(36), transforms.CenterCrop((32, 24)), transforms.ToTensor()]
    pipeline = transforms.Compose([*steps, transforms.Normalize([0.4], [0.2])])
    return torch.stack([pipeline(Image.open(path)) for path in paths])


def test_the_export_s_record_reaches_build_calibration_and_cache(trtlab, folder: Path, tmp_path: Path) -> None:
    engine = tmp_path / "int8.engine"
    build = ("build", "--onnx", folder / "grey.onnx", "--engine", engine, "--int8", "--calib-images", folder / "images")
    says(trtlab(*build), "13 images", f"preprocessing: {GREY.described()}")
    assert _record(engine) == _record(tmp_path / "int8.engine.cache") == GREY.to_dict()
    assert ONNX_KEY not in json.loads(Path(f"{engine}.json").read_text())["metadata"]


def test_infer_and_evaluate_give_what_pytorch_gives_on_torchvision_s_transforms(
    trtlab, data, folder: Path, paths: list[Path], tmp_path: Path
) -> None:
    with torch.no_grad():
        probabilities, classes = grey()(_torchvision(paths)).softmax(1).max(1)
    shown = f"class {classes[5]} {100 * probabilities[5]:.1f} %"
    out = says(trtlab("infer", "--engine", folder / "grey.engine", "--input", paths[5], "--topk", 1), shown)
    assert "note:" not in out
    says(trtlab("evaluate", "--engine", folder / "grey.engine", "--output", tmp_path / "acc.json"))
    found = json.loads((tmp_path / "acc.json").read_text())
    right = [int(label) == place % 4 for place, label in enumerate(classes)]
    assert found["preprocessing"] == GREY.to_dict()
    assert found["rows"][0]["top1"] == pytest.approx(100 * np.mean(right))


def test_calib_data_takes_the_model_s_preprocessing_and_a_tensor_of_another_is_refused(
    trtlab, data, folder: Path, paths: list[Path], tmp_path: Path
) -> None:
    own, other, model, engine = tmp_path / "c.npy", tmp_path / "d.npy", folder / "grey.onnx", folder / "grey.engine"
    says(trtlab("calib-data", "--out", own, "--n", 12, "--onnx", model), "[12, 1, 32, 24]")
    np.testing.assert_allclose(np.load(own), _torchvision(paths[:12]).numpy(), atol=1e-6)
    assert read_beside(own) == GREY
    says(trtlab("calib-data", "--out", other, "--n", 12, "--crop", "32x24", "--channels", 1, "--resize", 40))
    build = ("build", "--onnx", model, "--engine", tmp_path / "e.engine", "--int8", "--calib-npy")
    compare = ("compare", "--a", engine, "--b", engine, "--calib-npy")
    fails(trtlab(*build, other), "grey.onnx", "d.npy", "resize 36", "resize 40")
    fails(trtlab(*compare, other), "grey.engine", "d.npy", "mean 0.4", "mean 0")
    assert not (tmp_path / "e.engine").exists()
    np.save(other, np.load(other) + 1)  # by hand: its record is of what it held before
    for tensor in (own, other):
        says(trtlab(*build, tensor))
        says(trtlab(*compare, tensor))


def test_a_cache_is_not_used_under_another_preprocessing(trtlab, folder: Path, tmp_path: Path) -> None:
    model, engine = tiny_onnx(folder), tmp_path / "b.engine"
    half = ("--mean", 0.5, 0.5, 0.5, "--std", 0.5, 0.5, 0.5)
    calibrate = ("--int8", "--calib-images", folder / "images", *half)
    says(trtlab("build", "--onnx", model, "--engine", tmp_path / "a.engine", *calibrate))
    cache = ("--engine", engine, "--int8", "--calib-cache", tmp_path / "a.engine.cache")
    asked = trtlab("build", "--onnx", model, *cache, "--mean", 0, 0, 0, "--std", 1, 1, 1)
    fails(asked, "--mean 0.0 0.0 0.0", "a.engine.cache", "mean 0.5 0.5 0.5")
    says(trtlab("build", "--onnx", model, *cache))
    assert _record(engine)["mean"] == [0.5, 0.5, 0.5]


def test_as_many_of_the_folder_s_images_calibrate_as_are_asked_for(trtlab, folder: Path, tmp_path: Path) -> None:
    given = ("--engine", tmp_path / "e", "--int8", "--calib-images", folder / "images")
    free = ("build", "--onnx", tiny_onnx(folder), *given)
    fixed = ("build", "--onnx", tiny_onnx(folder, dynamic=False, batch=4), *given)
    says(trtlab(*free), "entropy, 13 images", "note: ", "tiny_dynamic_0.onnx has no preprocessing record")
    says(trtlab(*free, "--calib-count", 5), "entropy, 5 images")
    says(trtlab(*fixed), "entropy, 12 of 13 images")
    fails(trtlab(*fixed, "--calib-count", 10), "--calib-count 10", "batch of 4")


@pytest.mark.parametrize(
    "option, words",
    [
        (("--mean", "0.5"), ("--mean 0.5", "mean 0.4")),
        (("--std", "0.5"), ("--std 0.5", "std 0.2")),
        (("--resize", "40"), ("--resize 40", "resize 36")),
        (("--crop", "32"), ("--crop 32x32", "crop 32x24")),
        (("--channels", "3"), ("--channels 3", "grey")),
    ],
)
def test_an_option_against_the_record_is_an_error_that_names_both(
    trtlab, data, folder: Path, tmp_path: Path, option: tuple[str, ...], words: tuple[str, str]
) -> None:
    model, engine, images = folder / "grey.onnx", folder / "grey.engine", folder / "images"
    for where, command in (
        ("grey.onnx", ("build", "--onnx", model, "--engine", tmp_path / "e.engine")),
        ("grey.onnx", ("calib-data", "--out", tmp_path / "c.npy", "--onnx", model)),
        ("grey.engine", ("infer", "--engine", engine, "--input", images)),
        ("grey.engine", ("evaluate", "--engine", engine)),
        ("grey.engine", ("bench", "--engine", engine, "--end-to-end", images, "--batch-sizes", "1")),
    ):
        fails(trtlab(*command, *option), *words, where)
    assert not list(tmp_path.iterdir())


def test_an_engine_without_a_record_says_what_it_assumes_or_takes_the_options(
    trtlab, data, folder: Path, paths: list[Path]
) -> None:
    infer, none = ("infer", "--engine", folder / "bare.engine", "--input", paths[0]), "note: engine bare.engine has no"
    usual = Preprocessing.usual(3, SIZE, SIZE).described()
    says(trtlab(*infer), f"{none} preprocessing record; taken is the usual: {usual}\n")
    assert "note:" not in says(trtlab(*infer, "--mean", "0.5,0.5,0.5", "--std", "0.5", "0.5", "0.5"))
    data.num_outputs = 10
    says(trtlab("evaluate", "--engine", folder / "bare.engine"), none)


def test_engines_of_different_preprocessing_are_not_evaluated_together(
    trtlab, data, folder: Path, tmp_path: Path
) -> None:
    data.num_outputs = 10
    half, third = tmp_path / "half.engine", tmp_path / "third.engine"
    for engine, value in ((half, 0.5), (third, 0.3)):
        build_engine(tiny_onnx(folder), engine, BuildOptions(preprocessing=Asked((value,) * 3, (0.5,) * 3)))
    fails(trtlab("evaluate", "--engine", half, third), "half.engine", "third.engine", "mean 0.5", "mean 0.3")
    note = "note: engine bare.engine without preprocessing record: taken is that of engine half"
    says(trtlab("evaluate", "--engine", folder / "bare.engine", half), note)


@pytest.mark.parametrize(
    "options, words",
    [
        (("--mean", "0.5"), ("--mean", "without --std")),
        (("--mean", "a", "--std", "1"), ("--mean takes numbers", "'a'")),
        (("--mean", "0.5", "0.5", "--std", "1"), ("mean 0.5 0.5 does not fit channels 1",)),
        (("--mean", "nan", "--std", "1"), ("mean nan is not finite",)),
        (("--mean", "0", "--std", "-1e-3"), ("std -0.001 is not above 0",)),
        (("--resize", "20"), ("crop 32x24 is larger than resize 20",)),
        (("--crop", "16"), ("[1, 16, 16]", "1, 32, 24")),
        (("--channels", "3", "--resize", "64"), ("[3, 32, 24]", "1, 32, 24")),
        (("--crop", "32*24"), ("--crop '32*24' is no size",)),
        (("--crop", "0"), ("crop 0x0 is impossible",)),
        (("--crop", "9000"), ("crop 9000x9000 is impossible",)),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(
    trtlab, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    model = ("--model", f"{__file__}:grey", "--input", "x:batch,1,32,24")
    fails(trtlab("export", *model, "--out", tmp_path / "m.onnx", *options), *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name, inputs, words",
    [
        ("two", ("--input", "a:batch,3", "--input", "b:batch,3"), ("a, b", "one image input")),
        ("mlp", ("--input", "a:batch,3"), ("no grey or RGB images",)),
    ],
)
def test_a_model_that_takes_no_images_has_no_preprocessing(
    trtlab, folder: Path, tmp_path: Path, name: str, inputs: tuple[str, ...], words: tuple[str, ...]
) -> None:
    path, engine = tmp_path / "m.onnx", tmp_path / "m.engine"
    export = ("export", "--model", f"{__file__}:{name}", *inputs, "--out", path)
    fails(trtlab(*export, "--resize", 32), *words)
    says(trtlab(*export))
    assert not any(entry.key == ONNX_KEY for entry in onnx.load(path).metadata_props)
    fails(trtlab("build", "--onnx", path, "--engine", engine, "--int8", "--calib-images", folder / "images"), *words)
    says(trtlab("build", "--onnx", path, "--engine", engine))
    assert _record(engine) is None


def test_the_lab_s_models_are_exported_with_imagenet_s(trtlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data: TinyNet().eval())
    export, wanted = ("export", "--out", tmp_path / "m.onnx", "--crop", "40x32"), Preprocessing.usual(3, 40, 32)
    says(trtlab(*export, "--simplify"), "input batchx3x40x32", f"preprocessing: {wanted.described()}")
    (found,) = [entry.value for entry in onnx.load(tmp_path / "m.onnx").metadata_props if entry.key == ONNX_KEY]
    assert json.loads(found) == wanted.to_dict()


@pytest.mark.parametrize("damage", ['{"channels": 7}', "{", "[1]", '{"crop": "x"}'])
def test_a_damaged_record_is_one_line_that_names_the_file(trtlab, folder: Path, tmp_path: Path, damage: str) -> None:
    model, engine = onnx.load(tiny_onnx(folder)), tmp_path / "e.engine"
    onnx.helper.set_model_props(model, {ONNX_KEY: damage})
    onnx.save(model, tmp_path / "m.onnx")
    build = ("build", "--onnx", tmp_path / "m.onnx", "--engine", engine)
    fails(trtlab(*build), "preprocessing record of", "m.onnx")
    engine.write_bytes((folder / "bare.engine").read_bytes())
    Path(f"{engine}.json").write_text(f'{{"preprocessing": {damage}}}')
    fails(trtlab("infer", "--engine", engine, "--input", folder / "images"), "e.engine.json")


def test_a_dynamic_height_and_width_are_cropped_as_the_record_says(trtlab, folder: Path, tmp_path: Path) -> None:
    taken = ModelInput("input", ("batch", 3, "h", "w"), torch.float32, {"batch": 1, "h": 32, "w": 32})
    path, images = tmp_path / "m.onnx", folder / "images"
    export_onnx(TinyNet().eval(), path, inputs=[taken], metadata=encoded(Preprocessing.usual(3, 40, 48)))
    build = ("build", "--onnx", path, "--engine", tmp_path / "e", "--int8", "--calib-images", images, "--shapes")
    fails(trtlab(*build, "input:1x3x16x16:1x3x24x24:1x3x32x32"), "[3, 40, 48]", "16–32")
    says(trtlab(*build, "input:1x3x32x32:4x3x48x48:8x3x64x64"), "crop 40x48")
    says(trtlab("infer", "--engine", tmp_path / "e", "--input", images))
