"""Mixed precision: what the options say of single layers, set on the network, and read back from the engine.

The API is that of TensorRT 8.2 to 10: `layer.precision`, `layer.set_output_type` and OBEY_PRECISION_CONSTRAINTS, which
was STRICT_TYPES before. TensorRT 11 has none of it. With OBEY a build fails where no kernel has the precision; with
PREFER it takes another.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.engine.backend import ENGINE, trt
from helpers.engine.layer_groups import choose_groups, ends, float_layers, groups_of, is_weighted
from helpers.engine.layers import Layer, ran_in
from trtcpu.errors import EngineError, InputError

if TYPE_CHECKING:
    from trtlab.engines.network import ParsedModel

RULES = ("obey", "prefer")
_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8"}
_NEEDS = {"fp16": "fp16", "bf16": "bf16", "int8": "int8"}
_WORSE = {"fp32": ("int8", "fp16", "bf16"), "fp16": ("int8",), "bf16": ("int8",), "int8": ()}
_SHOWN = 3


@dataclass(frozen=True)
class Constraints:
    """A precision by layer name; `weighted` are the convolutions and matrix products among them, `groups` what is kept.

    `rule` is obey or prefer.
    """

    asked: dict[str, str] = field(default_factory=dict)
    weighted: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    rule: str = "obey"

    def to_dict(self, layers: Sequence[Layer]) -> dict[str, Any]:
        """Return what was asked for, and in which precisions the weighted layers ran, as JSON can hold it."""
        ran = ran_in(layers, self.weighted)
        return {
            "rule": self.rule,
            "kept_groups": list(self.groups),
            "asked": dict(Counter(self.asked.values())),
            "weighted_asked": dict(Counter(self.asked[name] for name in self.weighted)),
            "weighted_ran": dict(Counter(ran.values())),
        }


def check_asked(keep: Sequence[str], pairs: Sequence[str], rule: str, precision: str) -> None:
    """Raise InputError for options that are wrong before the network is known, or contradict the build's precision."""
    if rule not in RULES:
        raise InputError(f"precision constraints {rule!r} are unknown; choose {' or '.join(RULES)}")
    if keep and precision != "int8+fp16":
        raise InputError(f"--keep-fp16 does nothing to {precision}; add --precision int8+fp16 or drop it")
    for pair in pairs:
        _, kind = _pair(pair)
        if kind in _NEEDS and kind not in precision.split("+"):
            raise InputError(f"--layer-precisions {pair} needs {kind}, which --precision {precision} does not allow")


def resolve(model: "ParsedModel", keep: Sequence[str], pairs: Sequence[str], rule: str = "obey") -> Constraints:
    """Return what is asked of which layer.

    Args:
        keep: groups that stay in FP16; the first and the last weighted layer then stay too.
        pairs: NAME:PRECISION as trtexec spells it, `*` in a name standing for anything; they count more than `keep`,
            whole names more than those with a star.

    Raises:
        InputError: no such group or layer.
    """
    layers = {layer.name: is_weighted(layer) for layer in float_layers(model.network)}
    asked: dict[str, str] = {}
    kept: tuple[str, ...] = ()
    if keep:
        groups = groups_of(model.network, model.path)
        chosen = choose_groups(groups, keep)
        kept = tuple(group.name for group in chosen)
        asked |= dict.fromkeys([*(name for group in chosen for name in group.layers), *ends(groups)], "fp16")
    for name, kind in sorted(map(_pair, pairs), key=lambda pair: ("*" not in pair[0], len(pair[0]))):
        found = [name] if name in layers else [layer for layer in layers if _matches(layer, name)]
        if not found:
            raise InputError(
                f"{model.path} has no layer {name!r} that computes; its layers are {_listed(list(layers))}"
            )
        asked |= dict.fromkeys(found, kind)
    return Constraints(asked, frozenset(name for name in asked if layers[name]), kept, rule)


def constrain(model: "ParsedModel", config: "trt.IBuilderConfig", constraints: Constraints) -> None:
    """Set the precisions on the network's layers and the rule in the config; nothing where nothing is asked."""
    if not constraints.asked:
        return
    config.set_flag(getattr(trt.BuilderFlag, f"{constraints.rule.upper()}_PRECISION_CONSTRAINTS"))
    outputs = {model.network.get_output(index).name for index in range(model.network.num_outputs)}
    for layer in float_layers(model.network):
        kind = constraints.asked.get(layer.name)
        if kind is None:
            continue
        layer.precision = getattr(trt, _TYPES[kind])
        if kind == "int8":  # what it hands on is then the reader's business: without a scale INT8 would be impossible
            continue
        for index in range(layer.num_outputs):
            if layer.get_output(index).name not in outputs:  # those keep the type that callers know
                layer.set_output_type(index, getattr(trt, _TYPES[kind]))


def check_ran(constraints: Constraints, layers: Sequence[Layer]) -> None:
    """Raise EngineError where a weighted layer ran in fewer bits than it was to, though the rule is obey.

    On the CPU engine FP16 may run as BF16 or FP32, which is what the processor has; on a GPU it may not.
    """
    if constraints.rule != "obey":
        return
    wrong = {}
    for name, found in ran_in(layers, constraints.weighted).items():
        asked = constraints.asked[name]
        if found in _WORSE[asked] or (ENGINE == "tensorrt" and asked == "fp16" and found in ("fp32", "tf32")):
            wrong[name] = f"{name} ({asked} asked, {found} ran)"
    if wrong:
        raise EngineError(
            f"{len(wrong)} of {len(constraints.weighted)} layers did not run in the precision asked for: "
            f"{_listed(list(wrong.values()))}; give --precision-constraints prefer to build all the same"
        )


def _pair(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition(":")
    if not name or kind not in _TYPES:
        raise InputError(f"--layer-precisions takes NAME:PRECISION with {', '.join(_TYPES)}; found {text!r}")
    return name, kind


def _matches(layer: str, pattern: str) -> bool:
    head, star, tail = pattern.partition("*")
    if not star:
        return layer == pattern
    return len(layer) >= len(head) + len(tail) and layer.startswith(head) and layer.endswith(tail)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
