"""Mixed precision: what the options say of single layers, set on the network; and what ran, read back from the engine.

The API is that of TensorRT 8.2 to 10: `layer.precision`, `layer.set_output_type` and OBEY_PRECISION_CONSTRAINTS, which
was STRICT_TYPES before. TensorRT 11 has none of it. With OBEY a build fails where no kernel has the precision; with
PREFER it takes another.

An engine asked for as FP16 can be built FP32 in silence: TensorRT chooses by timing, and 11 has no flag to ask with.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.engine.arithmetic import has_half
from helpers.engine.backend import ENGINE, trt
from helpers.engine.layer_groups import choose_groups, ends, float_layers, groups_of, is_weighted
from helpers.engine.layers import Layer, layer_precision, ran_in, weights_precision
from trtcpu.errors import EngineError, InputError
from trtlab.building.build_options import BuildOptions
from trtlab.engines.network import ParsedModel

_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
_WORSE = {"fp32": ("int8", "fp16", "bf16"), "fp16": ("int8",), "bf16": ("int8",), "int8": ()}
_HALVES = ("fp16", "bf16")
_SHOWN = 3


@dataclass(frozen=True)
class Constraints:
    """A precision by layer name; `weighted` are the convolutions and matrix products among them, `groups` what is kept.

    `rule` is obey or prefer.
    """

    asked: dict[str, str] = field(default_factory=dict)
    weighted: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rule: str = "obey"

    def described(self, layers: Sequence[Layer]) -> dict[str, Any]:
        """Return what was asked for, and in which precisions the weighted layers ran, as JSON can hold it."""
        return {
            "rule": self.rule,
            "kept_groups": list(self.groups),
            "asked": dict(Counter(self.asked.values())),
            "weighted_asked": dict(Counter(self.asked[name] for name in self.weighted)),
            "weighted_ran": dict(Counter(ran_in(layers, self.weighted).values())),
        }


def resolve(model: ParsedModel, options: BuildOptions) -> Constraints:
    """Return what is asked of which layer.

    Of groups that stay in FP16, the first and the last weighted layer stay too. NAME:PRECISION is as trtexec spells it,
    `*` in a name standing for anything; these count more than groups, and whole names more than those with a star.

    Raises:
        InputError: no such group or layer.
    """
    layers = {layer.name: is_weighted(layer) for layer in float_layers(model.network)}
    groups = groups_of(model.network, model.path) if options.keep_fp16 else []
    chosen = choose_groups(groups, options.keep_fp16)
    kept = [*(name for group in chosen for name in group.layers), *(ends(groups) if groups else [])]
    asked = dict.fromkeys(kept, "fp16")
    for name, kind in sorted(options.named_precisions(), key=lambda pair: ("*" not in pair[0], len(pair[0]))):
        pattern = re.escape(name).replace(r"\*", ".*")
        found = [layer for layer in layers if re.fullmatch(pattern, layer)]
        if not found:
            raise InputError(
                f"{model.path} has no layer {name!r} that computes; its layers are {_listed(list(layers))}"
            )
        asked |= dict.fromkeys(found, kind)
    weighted = tuple(name for name, has_weights in layers.items() if has_weights and name in asked)
    return Constraints(asked, weighted, tuple(group.name for group in chosen), options.precision_constraints)


def constrain(model: ParsedModel, config: "trt.IBuilderConfig", constraints: Constraints) -> None:
    """Set the precisions on the network's layers and the rule in the config; nothing if nothing is asked."""
    if constraints.asked:
        config.set_flag(getattr(trt.BuilderFlag, f"{constraints.rule.upper()}_PRECISION_CONSTRAINTS"))
    outputs = {model.network.get_output(index).name for index in range(model.network.num_outputs)}
    for layer in [layer for layer in float_layers(model.network) if layer.name in constraints.asked]:
        kind = constraints.asked[layer.name]
        layer.precision = getattr(trt, _TYPES[kind])
        for index in range(layer.num_outputs):
            # The network's outputs keep the type that callers know. What an INT8 layer hands on is its reader's
            # business: without a scale INT8 would be impossible.
            if kind != "int8" and layer.get_output(index).name not in outputs:
                layer.set_output_type(index, getattr(trt, _TYPES[kind]))


def check_ran(constraints: Constraints, layers: Sequence[Layer]) -> None:
    """Raise EngineError if a weighted layer ran in fewer bits than it was to, though the rule is obey.

    On the CPU engine FP16 may run as BF16 or FP32, which is what the processor has; on a GPU it may not.
    """
    wrong = []
    for name, found in ran_in(layers, constraints.weighted).items():
        asked = constraints.asked[name]
        if found in _WORSE[asked] or (ENGINE == "tensorrt" and asked == "fp16" and found in ("fp32", "tf32")):
            wrong.append(f"{name} ({asked} asked, {found} ran)")
    if wrong and constraints.rule == "obey":
        raise EngineError(
            f"{len(wrong)} of {len(constraints.weighted)} layers did not run in the precision asked for: "
            f"{_listed(wrong)}; give --precision-constraints prefer to build all the same"
        )


def what_ran(asked: str, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return what the inspector tells of an engine that was asked for in the precision `asked`.

    Of the layers that multiply by weights: how many are `stored` in which precision, and how many `ran` in which, most
    frequent first. `said` is what tables and `build` say if that is not what was `asked`; None else.
    """
    weighted = [layer for layer in layers if weights_precision(layer)]
    stored, ran = (
        dict(Counter(map(precision, weighted)).most_common()) for precision in (weights_precision, layer_precision)
    )
    # of INT8 with FP16, INT8 must run; if FP32 is right, nothing is held against it
    wanted = _HALVES if asked in _HALVES else ("int8",) if asked.startswith("int8") else tuple(ran)
    said = None
    if weighted and ran.keys().isdisjoint(wanted):
        half, most = next((kind.upper() for kind in stored if kind in _HALVES), None), next(iter(ran)).upper()
        is_stored = _stored_half(asked, stored)
        said = f"stored {half}, ran {most}" if is_stored else f"{asked.upper()} asked, {most} ran"
    return {"asked": asked, "stored": stored, "ran": ran, "said": said}


def contradiction(found: Mapping[str, Any]) -> str | None:
    """Return what is wrong if what was asked for is not stored, or does not run though it could; None else.

    For FP16 and BF16 some weights must be stored in half and some layers run so; for INT8 some layers run in it. Layers
    that were asked for in another precision are `check_ran`'s.
    """
    asked, stored = found["asked"], found["stored"]
    is_stored = _stored_half(asked, stored)
    if found["said"] is None or (is_stored and not has_half(asked)):
        return None
    have, kinds = (
        ("their weights are stored", stored) if asked in _HALVES and not is_stored else ("they run", found["ran"])
    )
    counted = ", ".join(f"{kind.upper()} ({number})" for kind, number in kinds.items())
    number = sum(stored.values())
    return f"{asked.upper()} was asked for, and of {number} layers with weights none has it: {have} in {counted}"


def unquantised(names: Sequence[str], layers: Sequence[Layer]) -> str | None:
    """Return which of the layers `names`, which have Q/DQ, ran in something else than INT8; None if none did.

    Of a layer that the inspector does not tell ("other") nothing is said.
    """
    wrong = [f"{name} ({ran})" for name, ran in ran_in(layers, names).items() if ran not in ("int8", "other")]
    if not wrong:
        return None
    return f"{len(wrong)} of {len(names)} layers with Q/DQ did not run in INT8: {_listed(wrong)}"


def _stored_half(asked: str, stored: Mapping[str, int]) -> bool:
    return asked in _HALVES and not stored.keys().isdisjoint(_HALVES)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
