"""Images to network input: resize, centre crop and ImageNet's mean and standard deviation, as torchvision does it.

For a crop of 224 the shorter side is resized to 256; other sizes keep that ratio. Written on Pillow and NumPy so that a
calibrator or an inference script needs no PyTorch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from helpers.errors import InputError

__all__ = ["IMAGE_SUFFIXES", "MEAN", "STD", "batches", "decode", "find_images", "load_batch", "preprocess", "to_input"]

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_RESIZE_TO_CROP = 256 / 224


def preprocess(image: str | Path | Image.Image, size: int = 224) -> np.ndarray:
    """Return one image as float32 [3, size, size], normalised.

    Raises:
        InputError: the file is missing or is no image that can be decoded.
    """
    return to_input(image if isinstance(image, Image.Image) else decode(image), size)


def to_input(image: Image.Image, size: int = 224) -> np.ndarray:
    """Return a decoded image as float32 [3, size, size]: resized, cropped and normalised."""
    cropped = _centre_crop(_resize_shorter_side(image.convert("RGB"), round(size * _RESIZE_TO_CROP)), size)
    pixels = np.asarray(cropped, np.float32) / np.float32(255)
    return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1))


def load_batch(paths: Sequence[str | Path], size: int = 224) -> np.ndarray:
    """Return the images as one contiguous float32 array [N, 3, size, size]."""
    batch = np.empty((len(paths), 3, size, size), np.float32)
    for row, path in zip(batch, paths, strict=True):
        row[:] = preprocess(path, size)
    return batch


def batches(paths: Sequence[str | Path], batch_size: int, size: int = 224) -> Iterator[np.ndarray]:
    """Yield the images batch by batch, so that memory does not grow with their number; the last may be smaller."""
    for start in range(0, len(paths), batch_size):
        yield load_batch(paths[start : start + batch_size], size)


def find_images(place: str | Path) -> list[Path]:
    """Return `place` itself if it is a file, else every image below the folder, sorted by path.

    Raises:
        InputError: nothing there, or a folder without images.
    """
    place = Path(place)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError(f"{place} does not exist; give an image or a folder of images")
    found = sorted(path for path in place.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    if not found:
        raise InputError(f"folder {place} has no images; put images there ({', '.join(IMAGE_SUFFIXES)})")
    return found


def decode(path: str | Path) -> Image.Image:
    """Return an image file's pixels.

    Raises:
        InputError: the file is missing or is no image that can be decoded.
    """
    try:
        with Image.open(path) as image:
            image.load()
            return image
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and others
        reason = str(getattr(error, "strerror", None) or error)
        raise InputError(f"cannot read the image {path}: {reason}; remove it or save it again") from error


def _resize_shorter_side(image: Image.Image, target: int) -> Image.Image:
    width, height = image.size
    if width <= height:
        resized = (target, int(target * height / width))
    else:
        resized = (int(target * width / height), target)
    return image.resize(resized, Image.Resampling.BILINEAR)


def _centre_crop(image: Image.Image, size: int) -> Image.Image:
    width, height = image.size
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, top, left + size, top + size))
