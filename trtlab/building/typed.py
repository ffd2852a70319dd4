"""The model that says its types itself, for a strongly typed network: Q/DQ for INT8, casts for FP16 and BF16.

TensorRT 11 builds nothing else; on 10 `--explicit` asks for it. TensorRT 8 has no strongly typed networks: there Q/DQ
are built with precision flags, and halves are left to them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from helpers.engine import backend
from helpers.engine.backend import DEVICE, trt
from trtcpu.errors import InputError

if TYPE_CHECKING:
    import onnx

    from trtlab.building.layer_precisions import Constraints


def always_typed() -> bool:
    """Say whether this TensorRT builds strongly typed networks only."""
    return backend.API >= 11


def has_strong_types() -> bool:
    """Say whether this TensorRT has strongly typed networks."""
    return hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")


def check_typed(precision: str, explicit: bool) -> None:
    """Raise InputError for what `--explicit` cannot do to a precision here."""
    if explicit and precision in ("fp32", "tf32"):
        raise InputError(f"--explicit does nothing to {precision}; add --precision fp16, bf16, int8 or int8+fp16")
    if explicit and not has_strong_types() and not precision.startswith("int8"):
        raise InputError(f"{DEVICE} has no strongly typed networks; drop --explicit, or use TensorRT 10")


def typed_model(
    graph: "onnx.ModelProto", precision: str, scales: Mapping[str, float] | None, constraints: "Constraints"
) -> "onnx.ModelProto":
    """Return `graph` with the types of `precision` written into it; its inputs and outputs keep theirs.

    Args:
        graph: FP32, as `scales.float_model` gives it.
        precision: fp16, bf16, int8 or int8+fp16.
        scales: scale by tensor; None where the graph has Q/DQ already, or INT8 is not asked for.
        constraints: layers that are to have another precision.

    Raises:
        InputError: the graph cannot be rewritten.
    """
    # here, since they bring the CPU engine along
    from trtlab.building.explicit import explicit_int8
    from trtlab.building.half import HALVES, to_half

    asked = constraints.asked
    if scales is not None:
        graph = explicit_int8(graph, scales, {name for name, kind in asked.items() if kind != "int8"})
    half = next((kind for kind in precision.split("+") if kind in HALVES), None)
    if half and has_strong_types():
        graph = to_half(graph, half, {name for name, kind in asked.items() if kind == "fp32"})
    return graph
