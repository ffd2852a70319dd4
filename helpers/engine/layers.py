"""The fused layers of an engine, as TensorRT's inspector gives them, and the precision that each runs in."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from helpers.engine.backend import trt

Layer = dict[str, Any]

_NAMES = {name: name for name in ("fp32", "fp16", "int8", "bf16", "tf32")} | {
    "float": "fp32",
    "half": "fp16",
    "bfloat16": "bf16",
}
_TACTICS = (("int8", r"i8i8|imma"), ("fp16", r"f16f16|fp16|_hmma"), ("tf32", r"tf32"), ("fp32", r"f32f32|fp32|_ffma"))


def engine_layers(engine: "trt.ICudaEngine", context: "trt.IExecutionContext | None" = None) -> list[Layer]:
    """Return the inspector's layers; with `context`, whose shapes are set, also formats that depend on them.

    TensorRT's JSON may hold raw control characters, and without DETAILED verbosity a layer is only its name.
    """
    inspector = engine.create_engine_inspector()
    if context is not None:
        inspector.execution_context = context
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    layers = json.loads(text, strict=False).get("Layers", [])
    return [layer if isinstance(layer, dict) else {"Name": str(layer)} for layer in layers]


def layer_precision(layer: Layer) -> str:
    """Return int8, fp16, bf16, tf32, fp32, or "other" for layers that do not say (reformats, reshapes).

    An engine for dynamic shapes says "N/A due to dynamic shapes" instead of a format; its weights and the name of the
    kernel still tell.
    """
    tactic = str(layer.get("TacticName", "")).lower()
    found = _stated(layer) or weights_precision(layer) or _from_tactic(tactic) or _format(layer) or "other"
    return "tf32" if found == "fp32" and "tf32" in tactic else found


def count_precisions(layers: list[Layer]) -> dict[str, int]:
    """Return how many layers run in which precision, most frequent first."""
    return dict(Counter(layer_precision(layer) for layer in layers).most_common())


def ran_in(layers: Sequence[Layer], names: Collection[str]) -> dict[str, str]:
    """Return the precision in which each named layer of the network ran, by the inspector; "other" if it tells none.

    A layer is found by its name among those that were fused; what was fused into a region without names is "other".
    """
    by_name: dict[str, str] = {}
    for layer in layers:
        for name in _fused(layer):
            by_name.setdefault(name, _told(layer))
    return {name: by_name.get(name, "other") for name in names}


def _told(layer: Layer) -> str:
    """Return a layer's precision; of a region that Myelin compiled, the type of its input does not tell it."""
    found = layer_precision(layer)
    region = "ForeignNode[" in str(layer.get("Name")) or str(layer.get("Name")).startswith("__myl")
    return "other" if region and found == "fp32" else found


def _fused(layer: Mapping[str, Any]) -> list[str]:
    """Return the network's layers that an engine's layer is made of."""
    name, metadata = str(layer.get("Name", "")), str(layer.get("Metadata", ""))
    parts = [part.strip().removeprefix("PWN(").removesuffix(")") for part in name.split(" + ")]
    told = [part.partition("[ONNX Layer: ")[2].rpartition("]")[0] for part in metadata.split("\x1e")]
    copies = name.startswith(("Reformat", "Quantize", "Convert", "Dequantize"))
    return [] if copies else [part for part in dict.fromkeys([*told, *parts]) if part]


def _stated(layer: Layer) -> str | None:
    return _name(layer.get("Precision"))


def weights_precision(layer: Layer) -> str | None:
    """Return the precision in which a layer's weights are stored; None if the inspector tells none."""
    weights = layer.get("Weights") or layer.get("ConvWeights")
    return _name(weights.get("Type")) if isinstance(weights, dict) else None


def _from_tactic(tactic: str) -> str | None:
    return next((precision for precision, pattern in _TACTICS if re.search(pattern, tactic)), None)


def _format(layer: Layer) -> str | None:
    inputs = layer.get("Inputs") or [{}]
    first = inputs[0] if isinstance(inputs[0], dict) else {}
    return _name(first.get("Format/Datatype") or first.get("Datatype"))  # TensorRT 11 has two fields


def _name(text: Any) -> str | None:
    """Return the precision that a word of `text` names ("Channel major FP16 format where channel % 8 == 0")."""
    words = re.findall(r"[a-z]+\d*", str(text or "").lower())
    return next((_NAMES[word] for word in words if word in _NAMES), None)
