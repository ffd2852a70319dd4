"""What was asked for against what runs: the precisions of a built engine's weighted layers.

An engine asked for as FP16 can be built FP32 in silence: TensorRT chooses by timing, and 11 has no flag to ask with.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from helpers.engine.arithmetic import has_half
from helpers.engine.layers import Layer, layer_precision, ran_in, weights_precision

_HALVES = ("fp16", "bf16")
_SHOWN = 3


@dataclass(frozen=True)
class WhatRan:
    """Of the layers that multiply by weights: how many store them in which type, and how many ran in which precision.

    `said` is what tables and `build` say where the two are not the same; None else.
    """

    asked: str
    stored: dict[str, int]
    ran: dict[str, int]
    said: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def what_ran(asked: str, layers: Sequence[Layer]) -> WhatRan:
    """Return what the inspector tells of an engine that was asked for in the precision `asked`."""
    weighted = [layer for layer in layers if weights_precision(layer)]
    stored, ran = Counter(map(weights_precision, weighted)), Counter(map(layer_precision, weighted))
    return WhatRan(asked, dict(stored.most_common()), dict(ran.most_common()), _said(asked, stored, ran))


def _said(asked: str, stored: Counter[str], ran: Counter[str]) -> str | None:
    wanted = _wanted(asked)
    if not wanted or not stored or _some(ran, wanted):
        return None
    if wanted == _HALVES and _some(stored, _HALVES):
        return f"stored {_most(stored)}, ran {_most(ran)}"
    return f"{asked.upper()} asked, {_most(ran)} ran"


def contradiction(found: WhatRan) -> str | None:
    """Return what is wrong where what was asked for is not stored, or does not run though it could; None else.

    For FP16 and BF16 some weights must be stored in half and some layers run so; for INT8 some layers run in it. Layers
    that were asked for in another precision are layer_precisions.check_ran's.
    """
    if found.said is None:
        return None
    asked = f"{found.asked.upper()} was asked for, and of {sum(found.stored.values())} layers with weights none has it"
    if _wanted(found.asked) == _HALVES:
        if not _some(found.stored, _HALVES):
            return f"{asked}: their weights are stored in {_listed(found.stored)}"
        if not has_half(found.asked):
            return None
    return f"{asked}: they run in {_listed(found.ran)}"


def _most(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0].upper()


def unquantised(names: Sequence[str], layers: Sequence[Layer]) -> str | None:
    """Return which of the layers `names`, which have Q/DQ, ran in something else than INT8; None where none did.

    Of a layer that the inspector does not tell ("other") nothing is said.
    """
    wrong = {name: ran for name, ran in ran_in(layers, names).items() if ran not in ("int8", "other")}
    if not wrong:
        return None
    shown = ", ".join(f"{name} ({ran})" for name, ran in [*wrong.items()][:_SHOWN])
    return f"{len(wrong)} of {len(names)} layers with Q/DQ did not run in INT8: {shown}"


def _wanted(asked: str) -> tuple[str, ...]:
    """Return the precisions of which one must run: of INT8 with FP16, INT8. Empty where FP32 is right."""
    return _HALVES if asked in _HALVES else ("int8",) if asked.startswith("int8") else ()


def _some(counts: dict[str, int], kinds: Sequence[str]) -> bool:
    return any(counts.get(kind) for kind in kinds)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind.upper()} ({number})" for kind, number in counts.items())
