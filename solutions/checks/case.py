"""What the claims of one test cell share on the trusted side: fresh random numbers and the reference artifacts."""

import zlib
from functools import cached_property

import numpy as np

from solutions.checks.reference import Reference, reference

__all__ = ["Case"]


class Case:
    """One grading of one cell. The same seed gives the same inputs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def random(self, purpose: str) -> np.random.Generator:
        """Return the generator for one purpose; the order of the claims does not change what it yields."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def number(self, purpose: str) -> int:
        """Return a seed for one purpose, below 2^31."""
        return int(self.random(purpose).integers(2**31))

    @cached_property
    def reference(self) -> Reference:
        """The reference artifacts of this machine, built on first use."""
        return reference()
