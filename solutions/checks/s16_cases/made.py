"""Makes cases by department, cause and seed."""

import zlib

import numpy as np

from helpers.toys.casefiles import NOTHING
from solutions.checks.s16_cases import clock, engine, scores
from solutions.checks.s16_cases.sealed import Sealed

_ROOMS = {"engine": engine, "clock": clock, "scores": scores}


def made(department: str, cause: str, seed: int, number: int = 0) -> Sealed:
    """Return the case of a department with this cause, or with NOTHING wrong. Of a seed there is a case per number."""
    random = np.random.default_rng([seed, zlib.crc32(f"{department}.{cause}".encode()), number])
    material = _ROOMS[department].healthy(random, number)
    if cause == NOTHING:
        return Sealed(material)
    evidence = _ROOMS[department].FAULTS[cause](random, material, number % 2 == 1)
    return Sealed(material, cause, float(evidence))
