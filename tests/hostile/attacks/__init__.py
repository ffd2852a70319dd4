"""Every attack by its name. A module a group."""

import importlib

from tests.hostile.attack import GROUPS, Attack

__all__ = ["ATTACKS"]


def _all() -> dict[str, Attack]:
    found: dict[str, Attack] = {}
    for group in GROUPS:
        for attack in importlib.import_module(f"{__name__}.{group}").ATTACKS:
            if attack.name in found or attack.group != group:
                raise ValueError(f"attack {attack.name}: the name is taken, or it stands in the wrong group's file")
            found[attack.name] = attack
    return found


ATTACKS = _all()
