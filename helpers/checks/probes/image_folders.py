"""Image folders with known content: one folder per class, files of various sizes, noise or plain colours."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

_GRAIN = 5  # pixels: fine enough to show a wrong interpolation, coarse enough to survive resizing


def noise_image(seed: int, width: int, height: int, mode: str = "RGB") -> bytes:
    """Return `width` × `height` pixels of coloured grains as a PNG of Pillow's mode RGB, RGBA (any opacity), L or P."""
    channels = {"L": (), "RGBA": (4,)}.get(mode, (3,))
    shape = (-(-height // _GRAIN), -(-width // _GRAIN), *channels)
    grains = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    pixels = grains.repeat(_GRAIN, axis=0).repeat(_GRAIN, axis=1)[:height, :width]
    return _png(Image.fromarray(np.ascontiguousarray(pixels)).convert(mode))


def plain_png(colour: Sequence[int]) -> bytes:
    """Return a PNG of 256 × 256 pixels of one `colour` (red, green, blue; 0 to 255)."""
    return _png(Image.new("RGB", (256, 256), tuple(colour)))


def framed_png(width: int, height: int, colour: Sequence[int]) -> bytes:
    """Return a black PNG whose centre, 224/256 of its shorter side, has one `colour`."""
    image, side = Image.new("RGB", (width, height)), min(width, height) * 224 // 256
    image.paste(tuple(colour), ((width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2))
    return _png(image)


def as_rgb(png: bytes, edge: int = 0) -> bytes:
    """Return the same picture as an RGB file, resized to `edge` × `edge` by Pillow's bilinear filter if given."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    return _png(image.resize((edge, edge), Image.Resampling.BILINEAR) if edge else image)


def write_folder(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write `files`, content by path such as "cat/1.png", below `folder`."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _png(image: Image.Image) -> bytes:
    with io.BytesIO() as stream:
        image.save(stream, format="PNG", compress_level=1)
        return stream.getvalue()
