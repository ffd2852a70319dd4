"""TODO."""

from tests.hostile.attack import Attack

__all__ = ["ATTACKS"]
ATTACKS: list[Attack] = []
