"""How much of INT8's error each group of layers makes, measured in engines; the ranking for mixed precision.

For each group two engines: the group kept in FP16 while the rest may run in INT8, and the group alone in INT8 while the
rest is kept in FP16. All scales are from one calibration cache. What is compared are the logits on the same validation
images, with FP32's: their drift shows differences that top-1 of some hundred images cannot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from helpers.engine.layer_groups import Group, ends

Row = dict[str, Any]
"""What was measured of one engine against FP32 on the same images, as the JSON has it.

`name`, `kind`, `unit` and `groups` are the Variant's. `drift` is the relative difference of the logits (norm),
`agreement` and `top1` in percent, `loss` in points of top-1 with its 95 % interval. `asked` and `ran` count precisions
of the weighted layers that were kept in FP16, `layers` those of all fused layers.
"""


@dataclass(frozen=True)
class Variant:
    """An engine to build: `kept` are the layers in FP16, `groups` those that they make up, `unit` what it is about.

    `kind` is baseline (in the precision that is its name; the others are INT8 beside FP16), keep, only (a group),
    keep-layer, only-layer, or mixed.
    """

    name: str
    kind: str
    unit: str = ""
    kept: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


BASELINES = [Variant(name, "baseline") for name in ("fp32", "fp16", "int8+fp16")]


def pairs(groups: Sequence[Group], units: Mapping[str, Sequence[str]], suffix: str = "") -> list[Variant]:
    """Return two engines for each unit, a name and its layers: they are kept in FP16, and they alone are not."""
    found = []
    for unit, layers in units.items():
        rest = tuple(layer for group in groups for layer in group.layers if layer not in layers)
        found.append(Variant(f"keep{suffix} {unit}", f"keep{suffix}", unit, tuple(layers)))
        found.append(Variant(f"only{suffix} {unit}", f"only{suffix}", unit, rest))
    return found


def mixed(groups: Sequence[Group], kept: Sequence[str]) -> Variant:
    """Return the engine that keeps these groups in FP16, and the first and the last layer always."""
    layers = [layer for group in groups if group.name in kept for layer in group.layers]
    name = f"mixed-{len(kept)}"
    return Variant(name, "mixed", name, tuple(dict.fromkeys([*layers, *ends(groups)])), tuple(kept))


def rank(rows: Mapping[str, Row], suffix: str = "") -> pd.DataFrame:
    """Return the groups (`suffix` "-layer": the layers) by their share of INT8's error, the most sensitive first.

    Rounding errors of different layers are independent, so that their squares add up. What INT8 adds to FP16's error is
    int8² - fp16²; a group's part of it is estimated twice, by what it makes alone (only² - fp16²) and by what goes when
    it is kept (int8² - keep²), and the share is the mean of the two. Shares need not sum up to 100 %.

    Returns:
        Columns unit, keep_drift, only_drift, and share in percent; a row for each unit whose two engines are measured.
    """
    fp16, int8 = rows["fp16"]["drift"] ** 2, rows["int8+fp16"]["drift"] ** 2
    keep, only = _drifts(rows, f"keep{suffix}"), _drifts(rows, f"only{suffix}")
    part = ((only**2 - fp16) + (int8 - keep**2)) / 2
    share = 100 * part / (int8 - fp16) if int8 > fp16 else 0 * part
    found = pd.DataFrame({"keep_drift": keep, "only_drift": only, "share": share}).dropna()
    return found.sort_values("share", ascending=False, kind="stable").rename_axis("unit").reset_index()


def _drifts(rows: Mapping[str, Row], kind: str) -> pd.Series:
    return pd.Series({row["unit"]: row["drift"] for row in rows.values() if row["kind"] == kind}, dtype=float)
