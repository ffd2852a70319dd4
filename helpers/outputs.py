"""How far a network's outputs are from what they should be."""

import numpy as np

__all__ = ["relative_error", "shown_error"]


def relative_error(outputs: np.ndarray, expected: np.ndarray) -> float:
    """Return the L2 norm of the difference over the norm of what is expected; NaN where an output is none."""
    return float(np.linalg.norm(outputs - expected) / max(np.linalg.norm(expected), 1e-12))


def shown_error(error: float) -> str:
    """Return a relative error in percent as a message shows it; how far beyond ten times off says nothing more."""
    return f"{error:.1%}" if error < 10 else "more than 1,000 %" if error >= 10 else "not a number"
