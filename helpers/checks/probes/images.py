"""Random images so different that a network's outputs for any two of them differ."""

from collections.abc import Sequence

import numpy as np


def varied_images(seed: int, number: int, image: Sequence[int] = (3, 224, 224)) -> np.ndarray:
    """Return float32 [number, *image]: uniform noise, with a strength and a colour for each image.

    `image` is channels, height and width.

    A network that averages over all positions gives nearly the same output for any two images of plain noise. Then a
    result in the wrong row, or from the call before, would not show.
    """
    random = np.random.default_rng(seed)
    width = random.uniform(1.0, 10.0, (number, 1, 1, 1)).astype(np.float32)
    colour = random.normal(0.0, 2.0, (number, image[0], 1, 1)).astype(np.float32)
    images = random.random((number, *image), dtype=np.float32)
    images *= width
    images += colour - width / 2
    return images
