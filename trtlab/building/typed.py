"""The model that says its types itself, for a strongly typed network: Q/DQ for INT8, casts for FP16 and BF16.

TensorRT 11 builds nothing else; on 10 `--explicit` asks for it. TensorRT 8 has no strongly typed networks: there Q/DQ
are built with precision flags, and halves are left to them.

TensorRT calls a pair of QuantizeLinear and DequantizeLinear nodes Q/DQ: between them an engine computes in INT8. Scales
are a calibration's; zero points are 0; weights are quantised per output channel, and stay floats in front of Q and DQ;
biases stay in float, since NVIDIA's parser refuses integers there.

TensorRT 11 has no calibrators, and on 8 and 10 one calibrates only while an engine is built. So the batches run through
the network in FP32 on this machine's processor: the calibration of the CPU engine, whose scales are TensorRT's except
for a few (docs/cpu-engine.md), with any engine and without a GPU.
"""

from collections.abc import Callable, Container, Mapping
from types import SimpleNamespace

import onnx

from trtcpu import tensorrt as cpu_engine
from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.builder.lowering import lowered
from trtcpu.builder.quantization import WEIGHTED, explicit, has_qdq
from trtcpu.builder.strong_types import without_halves
from trtcpu.calibration.batches import observe_batches
from trtcpu.calibration.probe import runner
from trtcpu.calibration.scales import scales_from
from trtcpu.calibration.tensors import calibration_plan
from trtcpu.calibration_cache import CalibrationCache
from trtcpu.errors import InputError
from trtlab.building.build_options import has_strong_types
from trtlab.building.calibration_data import CalibrationBatches
from trtlab.building.half import HALVES, to_half
from trtlab.building.layer_precisions import Constraints

_ALGORITHMS = {
    "entropy": (CalibrationAlgoType.ENTROPY_CALIBRATION_2, "EntropyCalibration2"),
    "minmax": (CalibrationAlgoType.MINMAX_CALIBRATION, "MinMaxCalibration"),
    "percentile": (CalibrationAlgoType.LEGACY_CALIBRATION, "LegacyCalibration"),
}
_PERCENTILE = SimpleNamespace(quantile=0.9999, regression_cutoff=1.0)  # as calibration.py's calibrator of that name


def float_model(data: bytes, path: str) -> onnx.ModelProto:
    """Return an ONNX model as an engine sees it: nodes named, weights behind constants and transposes folded.

    What it has in FP16 or BF16 becomes FP32, except for inputs and outputs. A model with Q/DQ keeps its types.

    Raises:
        InputError: it cannot be read, or it has subgraphs and weights in half precision.
    """
    logger = cpu_engine.Logger(cpu_engine.Logger.INTERNAL_ERROR)
    network = cpu_engine.Builder(logger).create_network(0)
    parser = cpu_engine.OnnxParser(network, logger)
    if not parser.parse(data, path):
        raise InputError(f"{path} cannot be rewritten: {parser.get_error(0).desc()}")
    model = lowered(network)
    if has_qdq(model):
        return model
    model = without_halves(model)
    if any(tensor.data_type in HALVES.values() for tensor in model.graph.initializer):
        raise InputError(f"{path} has subgraphs (If, Loop, Scan) and FP16 or BF16 weights: export it with FP32 weights")
    return model


def calibrated(
    model: onnx.ModelProto, kind: str, batches: CalibrationBatches, report: Callable[[str], None]
) -> CalibrationCache:
    """Return the scales of `model`'s tensors as a calibration cache has them.

    Args:
        model: as `float_model` gives it.
        kind: entropy, minmax or percentile.
        batches: what is run through it.
        report: told of each batch.
    """
    algorithm, name = _ALGORITHMS[kind]
    plan = calibration_plan(model, algorithm)
    statistics, _ = observe_batches(batches.told(report), plan, runner(model, plan))
    return CalibrationCache(name, scales_from(statistics, plan, _PERCENTILE))


def typed_model(
    graph: onnx.ModelProto, precision: str, scales: Mapping[str, float] | None, constraints: Constraints
) -> onnx.ModelProto:
    """Return `graph` with the types of `precision` written into it; its inputs and outputs keep theirs.

    Args:
        graph: FP32, as `float_model` gives it.
        precision: fp16, bf16, int8 or int8+fp16.
        scales: scale by tensor; None if the graph has Q/DQ already, or INT8 is not asked for.
        constraints: layers that are to have another precision.

    Raises:
        InputError: the graph cannot be rewritten.
    """
    asked = constraints.asked
    if scales is not None:
        graph = explicit_int8(graph, scales, {name for name, kind in asked.items() if kind != "int8"})
    half = next((kind for kind in precision.split("+") if kind in HALVES), None)
    if half and has_strong_types():
        graph = to_half(graph, half, {name for name, kind in asked.items() if kind == "fp32"})
    return graph


def explicit_int8(
    model: onnx.ModelProto, scales: Mapping[str, float], float_layers: Container[str] = (), *, naive: bool = False
) -> onnx.ModelProto:
    """Return a copy of `model` with Q/DQ where the implicit quantisation has them.

    In front of every convolution, matrix product and pooling, and on the skip branch of residual adds, so that
    convolution + add + ReLU are one INT8 kernel.

    Args:
        model: float ONNX with names for its nodes.
        scales: scale by tensor name, as a calibration cache has them; a layer whose input has none stays in float.
        float_layers: names of layers that stay in float.
        naive: only at the input and the weights of every weighted layer, as NVIDIA's toolkits for PyTorch and
            TensorFlow do by default: pools stay in float, and each residual add reads and writes floats. It is there to
            be measured against.

    Raises:
        InputError: the model is quantised already, its opset cannot hold scales per channel, or no tensor has a scale.
    """
    if has_qdq(model):
        raise InputError("the model has Q/DQ nodes already; leave the calibration out, and its own scales are used")
    try:
        quantized, _ = explicit(model, scales, float_layers, fused=not naive)
    except ValueError as error:
        raise InputError(f"the model cannot be quantised: {error}") from error
    if not has_qdq(quantized):
        raise InputError("no convolution or matrix product of the model has an input with a scale; calibrate again")
    return quantized


def quantised_layers(model: onnx.ModelProto) -> list[str]:
    """Return the names of the layers whose weights come through a DQ: those that are to run in INT8."""
    made = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    return [node.name for node in model.graph.node if node.op_type in WEIGHTED and node.input[1] in made]
