"""Random images that differ so much that a network's outputs for any two of them differ too."""

import numpy as np

__all__ = ["varied_images"]


def varied_images(seed: int, number: int, edge: int = 224, channels: int = 3) -> np.ndarray:
    """Return float32 [number, channels, edge, edge]: uniform noise of a strength and a colour of each image's own.

    A network that averages over all positions gives nearly the same output for any two images of plain noise; a result
    in the wrong row, or of the call before, would go unseen.
    """
    random = np.random.default_rng(seed)
    width = random.uniform(1.0, 10.0, (number, 1, 1, 1)).astype(np.float32)
    colour = random.normal(0.0, 2.0, (number, channels, 1, 1)).astype(np.float32)
    images = random.random((number, channels, edge, edge), dtype=np.float32)
    images *= width
    images += colour - width / 2
    return images
