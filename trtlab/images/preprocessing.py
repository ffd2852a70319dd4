"""Images to network input, as torchvision's Resize, CenterCrop, ToTensor and Normalize do it: one record says how.

Written on Pillow and NumPy so that a calibrator or an inference script needs no PyTorch. How the record travels with a
model is in preprocessing_record.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trtcpu.errors import InputError

MOST_PIXELS = 8192
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_RESIZE_TO_CROP = 256 / 224
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
_MODES = {1: "L", 3: "RGB"}
_COLOURS = {1: "grey", 3: "RGB"}
_USUAL = {1: ((0.0,), (1.0,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
MEAN, STD = (np.array(values, np.float32) for values in _USUAL[3])


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes float32 [channels, height, width].

    Converted to grey or RGB, the shorter side resized to `resize` pixels (bilinear or bicubic), the centre of
    `height` × `width` cut out, pixels brought to 0..1, `mean` subtracted and divided by `std`, one value a channel.

    Raises:
        InputError: sizes, channels or values that no image can have.
    """

    channels: int
    resize: int
    height: int
    width: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if self.channels not in _MODES:
            raise InputError(f"images of {self.channels} channels are not read; choose 1 (grey) or 3 (RGB)")
        for name, size in (("crop", self.height), ("crop", self.width), ("resize", self.resize)):
            if not 1 <= size <= MOST_PIXELS:
                raise InputError(f"{name} {size} is impossible; give 1 to {MOST_PIXELS} pixels")
        if self.interpolation not in _FILTERS:
            raise InputError(f"interpolation {self.interpolation!r} is unknown; choose {' or '.join(_FILTERS)}")
        if max(self.height, self.width) > self.resize:
            raise InputError(f"crop {self._crop()} is larger than resize {self.resize}; resize to as much or more")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != self.channels:
                number = f"{len(values)} value{'s' if len(values) != 1 else ''}"
                raise InputError(f"{name} {numbers(values)} has {number} for {self.channels} channels; give one each")
            if not all(math.isfinite(value) for value in values):
                raise InputError(f"{name} {numbers(values)} is not finite; give numbers")
        if max(self.mean) > 1:
            raise InputError(f"mean {numbers(self.mean)} is above 1, and pixels are 0 to 1; divide mean and std by 255")
        if min(self.std) < 1e-6:
            raise InputError(f"std {numbers(self.std)} is not above 0; give what pixels of 0 to 1 are divided by")

    @classmethod
    def usual(cls, channels: int, height: int, width: int, **others: Any) -> "Preprocessing":
        """Return ImageNet's for RGB and plain 0..1 for grey, `resize` in the ratio 256 : 224 to the longer side."""
        mean, std = _USUAL.get(channels, ((), ()))
        resize = min(round(max(height, width) * _RESIZE_TO_CROP), MOST_PIXELS)
        return cls(channels, **{"resize": resize, "height": height, "width": width, "mean": mean, "std": std, **others})

    @classmethod
    def from_dict(cls, content: Any, source: str) -> "Preprocessing":
        """Return what `to_dict` gave; `source` names the file in the error.

        Raises:
            InputError: a key is missing, or a value is of the wrong type or impossible.
        """
        try:
            height, width = (_integer(size) for size in content["crop"])
            channels, resize = _integer(content["channels"]), _integer(content["resize"])
            mean, std = (tuple(float(value) for value in content[name]) for name in ("mean", "std"))
            return cls(channels, resize, height, width, mean, std, str(content["interpolation"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"the preprocessing record of {source} is damaged: {why}; make the file again") from error
        except InputError as error:
            raise InputError(f"the preprocessing record of {source} is damaged: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        sizes = {"channels": self.channels, "resize": self.resize, "crop": [self.height, self.width]}
        return {**sizes, "mean": list(self.mean), "std": list(self.std), "interpolation": self.interpolation}

    def described(self) -> str:
        """Return the record in words."""
        return (
            f"{_COLOURS[self.channels]}, resize {self.resize} ({self.interpolation}), crop {self._crop()}, "
            f"mean {numbers(self.mean)}, std {numbers(self.std)}"
        )

    def _crop(self) -> str:
        return f"{self.height}x{self.width}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image: channels, height, width."""
        return (self.channels, self.height, self.width)

    @property
    def mode(self) -> str:
        """Pillow's name of the colours: L or RGB."""
        return _MODES[self.channels]

    def to_input(self, image: Image.Image) -> np.ndarray:
        """Return a decoded image as float32 [channels, height, width]."""
        resized = _resize_shorter_side(image.convert(self.mode), self.resize, _FILTERS[self.interpolation])
        cropped = _centre_crop(resized, self.height, self.width)
        pixels = np.asarray(cropped, np.float32).reshape(self.height, self.width, self.channels) / np.float32(255)
        normal = (pixels - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(normal.transpose(2, 0, 1))

    def load(self, path: str | Path) -> np.ndarray:
        """Return an image file as float32 [channels, height, width].

        Raises:
            InputError: the file is missing or is no image that can be decoded.
        """
        return self.to_input(decode(path))

    def load_batch(self, paths: Sequence[str | Path]) -> np.ndarray:
        """Return the images as one contiguous float32 array [N, channels, height, width]."""
        batch = np.empty((len(paths), *self.shape), np.float32)
        for row, path in zip(batch, paths, strict=True):
            row[:] = self.load(path)
        return batch

    def batches(self, paths: Sequence[str | Path], batch_size: int) -> Iterator[np.ndarray]:
        """Yield the images batch by batch, so that memory does not grow with their number; the last may be smaller."""
        for start in range(0, len(paths), batch_size):
            yield self.load_batch(paths[start : start + batch_size])


def preprocess(image: str | Path | Image.Image, size: int = 224) -> np.ndarray:
    """Return one image as float32 [3, size, size], as the lab's models take it (ImageNet's preprocessing).

    Raises:
        InputError: the file is missing or is no image that can be decoded.
    """
    return Preprocessing.usual(3, size, size).to_input(image if isinstance(image, Image.Image) else decode(image))


def load_batch(paths: Sequence[str | Path], size: int = 224) -> np.ndarray:
    """Return the images as one contiguous float32 array [N, 3, size, size], as the lab's models take them."""
    return Preprocessing.usual(3, size, size).load_batch(paths)


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


def numbers(values: Sequence[float]) -> str:
    """Return the values as the command line takes them: 0.5 0.5 0.5."""
    return " ".join(f"{value!r}".removesuffix(".0") for value in values)


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _resize_shorter_side(image: Image.Image, target: int, interpolation: Image.Resampling) -> Image.Image:
    width, height = image.size
    if width <= height:
        resized = (target, int(target * height / width))
    else:
        resized = (int(target * width / height), target)
    return image.resize(resized, interpolation)


def _centre_crop(image: Image.Image, height: int, width: int) -> Image.Image:
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


IMAGENET = Preprocessing.usual(3, 224, 224)
