"""One preprocessing from export to evaluate: it travels, PyTorch agrees with what comes out, contradictions fail."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision import transforms
from torchvision.models import get_model_weights

from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import ONNX_KEY, Asked, encoded, published, read_beside
from trtlab.models.export import export_onnx
from trtlab.models.model_inputs import image_input

OPTIONS = ("--mean", "0.4", "--std", "0.2", "--resize", "36", "--crop", "32x24", "--channels", "1")
GREY = Preprocessing(1, 36, (32, 24), (0.4,), (0.2,))
FACTORY = """
import torch
from torch import nn

def grey():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
"""
TWO = """
from torch import nn

class Two(nn.Module):
    def forward(self, a, b):
        return a.sum(1, keepdim=True) + b

def two():
    return Two()

def mlp():
    return nn.Linear(3, 2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey model of one's own in grey.onnx, 13 images, and engines without any record."""
    folder = tmp_path_factory.mktemp("preprocessing")
    (folder / "net.py").write_text(FACTORY)
    image_folder(folder / "images", 13)
    build_engine(tiny_onnx(folder), folder / "bare.engine", BuildOptions())
    return folder


@pytest.fixture
def grey(folder: Path, trtlab) -> Path:
    """The grey model's ONNX file with its preprocessing inside; made once."""
    path = folder / "grey.onnx"
    if not path.exists():
        assert trtlab("export", "--model", f"{folder / 'net.py'}:grey", "--out", path, *OPTIONS)[0] == 0
    return path


@pytest.fixture
def data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    paths = sorted((folder / "images").iterdir())
    images = lambda split, limit=None, seed=0: [(path, place % 4) for place, path in enumerate(paths)][:limit]  # noqa: E731
    found = SimpleNamespace(name="digits", images=images, classes=list("0123456789"), num_outputs=10)
    monkeypatch.setattr("helpers.data.datasets.load_dataset", lambda name: found)
    return found


def _build(trtlab, onnx_path: Path, engine: Path, *options: object) -> tuple[int, str, str]:
    return trtlab("build", "--onnx", onnx_path, "--engine", engine, *options)


def _record(path: Path) -> dict | None:
    return json.loads(Path(f"{path}.json").read_text())["preprocessing"]


def _fails(result: tuple[int, str, str], *words: str) -> None:
    code, out, err = result
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err + out, result
    assert all(word in err for word in words), err


def _torchvision(path: Path) -> torch.Tensor:
    steps = [transforms.Grayscale(), transforms.Resize(36), transforms.CenterCrop((32, 24)), transforms.ToTensor()]
    return transforms.Compose([*steps, transforms.Normalize([0.4], [0.2])])(Image.open(path))[None]


def _net(folder: Path) -> nn.Module:
    names: dict = {}
    exec(FACTORY, names)
    return names["grey"]().eval()


def test_the_export_s_record_reaches_build_calibration_and_cache(
    trtlab, grey: Path, folder: Path, tmp_path: Path
) -> None:
    engine = tmp_path / "int8.engine"
    code, out, _ = _build(trtlab, grey, engine, "--int8", "--calib-images", folder / "images")
    assert code == 0 and "13 images" in out and f"preprocessing: {GREY.described()}" in out
    assert _record(engine) == _record(tmp_path / "int8.engine.cache") == GREY.to_dict()
    assert ONNX_KEY not in json.loads(Path(f"{engine}.json").read_text())["metadata"]


def test_infer_gives_what_pytorch_gives_on_torchvision_s_transforms(
    trtlab, grey: Path, folder: Path, tmp_path: Path
) -> None:
    assert _build(trtlab, grey, tmp_path / "e.engine")[0] == 0
    image = folder / "images" / "05.png"
    code, out, _ = trtlab("infer", "--engine", tmp_path / "e.engine", "--input", image, "--topk", 1)
    with torch.no_grad():
        probabilities = _net(folder)(_torchvision(image)).softmax(1)[0]
    best = int(probabilities.argmax())
    assert code == 0 and f"class {best} {100 * probabilities[best]:.1f} %" in out and "note:" not in out


def test_evaluate_counts_what_pytorch_counts_on_torchvision_s_transforms(
    trtlab, data, grey: Path, folder: Path, tmp_path: Path
) -> None:
    assert _build(trtlab, grey, tmp_path / "e.engine")[0] == 0
    data.num_outputs = 4
    code, _, _ = trtlab("evaluate", "--engine", tmp_path / "e.engine", "--output", tmp_path / "acc.json")
    paths = sorted((folder / "images").iterdir())
    with torch.no_grad():
        classes = [int(_net(folder)(_torchvision(path)).argmax()) for path in paths]
    found = json.loads((tmp_path / "acc.json").read_text())
    assert code == 0 and found["preprocessing"] == GREY.to_dict()
    assert found["rows"][0]["top1"] == pytest.approx(100 * np.mean([c == p % 4 for p, c in enumerate(classes)]))


def test_calib_data_takes_the_model_s_preprocessing_and_the_build_compares_it(
    trtlab, data, grey: Path, folder: Path, tmp_path: Path
) -> None:
    code, out, _ = trtlab("calib-data", "--out", tmp_path / "c.npy", "--n", 12, "--onnx", grey)
    assert code == 0 and "[12, 1, 32, 24]" in out and read_beside(tmp_path / "c.npy") == GREY
    expected = torch.cat([_torchvision(path) for path in sorted((folder / "images").iterdir())[:12]])
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), expected.numpy(), atol=1e-6)
    assert _build(trtlab, grey, tmp_path / "a.engine", "--int8", "--calib-npy", tmp_path / "c.npy")[0] == 0
    others = ("--crop", "32x24", "--channels", 1, "--resize", 40)
    assert trtlab("calib-data", "--out", tmp_path / "other.npy", "--n", 12, *others)[0] == 0
    result = _build(trtlab, grey, tmp_path / "b.engine", "--int8", "--calib-npy", tmp_path / "other.npy")
    _fails(result, "grey.onnx", "other.npy", "resize 36", "resize 40")
    assert not (tmp_path / "b.engine").exists()


def test_a_tensor_of_another_preprocessing_is_not_fed_to_an_engine(trtlab, data, grey: Path, tmp_path: Path) -> None:
    assert _build(trtlab, grey, tmp_path / "e.engine")[0] == 0
    compare = ("compare", "--a", tmp_path / "e.engine", "--b", tmp_path / "e.engine", "--calib-npy", tmp_path / "c.npy")
    assert trtlab("calib-data", "--out", tmp_path / "c.npy", "--n", 12, "--onnx", grey)[0] == 0
    assert trtlab(*compare)[0] == 0
    others = ("--crop", "32x24", "--channels", 1)
    assert trtlab("calib-data", "--out", tmp_path / "c.npy", "--n", 12, *others)[0] == 0
    _fails(trtlab(*compare), "e.engine", "c.npy", "mean 0.4", "mean 0")


def test_a_tensor_written_anew_by_hand_has_no_record(trtlab, data, grey: Path, tmp_path: Path) -> None:
    others = ("--crop", "32x24", "--channels", 1)
    assert trtlab("calib-data", "--out", tmp_path / "c.npy", "--n", 12, *others)[0] == 0
    np.save(tmp_path / "c.npy", np.load(tmp_path / "c.npy") + 1)
    assert read_beside(tmp_path / "c.npy") is None
    assert _build(trtlab, grey, tmp_path / "e.engine", "--int8", "--calib-npy", tmp_path / "c.npy")[0] == 0


def test_a_cache_is_not_used_under_another_preprocessing(trtlab, folder: Path, tmp_path: Path) -> None:
    model, images = tiny_onnx(folder), folder / "images"
    half = ("--mean", 0.5, 0.5, 0.5, "--std", 0.5, 0.5, 0.5)
    assert _build(trtlab, model, tmp_path / "a.engine", "--int8", "--calib-images", images, *half)[0] == 0
    cache = ("--int8", "--calib-cache", tmp_path / "a.engine.cache")
    result = _build(trtlab, model, tmp_path / "b.engine", *cache, "--mean", 0, 0, 0, "--std", 1, 1, 1)
    _fails(result, "a.engine.cache", "mean 0.5 0.5 0.5", "--mean 0 0 0")
    recorded = tmp_path / "zero.onnx"
    zero = Preprocessing.usual(3, SIZE, SIZE, mean=(0.0,) * 3, std=(1.0,) * 3)
    export_onnx(TinyNet().eval(), recorded, input_size=SIZE, metadata=encoded(zero))
    result = _build(trtlab, recorded, tmp_path / "b.engine", *cache)
    _fails(result, "a.engine.cache", "zero.onnx", "mean 0.5 0.5 0.5", "mean 0 0 0")
    assert _build(trtlab, model, tmp_path / "b.engine", *cache)[0] == 0
    assert _record(tmp_path / "b.engine")["mean"] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("count, used", [(None, 13), (5, 5), (13, 13)])
def test_as_many_of_the_folder_s_images_calibrate_as_are_asked_for(
    trtlab, folder: Path, tmp_path: Path, count: int | None, used: int
) -> None:
    chosen = () if count is None else ("--calib-count", count)
    code, out, _ = _build(
        trtlab, tiny_onnx(folder), tmp_path / "e", "--int8", "--calib-images", folder / "images", *chosen
    )
    assert code == 0 and f"calibration: entropy, {used} images" in out
    assert "note: " in out and "tiny_dynamic_0.onnx has no preprocessing record" in out


def test_a_fixed_batch_leaves_images_over_and_the_build_says_how_many(trtlab, folder: Path, tmp_path: Path) -> None:
    model = tiny_onnx(folder, dynamic=False, batch=4)
    arguments = ("--int8", "--calib-images", folder / "images")
    code, out, _ = _build(trtlab, model, tmp_path / "e", *arguments)
    assert code == 0 and "calibration: entropy, 12 of 13 images" in out
    _fails(_build(trtlab, model, tmp_path / "f", *arguments, "--calib-count", 10), "--calib-count 10", "batch of 4")


@pytest.mark.parametrize(
    "option, words",
    [
        (("--mean", "0.5"), ("--mean 0.5", "mean 0.4")),
        (("--std", "0.5"), ("--std 0.5", "std 0.2")),
        (("--resize", "40"), ("--resize 40", "resize 36")),
        (("--crop", "32"), ("--crop 32x32", "crop 32x24")),
        (("--channels", "3"), ("--channels 3", "channels 1")),
    ],
)
def test_an_option_against_the_record_is_an_error_that_names_both(
    trtlab, data, grey: Path, folder: Path, tmp_path: Path, option: tuple[str, ...], words: tuple[str, str]
) -> None:
    engine = folder / "grey.engine"
    if not engine.exists():
        assert _build(trtlab, grey, engine, *OPTIONS)[0] == 0
    images = folder / "images"
    _fails(_build(trtlab, grey, tmp_path / "e.engine", *option), *words, "grey.onnx")
    _fails(trtlab("infer", "--engine", engine, "--input", images, *option), *words, "grey.engine")
    _fails(trtlab("evaluate", "--engine", engine, *option), *words, "grey.engine")
    bench = ("bench", "--engine", engine, "--end-to-end", images, "--batch-sizes", "1")
    _fails(trtlab(*bench, *option), *words, "grey.engine")
    _fails(trtlab("calib-data", "--out", tmp_path / "c.npy", "--onnx", grey, *option), *words, "grey.onnx")
    assert not list(tmp_path.iterdir())


def test_an_engine_without_a_record_says_what_it_assumes_or_takes_the_options(trtlab, data, folder: Path) -> None:
    infer = ("infer", "--engine", folder / "bare.engine", "--input", folder / "images" / "00.png", "--topk", "1")
    code, out, _ = trtlab(*infer)
    usual = Preprocessing.usual(3, SIZE, SIZE).described()
    assert code == 0 and f"note: engine bare.engine has no preprocessing record; taken is the usual: {usual}\n" in out
    code, out, _ = trtlab(*infer, "--mean", "0.5,0.5,0.5", "--std", "0.5", "0.5", "0.5")
    assert code == 0 and "note:" not in out
    code, out, _ = trtlab("evaluate", "--engine", folder / "bare.engine")
    assert code == 0 and "note: engine bare.engine has no preprocessing record" in out


def test_engines_of_different_preprocessing_are_not_evaluated_together(
    trtlab, data, folder: Path, tmp_path: Path
) -> None:
    model = tiny_onnx(folder)
    for name, value in (("half", 0.5), ("third", 0.3)):
        options = BuildOptions(preprocessing=Asked((value,) * 3, (0.5,) * 3))
        build_engine(model, tmp_path / f"{name}.engine", options)
    both = ("--engine", tmp_path / "half.engine", tmp_path / "third.engine")
    _fails(trtlab("evaluate", *both), "half.engine", "third.engine", "mean 0.5", "mean 0.3")
    code, out, _ = trtlab("evaluate", "--engine", folder / "bare.engine", tmp_path / "half.engine")
    assert code == 0 and "note: engine bare.engine without preprocessing record: taken is that of engine half" in out


@pytest.mark.parametrize(
    "options, words",
    [
        (("--mean", "0.5"), ("--mean", "without --std")),
        (("--mean", "a", "--std", "1"), ("--mean takes numbers", "'a'")),
        (("--mean", "0.5", "0.5", "--std", "1"), ("mean 0.5 0.5 has 2 values for 1 channels",)),
        (("--mean", "nan", "--std", "1"), ("mean nan is not finite",)),
        (("--mean", "0", "--std", "-1e-3"), ("std -0.001 is not above 0",)),
        (("--resize", "20"), ("crop 32x24 is larger than resize 20",)),
        (("--crop", "16"), ("[1, 16, 16]", "1, 32, 24")),
        (("--channels", "3", "--resize", "64"), ("[3, 32, 24]", "1, 32, 24")),
        (("--crop", "32*24"), ("--crop '32*24' is no size",)),
        (("--crop", "0"), ("size of 0 pixels is impossible",)),
        (("--crop", "9000"), ("crop 9000 is impossible",)),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(
    trtlab, folder: Path, tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    model = ("--model", f"{folder / 'net.py'}:grey", "--input", "x:batch,1,32,24")
    _fails(trtlab("export", *model, "--out", tmp_path / "m.onnx", *options), *words)
    assert not list(tmp_path.iterdir())


def test_a_model_that_takes_no_images_has_no_preprocessing(trtlab, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)
    two = ("--model", f"{tmp_path / 'two.py'}:two", "--input", "a:batch,3", "--input", "b:batch,4")
    mlp = ("--model", f"{tmp_path / 'two.py'}:mlp", "--input", "a:batch,3")
    for name, model, words in (("two", two, ("a, b", "one image input")), ("mlp", mlp, ("no grey or RGB images",))):
        path = tmp_path / f"{name}.onnx"
        _fails(trtlab("export", *model, "--out", path, "--resize", 32), *words)
        assert trtlab("export", *model, "--out", path)[0] == 0
        assert not any(entry.key == ONNX_KEY for entry in onnx.load(path).metadata_props)
        assert (
            _build(trtlab, path, tmp_path / f"{name}.engine")[0] == 0 and _record(tmp_path / f"{name}.engine") is None
        )
        _fails(_build(trtlab, path, tmp_path / "e", "--int8", "--calib-images", folder / "images"), *words)


def test_the_lab_s_models_are_exported_with_imagenet_s(trtlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data: TinyNet().eval())
    code, out, _ = trtlab("export", "--out", tmp_path / "m.onnx", "--crop", "40x32", "--simplify")
    wanted = Preprocessing.usual(3, 40, 32)
    assert code == 0 and "input batchx3x40x32" in out and f"preprocessing: {wanted.described()}" in out
    (found,) = [entry.value for entry in onnx.load(tmp_path / "m.onnx").metadata_props if entry.key == ONNX_KEY]
    assert json.loads(found) == wanted.to_dict()


@pytest.mark.parametrize("name, size", [("efficientnet_b0", 224), ("efficientnet_v2_l", 480), ("inception_v3", 299)])
def test_torchvision_s_weights_bring_the_preprocessing_that_they_were_evaluated_with(name: str, size: int) -> None:
    asked = get_model_weights(name).DEFAULT.transforms()
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 401, 3), np.uint8))
    found = published(name, "imagenette", size, size).to_input(image)
    np.testing.assert_allclose(found, asked(image).numpy(), atol=1e-6)


@pytest.mark.parametrize("damage", ['{"channels": 7}', "{", "[1]", "null", '{"crop": "x"}'])
def test_a_damaged_record_is_one_line_that_names_the_file(trtlab, folder: Path, tmp_path: Path, damage: str) -> None:
    model = onnx.load(tiny_onnx(folder))
    onnx.helper.set_model_props(model, {ONNX_KEY: damage})
    onnx.save(model, tmp_path / "m.onnx")
    _fails(_build(trtlab, tmp_path / "m.onnx", tmp_path / "e.engine"), "preprocessing record of", "m.onnx")
    (tmp_path / "e.engine").write_bytes((folder / "bare.engine").read_bytes())
    (tmp_path / "e.engine.json").write_text(f'{{"preprocessing": {damage}}}')
    result = trtlab("infer", "--engine", tmp_path / "e.engine", "--input", folder / "images")
    if damage != "null":
        _fails(result, "e.engine.json")


def test_a_dynamic_height_and_width_are_cropped_as_the_record_says(trtlab, folder: Path, tmp_path: Path) -> None:
    axes = image_input("input", 1, True, 3, 32)
    model = type(axes)("input", ("batch", 3, "h", "w"), torch.float32, {"batch": 1, "h": 32, "w": 32})
    wanted = Preprocessing.usual(3, 40, 48)
    path = tmp_path / "m.onnx"
    export_onnx(TinyNet().eval(), path, inputs=[model], metadata=encoded(wanted))
    shapes = ("--shapes", "input:1x3x32x32:4x3x48x48:8x3x64x64")
    code, out, _ = _build(trtlab, path, tmp_path / "e", "--int8", "--calib-images", folder / "images", *shapes)
    assert code == 0 and "crop 40x48" in out
    assert trtlab("infer", "--engine", tmp_path / "e", "--input", folder / "images")[0] == 0
    small = ("--shapes", "input:1x3x16x16:1x3x24x24:1x3x32x32")
    _fails(_build(trtlab, path, tmp_path / "f", *small), "[3, 40, 48]", "16–32")


def test_options_of_images_without_images_are_an_error(trtlab, folder: Path) -> None:
    engine = folder / "bare.engine"
    _fails(trtlab("bench", "--engine", engine, "--resize", 64), "--end-to-end")
    build = ("build", "--onnx", tiny_onnx(folder), "--engine", folder / "no", "--int8", "--calib-npy", folder / "c.npy")
    _fails(trtlab(*build, "--calib-count", 4), "--calib-count 4", "--calib-images")


def test_every_command_that_reads_images_has_the_same_five_options(trtlab) -> None:
    for command in ("export", "build", "calib-data", "infer", "evaluate", "bench"):
        _, out, _ = trtlab(command, "--help")
        assert all(re.search(rf"--{name}\b", out) for name in ("mean", "std", "resize", "crop", "channels")), command
