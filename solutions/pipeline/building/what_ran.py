"""What was asked for is what runs: the precisions of a built engine's weighted layers, held to what the build was for.

An engine asked for as FP16 can be built FP32 in silence: TensorRT chooses by timing, and 11 has no flag to ask with.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from helpers.arithmetic import has_half
from helpers.errors import EngineError
from helpers.layers import Layer, layer_precision, ran_in, weights_precision

__all__ = ["WhatRan", "check_held", "check_quantised", "what_ran"]

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
    silent = _only(asked) in _HALVES and _some(stored, _HALVES) and not _some(ran, _HALVES)
    said = f"stored {_most(stored)}, ran {_most(ran)}" if silent and not has_half(asked) else None
    return WhatRan(asked, dict(stored.most_common()), dict(ran.most_common()), said)


def check_held(found: WhatRan) -> None:
    """Raise EngineError where what was asked for is not stored, or does not run though this machine has the arithmetic.

    For FP16 and BF16 some weights must be stored in half and some layers run so; for INT8 some layers run in it. Layers
    that were asked for in another precision are layer_precisions.check_ran's.
    """
    if not found.stored:
        return
    half = _only(found.asked) in _HALVES
    if half and not _some(found.stored, _HALVES):
        raise EngineError(_wrong(found, f"their weights are stored in {_listed(found.stored)}"))
    if half and has_half(found.asked) and not _some(found.ran, _HALVES):
        raise EngineError(_wrong(found, f"they run in {_listed(found.ran)}"))
    if found.asked.startswith("int8") and not found.ran.get("int8"):
        raise EngineError(_wrong(found, f"they run in {_listed(found.ran)}"))


def _most(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0].upper()


def check_quantised(names: Sequence[str], layers: Sequence[Layer]) -> None:
    """Raise EngineError where one of the layers `names`, which have Q/DQ, ran in something else than INT8.

    Of a layer that the inspector does not tell ("other") nothing is said.
    """
    wrong = {name: ran for name, ran in ran_in(layers, names).items() if ran not in ("int8", "other")}
    if wrong:
        shown = ", ".join(f"{name} ({ran})" for name, ran in [*wrong.items()][:_SHOWN])
        raise EngineError(
            f"{len(wrong)} of {len(names)} layers with Q/DQ did not run in INT8: {shown}; the engine is not kept. "
            "Name them in --layer-precisions, so that they get no Q/DQ"
        )


def _only(asked: str) -> str:
    """Return the precision where only one was asked for: of INT8 with FP16, INT8 is what must run."""
    return "" if "+" in asked else asked


def _some(counts: dict[str, int], kinds: Sequence[str]) -> bool:
    return any(counts.get(kind) for kind in kinds)


def _wrong(found: WhatRan, what: str) -> str:
    number = sum(found.stored.values())
    return (
        f"{found.asked.upper()} was asked for, and of {number} layers with weights none has it: {what}; "
        "the engine is not kept. Build with --explicit, or ask for what runs"
    )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind.upper()} ({number})" for kind, number in counts.items())
