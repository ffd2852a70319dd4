"""One case: a student's work, and the seed from which all inputs of its points are drawn."""

import zlib
from typing import Any

import numpy as np

from helpers.checks.probes.answer import Probe
from helpers.checks.probes.student import Reply, Student

VISIBLE_SEED = 2026
"""The seed of visible checks: the same inputs each time. Hidden checks use other inputs."""


class Case:
    """A student's work under one seed. The same seed gives the same inputs."""

    def __init__(self, student: Student, seed: int) -> None:
        self.student, self.seed = student, seed

    def random(self, purpose: str) -> np.random.Generator:
        """Return the generator for one purpose; its numbers do not depend on the order of the points."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def number(self, purpose: str) -> int:
        """Return a seed for one purpose, below 2^31."""
        return int(self.random(purpose).integers(2**31))

    def call(self, probe: Probe | str, **data: Any) -> Reply:
        """Run a probe on the student's work, as `Student.call` does."""
        return self.student.call(probe, **data)

    def artifact(self, name: str) -> bytes | None:
        """Return a deliverable's bytes, None if the student did not make it."""
        return self.student.artifact(name)
