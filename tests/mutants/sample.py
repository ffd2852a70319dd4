"""Draws a sample of mutants that has every step and operator in it."""

import random
from collections import defaultdict
from collections.abc import Sequence

from tests.mutants.source import Mutant


def stratified(mutants: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return `number` mutants in their order: one of each step and operator, then in proportion."""
    strata: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        strata[mutant.step, mutant.operator].append(mutant)
    dice = random.Random(seed)
    ranked: list[tuple[bool, float, float, Mutant]] = []
    for stratum in strata.values():
        dice.shuffle(stratum)
        for place, mutant in enumerate(stratum):
            ranked.append((place > 0, place / len(stratum), dice.random(), mutant))
    ranked.sort(key=lambda rank: rank[:3])
    chosen = {rank[3].id for rank in ranked[:number]}
    return [mutant for mutant in mutants if mutant.id in chosen]
