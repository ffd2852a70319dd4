"""Image folders with known content: one folder a class, PNG files of odd sizes, fresh noise or plain colours."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["noise_png", "plain_png", "write_folder"]

_GRAIN = 5
"""Pixels a grain: fine enough that a wrong interpolation shows, coarse enough that no resizing averages it away."""


def noise_png(seed: int, width: int, height: int, mode: str = "RGB") -> bytes:
    """Return a PNG of `width` × `height` pixels of coloured grains; `mode` is Pillow's: "RGB", or "L" for greyscale."""
    random = np.random.default_rng(seed)
    rows, columns = -(-height // _GRAIN), -(-width // _GRAIN)
    shape = (rows, columns, 3) if mode == "RGB" else (rows, columns)
    grains = random.integers(0, 256, shape, dtype=np.uint8)
    pixels = grains.repeat(_GRAIN, axis=0).repeat(_GRAIN, axis=1)[:height, :width]
    return _png(np.ascontiguousarray(pixels))


def plain_png(colour: Sequence[int], width: int = 256, height: int = 256) -> bytes:
    """Return a PNG of one `colour` (red, green, blue; 0 to 255)."""
    return _png(np.full((height, width, 3), colour, dtype=np.uint8))


def write_folder(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write `files`, content by path such as "cat/1.png", below `folder`."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _png(pixels: np.ndarray) -> bytes:
    with io.BytesIO() as stream:
        Image.fromarray(pixels).save(stream, format="PNG", compress_level=1)
        return stream.getvalue()
