"""The network that calibration runs: its outputs are the observed tensors, in the order in which they are computed.

Statistics do not depend on the order of values, and OpenVINO's convolutions compute with channels last on processors
with AVX2 or AVX-512. To turn a ResNet-50's 66 MB an image to channels first would take as long as half the counting.
Compile the network for fixed shapes: with a dynamic batch OpenVINO does not merge the transposes that undo each other,
and inference takes three times as long instead of a tenth less.
"""

import onnx
from onnx import helper

from helpers.cpu_engine import lowering
from helpers.cpu_engine.calibration_tensors import inferred_values

__all__ = ["probe"]

_CHANNELS_LAST = (0, 2, 3, 1)


def probe(model: onnx.ModelProto, observed: list[str]) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return a copy of `model` that outputs the tensors `observed`, and the output's name of each.

    Tensors of four dimensions [N, C, H, W] are put out as [N, H, W, C].
    """
    values = inferred_values(model)
    outputs = {name: f"{name}/channels_last" if _rank(values.get(name)) == 4 else name for name in observed}
    result = lowering.with_outputs(model, list(outputs.values()))
    for name, output in outputs.items():
        if output != name:
            result.graph.node.append(helper.make_node("Transpose", [name], [output], output, perm=_CHANNELS_LAST))
    return result, outputs


def _rank(value: onnx.ValueInfoProto | None) -> int:
    return 0 if value is None else len(value.type.tensor_type.shape.dim)
