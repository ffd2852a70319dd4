"""Random images that differ so much that a network's outputs for any two of them differ too."""

import numpy as np

__all__ = ["varied_images"]


def varied_images(seed: int, number: int, edge: int = 224, channels: int = 3) -> np.ndarray:
    """Return float32 [number, channels, edge, edge]: noise of a strength and a colour of each image's own.

    A network that averages over all positions gives nearly the same output for any two images of plain noise; a result
    in the wrong row, or of the call before, would go unseen.
    """
    random = np.random.default_rng(seed)
    strength = random.uniform(0.3, 3.0, (number, 1, 1, 1))
    colour = random.normal(0.0, 2.0, (number, channels, 1, 1))
    noise = random.standard_normal((number, channels, edge, edge), dtype=np.float32)
    return (noise * strength + colour).astype(np.float32)
