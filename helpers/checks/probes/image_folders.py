"""Image folders with known content: one folder a class, files of odd sizes, fresh noise or plain colours."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

_GRAIN = 5
"""Pixels a grain: fine enough that a wrong interpolation shows, coarse enough that no resizing averages it away."""


def noise_image(seed: int, width: int, height: int, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """Return `width` × `height` pixels of coloured grains as a file of Pillow's format `kind`.

    `mode` is Pillow's too: RGB, RGBA (of every opacity), L or P.
    """
    random = np.random.default_rng(seed)
    rows, columns = -(-height // _GRAIN), -(-width // _GRAIN)
    shape = (rows, columns) if mode == "L" else (rows, columns, 4 if mode == "RGBA" else 3)
    grains = random.integers(0, 256, shape, dtype=np.uint8)
    pixels = grains.repeat(_GRAIN, axis=0).repeat(_GRAIN, axis=1)[:height, :width]
    return _encoded(Image.fromarray(np.ascontiguousarray(pixels)).convert(mode), kind)


def plain_png(colour: Sequence[int], width: int = 256, height: int = 256) -> bytes:
    """Return a PNG of one `colour` (red, green, blue; 0 to 255)."""
    return plain_image(colour, width, height, "PNG")


def plain_image(colour: Sequence[int], width: int, height: int, kind: str) -> bytes:
    """Return an image file of one `colour`, of Pillow's format `kind`, such as "JPEG"."""
    return _encoded(Image.fromarray(np.full((height, width, 3), colour, dtype=np.uint8)), kind)


def framed_png(width: int, height: int, light: Sequence[int], dark: Sequence[int]) -> bytes:
    """Return a black PNG; the middle, 224/256 of its shorter side, is `light` with a `dark` square half as large in it.

    The square lacks its upper right quarter, so that the picture is another one when it is turned or mirrored.
    """
    pixels = np.zeros((height, width, 3), np.uint8)
    side = min(width, height) * 224 // 256
    for edge, colour in ((side, light), (side // 2, dark)):
        top, left = (height - edge) // 2, (width - edge) // 2
        pixels[top : top + edge, left : left + edge] = colour
    pixels[(height - edge) // 2 : height // 2, width // 2 : (width + edge) // 2] = light
    return _encoded(Image.fromarray(pixels), "PNG")


def as_rgb(png: bytes) -> bytes:
    """Return the same picture as an RGB file."""
    return _encoded(Image.open(io.BytesIO(png)).convert("RGB"), "PNG")


def resized_png(png: bytes, edge: int) -> bytes:
    """Return the same picture made `edge` × `edge` by Pillow's bilinear filter."""
    return _encoded(Image.open(io.BytesIO(png)).resize((edge, edge), Image.Resampling.BILINEAR), "PNG")


def write_folder(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write `files`, content by path such as "cat/1.png", below `folder`."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _encoded(image: Image.Image, kind: str) -> bytes:
    with io.BytesIO() as stream:
        image.save(stream, format=kind, compress_level=1)
        return stream.getvalue()
