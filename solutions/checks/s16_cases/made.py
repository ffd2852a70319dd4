"""Makes cases by department, cause and seed, with the number that proves the cause."""

import zlib
from functools import lru_cache

import numpy as np

from helpers.toys.casefiles import NOTHING, pictures
from solutions.checks.s16_cases import clock, engine, scores
from solutions.checks.s16_cases.networks import Material

_ROOMS = {"engine": engine, "clock": clock, "scores": scores}


@lru_cache(maxsize=256)
def made(department: str, cause: str, seed: int, number: int = 0) -> tuple[Material, float]:
    """Return the case of a department with this cause, or with NOTHING wrong, and the number that proves it (or 0).

    Each number of a seed gives another case. Most mistakes have two forms: odd numbers have the second one.
    """
    random = np.random.default_rng([seed, zlib.crc32(f"{department}.{cause}".encode()), number])
    material = _ROOMS[department].healthy(random, number)
    return (material, 0.0) if cause == NOTHING else _ROOMS[department].faulty(random, material, cause, number % 2 == 1)


def file_of(material: Material) -> Material:
    """Return the fields of a CaseFile as plain data, with the pictures drawn."""
    return material | ({"pictures": pictures(**material["pictures"])} if "pictures" in material else {})
