"""The network that calibration runs: its outputs are the observed tensors, in the order in which they are computed.

Statistics do not depend on the order of values, and OpenVINO's convolutions compute with channels last on processors
with AVX2 or AVX-512. To turn a ResNet-50's 66 MB an image to channels first would take as long as half the counting.
Compile the network for fixed shapes: with a dynamic batch OpenVINO does not merge the transposes that undo each other,
and inference takes three times as long instead of a tenth less.
"""

import copy

import onnx
from onnx import helper

from trtcpu import _openvino
from trtcpu.calibration.batches import Run, Tensors
from trtcpu.calibration.tensors import CalibrationPlan

_CHANNELS_LAST = (0, 2, 3, 1)


def runner(model: onnx.ModelProto, plan: CalibrationPlan) -> Run:
    """Return a function that runs `model` in FP32 and gives views of the observed tensors, feature maps channels last.

    The network is compiled when it is first needed, since a valid cache needs no run, and once for each shape of feeds
    (the parts of the batches, and the small run that chooses their size).
    """
    network, outputs = probe(model, plan)
    requests: dict[tuple[tuple[int, ...], ...], tuple[_openvino.Request, list[str]]] = {}

    def run(feeds: Tensors) -> Tensors:
        shapes = tuple(array.shape for array in feeds.values())
        if shapes not in requests:
            data = network.SerializeToString()
            fixed = {name: [(size, size) for size in array.shape] for name, array in feeds.items()}
            compiled = _openvino.compile_model(data, "f32", fixed)
            requests[shapes] = compiled.create_request(), _openvino.inputs_read(data, feeds)
        request, read = requests[shapes]
        for name in read:
            request.bind(name, feeds[name])
        request.infer()
        return {name: request.output(output) for name, output in outputs.items()}

    return run


def probe(model: onnx.ModelProto, plan: CalibrationPlan) -> tuple[onnx.ModelProto, dict[str, str]]:
    """Return a copy of `model` that outputs the plan's observed tensors, and the output's name of each.

    Feature maps [N, C, H, W] are put out as [N, H, W, C].
    """
    outputs = {name: f"{name}/channels_last" if name in plan.feature_maps else name for name in plan.observed}
    result = _with_outputs(model, list(outputs.values()))
    for name, output in outputs.items():
        if output != name:
            result.graph.node.append(helper.make_node("Transpose", [name], [output], output, perm=_CHANNELS_LAST))
    return result, outputs


def _with_outputs(model: onnx.ModelProto, tensors: list[str]) -> onnx.ModelProto:
    copied = copy.deepcopy(model)
    types = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    del copied.graph.output[:]
    for name in tensors:
        unknown = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        copied.graph.output.append(types.get(name, unknown))
    return copied
