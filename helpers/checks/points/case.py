"""One case: a student's work and a seed, from which every input of the points is drawn."""

import zlib
from typing import Any

import numpy as np

from helpers.checks.probes.answer import Probe
from helpers.checks.probes.student import Reply, Student

VISIBLE_SEED = 2026
"""The seed of visible checks: the same inputs each time, and other ones than any hidden claim's."""


class Case:
    """One judgement of one student's work. The same seed gives the same inputs."""

    def __init__(self, student: Student, seed: int) -> None:
        self.student, self.seed = student, seed

    def random(self, purpose: str) -> np.random.Generator:
        """Return the generator for one purpose; the order of the points does not change what it yields."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode())])

    def number(self, purpose: str) -> int:
        """Return a seed for one purpose, below 2^31."""
        return int(self.random(purpose).integers(2**31))

    def call(self, probe: Probe | str, **data: Any) -> Reply:
        """Run a probe on the student's work; as `Student.call`."""
        return self.student.call(probe, **data)

    def artifact(self, name: str) -> bytes | None:
        """Return a deliverable's bytes, None where the student did not make it."""
        return self.student.artifact(name)
