"""Per-layer times of an engine, what each layer computes and moves, and what bounds it on this machine.

FLOPs and elements are counted on the ONNX graph that the layers were fused from. The roofline is of measured peaks.

A layer whose arithmetic intensity (FLOP per byte moved) lies left of the ridge, peak / bandwidth, cannot be faster than
the memory allows; right of it the arithmetic units are the limit. Williams, Waterman, Patterson: Roofline, CACM 52
(2009).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from helpers.engine.backend import DEVICE, ENGINE, trt
from helpers.engine.fused_layers import FusedLayer, LayerGraph, Node, onnx_names
from helpers.engine.layers import Layer, engine_layers, layer_precision
from helpers.engine.peaks import ITEM_BYTES, measured_peaks
from helpers.tools.files import read_json
from trtcpu.errors import EngineError, InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.shapes import chosen_inputs
from trtlab.engines.tensors import Shape, batch_range
from trtlab.timing.runners import physical_cores

_OVERHEAD_PERCENT, _CACHE_PERCENT = 5.0, 105.0
_FREE = {"Flatten", "Reshape", "Identity", "Constant", "Shape", "Squeeze", "Unsqueeze", "Dropout", "Cast"} | {
    "QuantizeLinear", "DequantizeLinear", "Transpose", "Concat", "Slice", "Gather", "Pad",
}  # fmt: skip


# FLOPs (a multiply-add is two), and elements moved: activations read and written and weights read, each once.
LayerCost = tuple[float, float]


@dataclass(frozen=True)
class Roofline:
    """Peaks of a device: `peak_gflops` by precision (int8: giga-operations), `bandwidth_gb_s` of reads plus writes."""

    device: str
    peak_gflops: dict[str, float]
    bandwidth_gb_s: float

    def ridge(self, precision: str) -> float:
        """Return the intensity in FLOP/byte from which a precision that was measured is compute-bound."""
        return self.peak_gflops[precision] / self.bandwidth_gb_s

    def least_ms(self, precision: str, flops: float, moved_bytes: float) -> float:
        """Return the time in ms below which the roof lets no layer go, in a precision that was measured."""
        return max(flops / self.peak_gflops[precision], moved_bytes / self.bandwidth_gb_s) / 1e6

    def raised(self, attained_gflops: Sequence[tuple[str, float]]) -> "Roofline":
        """Return the roofline with each measured peak no lower than any rate that a layer attained in the same run."""
        peaks = {
            precision: max([peak, *(gflops for name, gflops in attained_gflops if name == precision)])
            for precision, peak in self.peak_gflops.items()
        }
        return replace(self, peak_gflops=peaks)


def measure_roofline(precisions: Iterable[str]) -> Roofline:
    """Measure the roofline of the device that engines run on; without the precisions that it cannot multiply in."""
    device = "cuda" if ENGINE == "tensorrt" else "cpu"
    return Roofline(device, *measured_peaks(precisions, device, physical_cores()))


class LayerTimes(trt.IProfiler):
    """Collects the milliseconds that each layer reports: by layer, an entry of `executions` for each execution."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.executions: list[dict[str, float]] = []

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Take one layer's time (TensorRT calls this)."""
        self.executions[-1][layer_name] += ms


@dataclass(frozen=True)
class LayerProfile:
    """One fused layer; what cannot be known is None. `bound` is "compute" or "memory"."""

    name: str
    layer_type: str
    precision: str
    time_ms: float
    share_percent: float
    flops: float | None
    moved_bytes: float | None
    intensity: float | None
    bound: str | None
    roof_percent: float | None


@dataclass(frozen=True)
class EngineProfile:
    """An engine's layers, slowest first, and the roofline measured in the same run."""

    engine: str
    device: str
    batch: int
    iterations: int
    total_ms: float
    layers: list[LayerProfile]
    roofline: Roofline
    costs_from: str

    def findings(self, top: int) -> list[str]:
        """Say of the `top` slowest layers why they take their time."""
        return [_finding(layer, self.roofline) for layer in self.layers[:top]]


def profile_engine(
    engine_path: str | Path, batch: int | None = None, iterations: int = 50, shapes: Sequence[str] = ()
) -> EngineProfile:
    """Run an engine with a profiler attached and relate every layer to this machine's roofline.

    Args:
        batch: the batch to run; the profile's optimum by default.
        shapes: NAME:SHAPE of inputs that run at another shape than the profile's optimum; their axis 0 is the batch.

    Raises:
        InputError: no engine, or a batch outside its profile.
        EngineError: the engine reported no layer times.
    """
    if shapes and batch is not None:
        raise InputError("--shapes sets the batch; drop --batch-size")
    with InferenceEngine(engine_path) as engine:
        engine.choose(chosen_inputs(engine.inputs, shapes))
        batch = engine.opt_batch if batch is None else batch
        engine.bind(batch)
        times = _layer_times(engine, iterations)
        bound = {name: spec.at(batch, batch_range(engine.inputs)) for name, spec in engine.inputs.items()}
        described = {str(layer.get("Name")): layer for layer in engine_layers(engine.engine)}
    graph, costs_from = _graph(Path(engine_path), bound)
    layers = {name: described.get(name, {"Name": name}) for name in times}
    precisions = {name: layer_precision(layer) for name, layer in layers.items()}
    costs = {name: _cost(layer, graph) for name, layer in layers.items()}
    roofline = measure_roofline({*precisions.values(), "fp32"}).raised(
        [(precisions[name], cost[0] / times[name] / 1e6) for name, cost in costs.items() if cost and times[name]]
    )
    total = sum(times.values())
    slowest = [
        _placed(layers[name], ms, 100 * ms / total, precisions[name], costs[name], roofline)
        for name, ms in sorted(times.items(), key=lambda time: -time[1])
    ]
    return EngineProfile(str(engine_path), DEVICE, batch, iterations, total, slowest, roofline, costs_from)


def _layer_times(engine: InferenceEngine, iterations: int) -> dict[str, float]:
    """Return each layer's median time in ms, in the order of execution."""
    for _ in range(3):
        engine.execute_ms()
    profiler = LayerTimes()
    engine.context.profiler = profiler
    for _ in range(iterations):
        profiler.executions.append(defaultdict(float))
        engine.execute_ms()
    times = pd.DataFrame(profiler.executions).fillna(0.0).median().to_dict()
    if sum(times.values()) <= 0:
        raise EngineError(f"{engine.name} reported no layer times; rebuild it with detailed profiling verbosity")
    return times


def _graph(engine_path: Path, shapes: Mapping[str, Shape]) -> tuple[LayerGraph | None, str]:
    """Return the ONNX graph that E.json names, if it is still there, and what costs are counted on."""
    try:
        onnx_path = Path(read_json(f"{engine_path}.json", "build record")["onnx"])
        for place in (onnx_path, engine_path.parent / onnx_path.name):
            if place.is_file():
                return LayerGraph.load(place, shapes), f"the ONNX graph {place.name}"
    except (InputError, KeyError, TypeError):
        pass
    return None, "no file: the ONNX model that the engine was built from was not found"


def _cost(layer: Layer, graph: LayerGraph | None) -> LayerCost | None:
    if graph is None or str(layer.get("LayerType")) in ("Reformat", "NoOp"):
        return None
    fused = graph.layer(onnx_names(layer))
    return layer_cost(fused) if fused else None


def _placed(
    layer: Layer, ms: float, share_percent: float, precision: str, cost: LayerCost | None, roof: Roofline
) -> LayerProfile:
    flops, elements = cost or (None, 0)
    moved = elements * ITEM_BYTES.get(precision, 4) if cost else None
    intensity = flops / moved if moved else None
    bound = roof_percent = None
    if moved and precision in roof.peak_gflops:
        bound = "compute" if intensity >= roof.ridge(precision) else "memory"
        roof_percent = 100 * roof.least_ms(precision, flops, moved) / ms if ms > 0 else None
    return LayerProfile(
        name=str(layer["Name"]),
        layer_type=str(layer.get("LayerType", "?")),
        precision=precision,
        time_ms=ms,
        share_percent=share_percent,
        flops=flops,
        moved_bytes=moved,
        intensity=intensity,
        bound=bound,
        roof_percent=roof_percent,
    )


def _finding(layer: LayerProfile, roof: Roofline) -> str:
    start = f"{layer.name} takes {layer.time_ms:.3g} ms ({layer.share_percent:.0f} %) in {layer.precision}"
    if layer.roof_percent is None:
        return f"{start}; its arithmetic is unknown, so no bound can be named."
    start = f"{start}: {layer.intensity:.1f} FLOP/byte"
    if layer.roof_percent < _OVERHEAD_PERCENT:
        return (
            f"{start}, but it reaches only {layer.roof_percent:.1f} % of its roof: "
            "neither arithmetic nor memory bounds it, but overhead (a larger batch helps) or a disturbed machine."
        )
    if layer.roof_percent > _CACHE_PERCENT:
        return f"{start}; faster than memory allows, so its data stay in the cache."
    side, limit, advice = "left", "memory bandwidth", "fusing, or smaller elements, helps"
    if layer.bound == "compute":
        advice = "fewer operations help" if layer.precision == "int8" else "a lower precision helps"
        side, limit = "right", "arithmetic"
    return (
        f"{start}, {side} of the ridge at {roof.ridge(layer.precision):.1f}, so {limit} bounds it; "
        f"it reaches {layer.roof_percent:.0f} % of that roof ({advice})."
    )


def layer_cost(layer: FusedLayer) -> LayerCost:
    """Return what a fused layer computes and moves; caches are not counted."""
    moved = (*layer.read, *layer.weights, *layer.written)
    return sum(map(_flops, layer.nodes)), sum(map(math.prod, moved))


def _flops(node: Node) -> float:
    out, kind = math.prod(node.output), node.op
    if kind in _FREE:
        return 0
    if kind in ("Conv", "ConvInteger", "QLinearConv"):
        return 2 * out * math.prod(node.inputs[3 if kind == "QLinearConv" else 1][1:])
    if kind == "ConvTranspose":  # each input value meets each weight of its own channel
        return 2 * math.prod(node.inputs[0]) * math.prod(node.inputs[1][1:])
    if kind in ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"):
        return 2 * out * (node.inputs[0][0 if node.transposed else -1] if node.inputs[0] else 1)
    if kind in ("LSTM", "GRU", "RNN"):  # each step of each sample meets the weights of inputs and of hidden states
        return 2 * math.prod(node.inputs[0][:2]) * sum(map(math.prod, node.inputs[1:3]))
    if kind in ("MaxPool", "AveragePool"):
        return out * math.prod(node.kernel)
    return max(out, math.prod(node.inputs[0]) if kind.startswith("Global") else out)
