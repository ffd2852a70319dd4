"""Images to network input, as torchvision's Resize, CenterCrop, ToTensor and Normalize do it: one record says how.

Written on Pillow and NumPy so that a calibrator or an inference script needs no PyTorch. How the record travels with a
model is in preprocessing_record.py.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trtcpu.errors import InputError
from trtlab.engines.tensors import shape_text

MOST_PIXELS = 8192
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
_MODES = {1: "L", 3: "RGB"}
_USUAL = {1: ((0.0,), (1.0,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes float32 [channels, height, width].

    Converted to grey or RGB, the shorter side resized to `resize` pixels (bilinear or bicubic), the centre of `crop`
    (height, width) cut out, pixels brought to 0..1, `mean` subtracted and divided by `std`, one value a channel.

    Raises:
        InputError: sizes, channels or values that no image can have.
    """

    channels: int
    resize: int
    crop: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        crop, mean, std = f"crop {shape_text(self.crop)}", f"mean {_numbers(self.mean)}", f"std {_numbers(self.std)}"
        one_each = f"does not fit channels {self.channels}; give one value a channel"
        wrong = {
            f"images of {self.channels} channels are not read; choose 1 (grey) or 3 (RGB)": self.channels not in _MODES,
            f"{crop} is impossible; give 1 to {MOST_PIXELS} pixels": not _are_sizes(*self.crop),
            f"resize {self.resize} is impossible; give 1 to {MOST_PIXELS} pixels": not _are_sizes(self.resize),
            f"{crop} is larger than resize {self.resize}; resize to as much or more": max(self.crop) > self.resize,
            f"interpolation {self.interpolation!r} is unknown; choose {' or '.join(_FILTERS)}": self.interpolation
            not in _FILTERS,
            f"{mean} {one_each}": len(self.mean) != self.channels,
            f"{std} {one_each}": len(self.std) != self.channels,
            f"{mean} is not finite; give numbers": not all(map(math.isfinite, self.mean)),
            f"{std} is not finite; give numbers": not all(map(math.isfinite, self.std)),
            f"{mean} is above 1, and pixels are 0 to 1; divide mean and std by 255": max(self.mean, default=0) > 1,
            f"{std} is not above 0; give what pixels of 0 to 1 are divided by": min(self.std, default=1) < 1e-6,
        }
        for message, found in wrong.items():
            if found:
                raise InputError(message)

    @classmethod
    def usual(cls, channels: int, height: int, width: int, **others: Any) -> "Preprocessing":
        """Return ImageNet's for RGB and plain 0..1 for grey, `resize` in the ratio 256 : 224 to the longer side."""
        mean, std = _USUAL.get(channels, ((), ()))
        resize = min(round(max(height, width) * 256 / 224), MOST_PIXELS)
        return cls(channels, **{"resize": resize, "crop": (height, width), "mean": mean, "std": std, **others})

    @classmethod
    def from_dict(cls, content: Any, source: str) -> "Preprocessing":
        """Return what `to_dict` gave, or what JSON made of it; `source` names the file in the error.

        Raises:
            InputError: no JSON, a key is missing, or a value is of the wrong type or impossible.
        """
        try:
            content = json.loads(content) if isinstance(content, str) else content
            height, width = content["crop"]
            mean, std = (tuple(map(float, content[name])) for name in ("mean", "std"))
            return cls(content["channels"], content["resize"], (height, width), mean, std, content["interpolation"])
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError, InputError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else error
            raise InputError(f"the preprocessing record of {source} is damaged: {why}; make the file again") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def described(self) -> str:
        """Return the record in words."""
        return (
            f"{'grey' if self.channels == 1 else 'RGB'}, resize {self.resize} ({self.interpolation}), "
            f"crop {shape_text(self.crop)}, mean {_numbers(self.mean)}, std {_numbers(self.std)}"
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of one image: channels, height, width."""
        return (self.channels, *self.crop)

    @property
    def mode(self) -> str:
        """Pillow's name of the colours: L or RGB."""
        return _MODES[self.channels]

    def to_input(self, image: Image.Image) -> np.ndarray:
        """Return a decoded image as float32 [channels, height, width]."""
        height, width = self.crop
        shorter = min(image.size)
        size = tuple(int(self.resize * side / shorter) for side in image.size)
        resized = image.convert(self.mode).resize(size, _FILTERS[self.interpolation])
        left, top = round((resized.width - width) / 2), round((resized.height - height) / 2)
        centre = resized.crop((left, top, left + width, top + height))
        pixels = np.asarray(centre, np.float32).reshape(height, width, self.channels) / np.float32(255)
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
        return np.fromiter(map(self.load, paths), np.dtype((np.float32, self.shape)), len(paths))

    def batches(self, paths: Sequence[str | Path], batch_size: int) -> Iterator[np.ndarray]:
        """Yield the images batch by batch, so that memory does not grow with their number; the last may be smaller."""
        for start in range(0, len(paths), batch_size):
            yield self.load_batch(paths[start : start + batch_size])


def load_batch(paths: Sequence[str | Path], size: int = 224) -> np.ndarray:
    """Return the images as one contiguous float32 array [N, 3, size, size], as the lab's models take them."""
    return Preprocessing.usual(3, size, size).load_batch(paths)


def find_images(place: str | Path) -> list[Path]:
    """Return `place` itself if it is a file, else every image below the folder, sorted by path.

    Raises:
        InputError: nothing there, or a folder without images.
    """
    place = Path(place)
    below = (path for path in place.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    found = [place] if place.is_file() else sorted(below)
    if not found:
        wrong = "has no images" if place.is_dir() else "does not exist"
        raise InputError(f"{place} {wrong}; give an image or a folder of images ({', '.join(IMAGE_SUFFIXES)})")
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
        raise InputError(
            f"cannot read the image {path}: {getattr(error, 'strerror', None) or error}; remove it or save it again"
        ) from error


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value!r}".removesuffix(".0") for value in values)


def _are_sizes(*values: Any) -> bool:
    return all(isinstance(value, int) and 1 <= value <= MOST_PIXELS for value in values)


IMAGENET = Preprocessing.usual(3, 224, 224)
