"""Preprocessing against torchvision's transforms, and what no image can be preprocessed by."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms
from torchvision.models import get_model_weights

from trtcpu.errors import InputError
from trtlab.images.preprocessing import IMAGENET, Preprocessing, find_images, load_batch
from trtlab.images.preprocessing_record import published

RECORDS = {
    "224": IMAGENET,
    "64": Preprocessing.usual(3, 64, 64),
    "inception's": Preprocessing(3, 342, (299, 299), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "tall": Preprocessing(3, 256, (224, 160), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "wide": Preprocessing(3, 96, (48, 95), (0.1, 0.2, 0.3), (1.0, 2.0, 0.5)),
    "no crop": Preprocessing(3, 32, (32, 32), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "bicubic": Preprocessing(3, 64, (48, 48), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "bicubic"),
    "grey": Preprocessing(1, 32, (28, 28), (0.1307,), (0.3081,)),
    "usual grey, tall": Preprocessing.usual(1, 40, 24),
}
SIZES = [(256, 256), (300, 201), (201, 300), (640, 481), (57, 91), (255, 1023)]


def _image(width: int, height: int, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, len(mode)), np.uint8)
    return Image.fromarray(pixels.squeeze())


def _torchvision(image: Image.Image, wanted: Preprocessing) -> np.ndarray:
    steps = [
        transforms.Grayscale() if wanted.channels == 1 else transforms.Lambda(lambda image: image.convert("RGB")),
        transforms.Resize(wanted.resize, transforms.InterpolationMode(wanted.interpolation)),
        transforms.CenterCrop(wanted.crop),
        transforms.ToTensor(),
        transforms.Normalize(torch.tensor(wanted.mean), torch.tensor(wanted.std)),
    ]
    return transforms.Compose(steps)(image).numpy()


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("image", [*(_image(*size) for size in SIZES), _image(120, 121, "L"), _image(90, 60, "RGBA")])
def test_an_image_becomes_what_torchvision_makes_of_it(name: str, image: Image.Image) -> None:
    found = RECORDS[name].to_input(image)
    assert found.dtype == np.float32 and found.shape == RECORDS[name].shape and found.flags.c_contiguous
    np.testing.assert_allclose(found, _torchvision(image, RECORDS[name]), atol=1e-6)


@pytest.mark.parametrize(
    "name, size", [("resnet50", 224), ("efficientnet_b0", 224), ("efficientnet_v2_l", 480), ("inception_v3", 299)]
)
def test_torchvision_s_weights_bring_the_preprocessing_that_they_were_evaluated_with(name: str, size: int) -> None:
    weights = get_model_weights(name)
    asked, image = getattr(weights, "IMAGENET1K_V1", weights.DEFAULT).transforms(), _image(401, 300)
    found = published(name, "imagenette", size, size).to_input(image)
    np.testing.assert_allclose(found, asked(image).numpy(), atol=1e-6)
    assert published(name, "digits", 224, 224) == IMAGENET


def test_a_batch_is_contiguous_float32_in_the_order_of_the_paths(tmp_path: Path) -> None:
    usual, paths = Preprocessing.usual(3, 32, 32), [tmp_path / f"{width}.png" for width in (40, 41, 42)]
    for path in paths:
        _image(int(path.stem), 40).save(path)
    batch = load_batch(paths, 32)
    assert batch.dtype == np.float32 and batch.flags.c_contiguous and batch.shape == (3, 3, 32, 32)
    np.testing.assert_array_equal(batch[2], usual.to_input(_image(42, 40)))
    np.testing.assert_array_equal(np.concatenate(list(usual.batches(paths, 2))), batch)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_goes_through_json_unchanged(name: str) -> None:
    assert Preprocessing.from_dict(json.dumps(RECORDS[name].to_dict()), "f.json") == RECORDS[name]


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"channels": 4, "mean": (0.5,) * 4, "std": (0.5,) * 4}, "images of 4 channels are not read; choose 1"),
        ({"channels": 1}, "mean 0.485 0.456 0.406 does not fit channels 1"),
        ({"std": (0.5,)}, "std 0.5 does not fit channels 3; give one value a channel"),
        ({"std": ["a", "b", "c"]}, "could not convert"),
        ({"mean": None}, "is damaged"),
        ({"mean": (0.5, float("nan"), 0.5)}, "mean 0.5 nan 0.5 is not finite"),
        ({"std": (0.5, float("inf"), 0.5)}, "std 0.5 inf 0.5 is not finite"),
        ({"std": (0.5, 0.0, 0.5)}, "std 0.5 0 0.5 is not above 0"),
        ({"std": (0.5, -1.0, 0.5)}, "std 0.5 -1 0.5 is not above 0"),
        ({"mean": (123.675, 116.28, 103.53)}, "divide mean and std by 255"),
        ({"interpolation": "nearest"}, "interpolation 'nearest' is unknown; choose bilinear or bicubic"),
        ({"crop": [224]}, "is damaged"),
        ({"crop": [0, 224]}, "crop 0x224 is impossible; give 1 to 8192"),
        ({"crop": [224.5, 224]}, "crop 224.5x224 is impossible"),
        ({"crop": [224, 300]}, "crop 224x300 is larger than resize 256"),
        ({"resize": 8193}, "resize 8193 is impossible"),
        ({"resize": 223}, "crop 224x224 is larger than resize 223"),
    ],
)
def test_a_record_that_no_image_can_have_names_its_file_and_what_is_wrong(changed: dict, said: str) -> None:
    with pytest.raises(InputError, match=rf"record of e\.engine\.json .*{re.escape(said)}"):
        Preprocessing.from_dict({**IMAGENET.to_dict(), **changed}, "e.engine.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=4),
    max_leaves=5,
)


@given(content=_JSON | st.dictionaries(st.sampled_from(list(IMAGENET.to_dict())), _JSON))
def test_no_record_crashes_its_reader(content: object) -> None:
    try:
        found = Preprocessing.from_dict(content, "f.json")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert found.to_input(_image(9, 7)).shape == found.shape


CUT = io.BytesIO()
_image(200, 200).save(CUT, "jpeg")


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, CUT.getvalue()[:2000]])
def test_a_file_that_is_no_image_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read the image .*broken\.png"):
        IMAGENET.load(tmp_path / "broken.png")


def test_images_are_found_in_subfolders_in_a_fixed_order(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no images"):
        find_images(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        find_images(tmp_path / "nowhere")
    for name in ("b/2.JPG", "a/1.png", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in find_images(tmp_path)] == ["1.png", "2.JPG"]
    assert find_images(tmp_path / "a/1.png") == [tmp_path / "a/1.png"]
