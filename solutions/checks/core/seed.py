"""The secret seed of a grading run, and each test cell's seed derived from it.

All submissions of a run get the same inputs, so equal work gets equal points. The next run draws other inputs.
"""

import hashlib
import secrets

from trtcpu.errors import InputError

_SEED_BITS = 32
_chosen: list[int] = []


def use_seed(seed: int | None) -> None:
    """Use this seed from now on, in this process, to repeat a decision; None: a new one each time.

    Raises:
        InputError: it is not a number of 32 bits.
    """
    if seed is not None and not 0 <= seed < 1 << _SEED_BITS:
        raise InputError(f"{seed} is no seed; give a whole number from 0, below 2^{_SEED_BITS}")
    _chosen[:] = [] if seed is None else [seed]


def fresh_seed() -> int:
    """Return a fresh seed, or the one in use."""
    return _chosen[0] if _chosen else secrets.randbits(_SEED_BITS)


def cell_seed(cell: str) -> int:
    """Return the seed of a test cell; each cell has its own, so none reveals the inputs of another."""
    return int.from_bytes(hashlib.sha256(f"{fresh_seed()} {cell}".encode()).digest()[: _SEED_BITS // 8], "big")
