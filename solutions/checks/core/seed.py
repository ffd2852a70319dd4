"""The secret seed of a grading run, and the seed of each test cell that follows from it.

All submissions of a run meet the same inputs, so that equal work gets equal points; the next run draws other ones.
"""

import hashlib
import os
import re
import secrets

from trtcpu.errors import InputError

SEED_VARIABLE = "TRT_LAB_SEED"
_SEED_BITS = 32


def fresh_seed() -> int:
    """Return a fresh seed, or $TRT_LAB_SEED to see a decision again.

    Raises:
        InputError: that is no whole number of 32 bits.
    """
    chosen = os.environ.get(SEED_VARIABLE, "").strip()
    if chosen and not (re.fullmatch(r"[0-9]{1,10}", chosen) and int(chosen) < 1 << _SEED_BITS):
        raise InputError(f"{SEED_VARIABLE}={chosen[:40]!r} is no seed; give a whole number below 2^{_SEED_BITS}")
    return int(chosen or secrets.randbits(_SEED_BITS))


def cell_seed(cell: str) -> int:
    """Return the seed of a test cell: other cells have other ones, so that none foretells the inputs of the next.

    Raises:
        InputError: as `fresh_seed`.
    """
    return int.from_bytes(hashlib.sha256(f"{fresh_seed()} {cell}".encode()).digest()[: _SEED_BITS // 8], "big")
