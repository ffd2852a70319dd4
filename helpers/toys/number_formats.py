"""Number formats of eight and four bits, and weights rounded to them under shared scales, in NumPy.

from helpers.toys.number_formats import E2M1, NVFP4, SCHEMES
E2M1.rounded(weights)                # to the nearest number of the grid
NVFP4.rounded(weights)               # under a scale for each 16 of a row
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    """A number format by its numbers from 0 up, in the order of their bit patterns; each exists with a minus too."""

    name: str
    bits: int
    grid: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest number of the format."""
        return self.grid[-1]

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return `values` in float32, each as the format's nearest number.

        Ties go to the even bit pattern; what is too large becomes the largest.
        """
        grid = np.asarray(self.grid, dtype=np.float64)
        middles = (grid[1:] + grid[:-1]) / 2
        size = np.abs(np.asarray(values, dtype=np.float64))
        place = np.searchsorted(middles, size)
        tie = size == middles[np.minimum(place, len(middles) - 1)]
        return np.copysign(grid[np.minimum(place + (tie & (place % 2 == 1)), len(middles))], values).astype(np.float32)


def _floating(exponent_bits: int, mantissa_bits: int, patterns: int) -> tuple[float, ...]:
    """Return the numbers of the first `patterns` bit patterns of a floating-point format: first the subnormal ones."""
    bias, steps = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    numbers = []
    for pattern in range(patterns):
        exponent, step = divmod(pattern, steps)
        significand = step / steps + (exponent > 0)
        numbers.append(significand * 2.0 ** (max(exponent, 1) - bias))
    return tuple(numbers)


E4M3 = Format("E4M3", 8, _floating(4, 3, 127))
"""Up to 448. Of the 128 patterns the last is "not a number"; there is no infinity."""

E5M2 = Format("E5M2", 8, _floating(5, 2, 124))
"""Up to 57,344. The last four patterns are infinity and "not a number", as in FP16."""

E2M1 = Format("E2M1", 4, _floating(2, 1, 8))
"""0, 0.5, 1, 1.5, 2, 3, 4, 6: every pattern is a number."""

INT8 = Format("INT8", 8, tuple(map(float, range(128))))
INT4 = Format("INT4", 4, tuple(map(float, range(8))))


@dataclass(frozen=True)
class Scheme:
    """A format, and how many neighbours of a row share a scale: `group` of them, or a whole row if it is None.

    With `scale_format` the scales themselves are rounded to that format, under one float32 scale for the whole tensor.
    """

    name: str
    format: Format
    group: int | None = None
    scale_format: Format | None = None

    def bits_per_weight(self, row: int) -> float:
        """Return the bits of a weight and its share of a scale, for rows of `row` weights.

        A scale has 16 bits unless it is rounded to a format of fewer.
        """
        scale_bits = self.scale_format.bits if self.scale_format else 16
        return self.format.bits + scale_bits / (self.group or row)

    def rounded(self, weights: np.ndarray) -> np.ndarray:
        """Return `weights`, shape (rows, …), as they come back: float32 of the same shape.

        A row that is no multiple of the group is filled up with zeros for the rounding.
        """
        rows = weights.reshape(len(weights), -1).astype(np.float32)
        group = self.group or rows.shape[1]
        filled = np.pad(rows, ((0, 0), (0, -rows.shape[1] % group)))
        groups = filled.reshape(len(rows), -1, group)
        scales = self._scales(np.abs(groups).max(axis=2, keepdims=True))
        back = self.format.rounded(groups / np.where(scales > 0, scales, 1)) * scales
        return back.reshape(filled.shape)[:, : rows.shape[1]].reshape(weights.shape)

    def _scales(self, largest: np.ndarray) -> np.ndarray:
        """Return the scale of each group from the largest size in it."""
        scales = largest / self.format.largest
        if self.scale_format is None or not scales.any():
            return scales
        whole = np.float32(scales.max() / self.scale_format.largest)
        return self.scale_format.rounded(scales / whole) * whole


NVFP4 = Scheme("NVFP4, 16 and E4M3 scales", E2M1, 16, E4M3)

SCHEMES = (
    Scheme("INT8 per channel", INT8),
    Scheme("E4M3 per channel", E4M3),
    Scheme("E5M2 per channel", E5M2),
    Scheme("INT4 per channel", INT4),
    Scheme("INT4 per 128", INT4, 128),
    Scheme("INT4 per 16", INT4, 16),
    Scheme("E2M1 per channel", E2M1),
    NVFP4,
)
"""What the chapter on language models compares."""


def relative_error(weights: np.ndarray, back: np.ndarray) -> float:
    """Return the error's root mean square, divided by that of the weights."""
    return float(np.linalg.norm(weights - back) / np.linalg.norm(weights))
