"""How far a network's outputs are from what they should be."""

import numpy as np

__all__ = ["relative_error"]


def relative_error(outputs: np.ndarray, expected: np.ndarray) -> float:
    """Return the L2 norm of the difference over the norm of what is expected; NaN where an output is none."""
    return float(np.linalg.norm(outputs - expected) / max(np.linalg.norm(expected), 1e-12))
