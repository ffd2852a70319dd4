"""Preprocessing against torchvision's transforms."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from helpers.errors import InputError
from solutions.pipeline.preprocessing import Preprocessing, find_images, load_batch, preprocess


def _image(width: int, height: int, mode: str = "RGB") -> Image.Image:
    shape = (height, width, len(mode)) if len(mode) > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(width * height).integers(0, 256, shape, np.uint8), mode=None)


def _torchvision(image: Image.Image, size: int) -> np.ndarray:
    pipeline = transforms.Compose(
        [
            transforms.Resize(round(size * 256 / 224)),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            transforms.Normalize(torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])),
        ]
    )
    return pipeline(image.convert("RGB")).numpy()


@pytest.mark.parametrize("width, height", [(256, 256), (300, 201), (201, 300), (640, 481), (57, 91), (255, 1023)])
@pytest.mark.parametrize("size", [224, 64])
def test_an_image_becomes_what_torchvision_makes_of_it(width: int, height: int, size: int) -> None:
    image = _image(width, height)
    np.testing.assert_allclose(preprocess(image, size), _torchvision(image, size), atol=1e-6)


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_grey_and_transparent_images_are_converted_as_torchvision_would(mode: str, tmp_path: Path) -> None:
    image = _image(80, 60, mode)
    image.save(tmp_path / "image.png")
    np.testing.assert_allclose(preprocess(tmp_path / "image.png", 32), _torchvision(image, 32), atol=1e-6)


def test_a_batch_is_contiguous_float32_in_the_order_of_the_paths(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for index, path in enumerate(paths):
        _image(40 + index, 40).save(path)
    batch = load_batch(paths, 32)
    assert batch.dtype == np.float32 and batch.flags.c_contiguous and batch.shape == (3, 3, 32, 32)
    np.testing.assert_array_equal(batch[2], preprocess(paths[2], 32))
    np.testing.assert_array_equal(np.concatenate(list(Preprocessing.usual(3, 32, 32).batches(paths, 2))), batch)


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
