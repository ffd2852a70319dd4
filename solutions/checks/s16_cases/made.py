"""Makes cases by department, cause and seed, with the number that proves the cause."""

import zlib
from dataclasses import dataclass

import numpy as np

from helpers.toys.casefiles import NOTHING, pictures
from solutions.checks.s16_cases import clock, engine, scores
from solutions.checks.s16_cases.networks import Material

_ROOMS = {"engine": engine, "clock": clock, "scores": scores}


@dataclass(frozen=True)
class Sealed:
    """A case's material, what is wrong with it, and the number that proves it (0 where nothing is wrong)."""

    material: Material
    cause: str = NOTHING
    evidence: float = 0.0

    def data(self) -> Material:
        """Return the fields of its CaseFile as plain data, with the pictures drawn."""
        drawn = {"pictures": pictures(**self.material["pictures"])} if "pictures" in self.material else {}
        return {**self.material, **drawn}


def made(department: str, cause: str, seed: int, number: int = 0) -> Sealed:
    """Return the case of a department with this cause, or with NOTHING wrong. Of a seed there is a case per number.

    Most mistakes can be made in two ways: an odd number has the other one.
    """
    random = np.random.default_rng([seed, zlib.crc32(f"{department}.{cause}".encode()), number])
    material = _ROOMS[department].healthy(random, number)
    if cause == NOTHING:
        return Sealed(material)
    evidence = _ROOMS[department].FAULTS[cause](random, material, number % 2 == 1)
    return Sealed(material, cause, float(evidence))
