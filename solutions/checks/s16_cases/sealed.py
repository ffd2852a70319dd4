"""A case with its solution, which no file that students get may hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.toys.casefiles import NOTHING, CaseFile, pictures

Material = dict[str, Any]
"""The fields of a CaseFile, by name; `pictures` as {"seed", "number"}."""

Fault = Callable[[np.random.Generator, Material, bool], float]
"""Puts one mistake into healthy material, in place, and returns the number that proves it.

Most mistakes can be made in two ways; the last argument says whether it is the other one.
"""


@dataclass(frozen=True)
class Sealed:
    """A case's material, what is wrong with it, and the number that proves it (0 where nothing is wrong)."""

    material: Material
    cause: str = NOTHING
    evidence: float = 0.0

    @property
    def slack(self) -> float:
        """How far the evidence may be off in any case: one picture in percent, where it is an accuracy."""
        return 100.5 / len(self.material["labels"]) if "labels" in self.material else 0.0

    def data(self) -> Material:
        """Return the fields of its CaseFile as plain data, with the pictures drawn."""
        drawn = {"pictures": pictures(**self.material["pictures"])} if "pictures" in self.material else {}
        return {**self.material, **drawn}

    def case(self) -> CaseFile:
        """Return the case as a student gets it."""
        return CaseFile(**self.data())


def camera(random: np.random.Generator, number: int) -> dict[str, int]:
    """Return which pictures are taken, as the material names them."""
    return {"seed": int(random.integers(2**31)), "number": number}
