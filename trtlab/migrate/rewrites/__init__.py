"""Rewrites that need no judgement: one function a use, by the name of what is gone. The others are left to people.

A use is rewritten only where its owner is known and no test of the TensorRT that runs stands around it.
"""

from collections.abc import Callable, Mapping

import libcst as cst

from trtlab.migrate.findings import Finding
from trtlab.migrate.rewrites import building, names, running
from trtlab.migrate.rewrites.site import Site
from trtlab.migrate.uses import USES

__all__ = ["Site", "rewrite"]

_BY_HAND: Mapping[str, Callable[[Finding, Site], bool]] = {**names.REWRITES, **building.REWRITES, **running.REWRITES}


def rewrite(finding: Finding, site: Site) -> bool:
    """Add what rewrites this use to the edits of `site`; tell whether there is such a rewrite."""
    if finding.likely or finding.guarded or not finding.gone_in:
        return False
    if finding.name not in USES and not isinstance(finding.node, cst.Attribute):  # an import, or a name in quotes
        return False
    planned = _BY_HAND.get(finding.name)
    return planned(finding, site) if planned is not None else names.renamed(finding, site)
