"""Preprocessing against torchvision's transforms, and what no image can be preprocessed by."""

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

from trtcpu.errors import InputError
from trtlab.images.preprocessing import IMAGENET, Preprocessing, find_images, load_batch, preprocess

SQUARE = Preprocessing.usual(3, 64, 64)
OTHERS = {
    "inception's": Preprocessing(3, 342, 299, 299, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "tall": Preprocessing(3, 256, 224, 160, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "wide": Preprocessing(3, 96, 48, 95, (0.1, 0.2, 0.3), (1.0, 2.0, 0.5)),
    "no crop": Preprocessing(3, 32, 32, 32, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "bicubic": Preprocessing(3, 64, 48, 48, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "bicubic"),
    "grey": Preprocessing(1, 32, 28, 28, (0.1307,), (0.3081,)),
    "usual grey, tall": Preprocessing.usual(1, 40, 24),
}


def _image(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, len(mode)) if len(mode) > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(width * height).integers(0, 256, shape, np.uint8), mode=None)


def _torchvision(image: Image.Image, wanted: Preprocessing) -> np.ndarray:
    pipeline = transforms.Compose(
        [
            transforms.Grayscale() if wanted.channels == 1 else transforms.Lambda(lambda image: image.convert("RGB")),
            transforms.Resize(wanted.resize, transforms.InterpolationMode(wanted.interpolation)),
            transforms.CenterCrop((wanted.height, wanted.width)),
            transforms.ToTensor(),
            transforms.Normalize(torch.tensor(wanted.mean), torch.tensor(wanted.std)),
        ]
    )
    return pipeline(image).numpy()


@pytest.mark.parametrize("width, height", [(256, 256), (300, 201), (201, 300), (640, 481), (57, 91), (255, 1023)])
@pytest.mark.parametrize("wanted", [IMAGENET, SQUARE], ids=["224", "64"])
def test_an_image_becomes_what_torchvision_makes_of_it(width: int, height: int, wanted: Preprocessing) -> None:
    image = _image(width, height)
    np.testing.assert_allclose(wanted.to_input(image), _torchvision(image, wanted), atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("width, height, mode", [(300, 201, "RGB"), (57, 91, "RGB"), (120, 121, "L"), (90, 60, "RGBA")])
def test_other_sizes_colours_and_means_are_torchvisions_too(name: str, width: int, height: int, mode: str) -> None:
    image, wanted = _image(width, height, mode), OTHERS[name]
    found = wanted.to_input(image)
    assert found.dtype == np.float32 and found.shape == wanted.shape and found.flags.c_contiguous
    np.testing.assert_allclose(found, _torchvision(image, wanted), atol=1e-6)


def test_the_lab_s_own_is_what_torchvision_s_weights_ask_for() -> None:
    from torchvision.models import ResNet50_Weights

    asked = ResNet50_Weights.IMAGENET1K_V1.transforms()
    assert ([IMAGENET.height], [IMAGENET.resize]) == (asked.crop_size, asked.resize_size)
    assert (list(IMAGENET.mean), list(IMAGENET.std)) == (asked.mean, asked.std)
    image = _image(300, 201)
    np.testing.assert_array_equal(preprocess(image), IMAGENET.to_input(image))


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_grey_and_transparent_images_are_converted_as_torchvision_would(mode: str, tmp_path: Path) -> None:
    image = _image(80, 60, mode)
    image.save(tmp_path / "image.png")
    np.testing.assert_allclose(SQUARE.load(tmp_path / "image.png"), _torchvision(image, SQUARE), atol=1e-6)


def test_a_batch_is_contiguous_float32_in_the_order_of_the_paths(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for index, path in enumerate(paths):
        _image(40 + index, 40).save(path)
    batch = load_batch(paths, 32)
    assert batch.dtype == np.float32 and batch.flags.c_contiguous and batch.shape == (3, 3, 32, 32)
    np.testing.assert_array_equal(batch[2], preprocess(paths[2], 32))
    np.testing.assert_array_equal(np.concatenate(list(Preprocessing.usual(3, 32, 32).batches(paths, 2))), batch)


@pytest.mark.parametrize("name", OTHERS)
def test_a_record_goes_through_json_unchanged(name: str) -> None:
    assert Preprocessing.from_dict(json.loads(json.dumps(OTHERS[name].to_dict())), "f.json") == OTHERS[name]


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"channels": 4, "mean": (0.5,) * 4, "std": (0.5,) * 4}, "images of 4 channels are not read; choose 1"),
        ({"channels": 1}, "mean 0.485 0.456 0.406 has 3 values for 1 channels"),
        ({"std": (0.5,)}, "std 0.5 has 1 value for 3 channels"),
        ({"mean": (0.5, float("nan"), 0.5)}, "mean 0.5 nan 0.5 is not finite"),
        ({"std": (0.5, float("inf"), 0.5)}, "std 0.5 inf 0.5 is not finite"),
        ({"std": (0.5, 0.0, 0.5)}, "std 0.5 0 0.5 is not above 0"),
        ({"std": (0.5, -1.0, 0.5)}, "std 0.5 -1 0.5 is not above 0"),
        ({"mean": (123.675, 116.28, 103.53)}, "divide mean and std by 255"),
        ({"interpolation": "nearest"}, "interpolation 'nearest' is unknown; choose bilinear or bicubic"),
        ({"height": 0}, "crop 0 is impossible; give 1 to 8192"),
        ({"resize": 8193}, "resize 8193 is impossible"),
        ({"resize": 223}, "crop 224x224 is larger than resize 223"),
        ({"width": 300}, "crop 224x300 is larger than resize 256"),
    ],
)
def test_a_preprocessing_that_no_image_can_have_is_one_line(changed: dict, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Preprocessing(**{**vars(IMAGENET), **changed})


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"mean": None}, "is damaged"),
        ({"crop": [224]}, "is damaged"),
        ({"crop": [224.5, 224]}, "224.5 is no whole number"),
        ({"resize": True}, "True is no whole number"),
        ({"channels": 2}, "images of 2 channels"),
        ({"std": ["a", "b", "c"]}, "could not convert"),
    ],
)
def test_a_damaged_record_names_its_file_and_what_is_wrong(changed: dict, said: str) -> None:
    with pytest.raises(InputError, match=rf"record of e\.engine\.json .*{said}"):
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


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_a_file_that_is_no_image_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read the image .*broken\.png"):
        preprocess(path)


def test_a_truncated_image_is_named(tmp_path: Path) -> None:
    _image(200, 200).save(tmp_path / "whole.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:2000])
    with pytest.raises(InputError, match=r"cut\.jpg.*truncated"):
        preprocess(tmp_path / "cut.jpg")


def test_images_are_found_in_subfolders_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b/2.JPG", "a/1.png", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in find_images(tmp_path)] == ["1.png", "2.JPG"]
    assert find_images(tmp_path / "a/1.png") == [tmp_path / "a/1.png"]


def test_a_place_without_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no images"):
        find_images(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        find_images(tmp_path / "nowhere")
