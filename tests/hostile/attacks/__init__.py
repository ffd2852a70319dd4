"""Every attack by its name."""

from tests.hostile.attacks import content, machine, outside, points, submitted

_MODULES = (points, outside, machine, content, submitted)
ATTACKS = {attack.name: attack for module in _MODULES for attack in module.ATTACKS}
