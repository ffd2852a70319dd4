"""How much of INT8's error each group of layers makes, measured in engines; the ranking for mixed precision.

For each group two engines: the group kept in FP16 while the rest may run in INT8, and the group alone in INT8 while the
rest is kept in FP16. All scales are from one calibration cache. What is compared are the logits on the same validation
images, with FP32's: their drift shows differences that top-1 of some hundred images cannot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from helpers.engine.layer_groups import Group, ends


@dataclass(frozen=True)
class Variant:
    """An engine to build: `kept` are the layers in FP16, `groups` those that they make up, `unit` what it is about.

    `kind` is baseline, keep, only (a group), keep-layer, only-layer, or mixed.
    """

    name: str
    kind: str
    precision: str
    unit: str = ""
    kept: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """What was measured of one engine against FP32 on the same images.

    `drift` is the relative difference of the logits (norm), `agreement` and `top1` in percent, `loss` in points of
    top-1 with its 95 % interval. `asked` and `ran` count precisions of the weighted layers that were kept in FP16,
    `layers` those of all fused layers.
    """

    name: str
    kind: str
    unit: str
    groups: list[str]
    drift: float
    agreement: float | None
    top1: float
    loss: float
    loss_low: float
    loss_high: float
    asked: dict[str, int]
    ran: dict[str, int]
    layers: dict[str, int]
    size_bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class Sensitivity:
    """A group or a layer: the drifts of its two engines, and its share of the error that INT8 adds, in percent."""

    unit: str
    keep_drift: float
    only_drift: float
    share: float


BASELINES = tuple(Variant(name, "baseline", name) for name in ("fp32", "fp16", "int8+fp16"))


def variants(groups: Sequence[Group]) -> Iterator[Variant]:
    """Yield two engines a group: it kept in FP16, and it alone not kept."""
    for group in groups:
        yield _keep("keep", group.name, group.layers)
        yield _only("only", group.name, group.layers, groups)


def single_layers(groups: Sequence[Group], worst: Sequence[str]) -> Iterator[Variant]:
    """Yield two engines for each weighted layer of the groups named in `worst`."""
    for layer in (layer for group in groups if group.name in worst for layer in group.weighted):
        yield _keep("keep-layer", layer, (layer,))
        yield _only("only-layer", layer, (layer,), groups)


def of_layers(groups: Sequence[Group], kept: Sequence[str]) -> Variant:
    """Return the mixed engine that keeps these groups in FP16, and the first and the last layer always."""
    layers = [layer for group in groups if group.name in kept for layer in group.layers]
    name = f"mixed-{len(kept)}"
    return Variant(name, "mixed", "int8+fp16", name, tuple(dict.fromkeys([*layers, *ends(groups)])), tuple(kept))


def rank(rows: Mapping[str, Row], suffix: str = "") -> list[Sensitivity]:
    """Return the groups (`suffix` "-layer": the layers) by their share of INT8's error, the most sensitive first.

    Rounding errors of different layers are independent, so that their squares add up. What INT8 adds to FP16's error is
    int8² - fp16²; a group's part of it is estimated twice, by what it makes alone (only² - fp16²) and by what goes when
    it is kept (int8² - keep²), and the share is the mean of the two. Shares need not sum up to 100 %.
    """
    fp16, int8 = rows["fp16"].drift ** 2, rows["int8+fp16"].drift ** 2
    added = int8 - fp16
    found = []
    for row in rows.values():
        if row.kind != f"keep{suffix}":
            continue
        only = next(each for each in rows.values() if each.kind == f"only{suffix}" and each.unit == row.unit)
        part = ((only.drift**2 - fp16) + (int8 - row.drift**2)) / 2
        found.append(Sensitivity(row.unit, row.drift, only.drift, 100 * part / added if added > 0 else 0.0))
    return sorted(found, key=lambda each: -each.share)


def _keep(kind: str, unit: str, layers: Sequence[str]) -> Variant:
    return Variant(f"{kind} {unit}", kind, "int8+fp16", unit, tuple(layers))


def _only(kind: str, unit: str, layers: Sequence[str], groups: Sequence[Group]) -> Variant:
    rest = (layer for group in groups for layer in group.layers if layer not in layers)
    return Variant(f"{kind} {unit}", kind, "int8+fp16", unit, tuple(rest))
