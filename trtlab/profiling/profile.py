"""Per-layer times of an engine, and what bounds each layer on this machine."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers.engine.backend import DEVICE, ENGINE, trt
from helpers.engine.fused_layers import LayerGraph, onnx_names
from helpers.engine.layers import engine_layers, layer_precision
from helpers.engine.peaks import ITEM_BYTES
from helpers.tools.files import read_json
from trtcpu.errors import EngineError, InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.shapes import chosen_inputs
from trtlab.engines.tensors import Shape, batch_range
from trtlab.profiling.layer_cost import LayerCost, inspector_cost, layer_cost
from trtlab.profiling.roofline import Roofline, measure_roofline
from trtlab.timing.runners import physical_cores

OVERHEAD_PERCENT, CACHE_PERCENT = 5.0, 105.0


class LayerTimes(trt.IProfiler):
    """Collects the time that each layer reports, execution by execution."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.executions: list[dict[str, float]] = []

    def next_execution(self) -> None:
        """Open a new list of times; call before each execution."""
        self.executions.append(defaultdict(float))

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Take one layer's time in milliseconds (TensorRT calls this)."""
        self.executions[-1][layer_name] += ms

    def medians_ms(self) -> dict[str, float]:
        """Return the median time by layer, in the order of execution."""
        names = dict.fromkeys(name for execution in self.executions for name in execution)
        return {name: statistics.median(times.get(name, 0.0) for times in self.executions) for name in names}


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

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON can hold it."""
        return asdict(self)

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
        InputError: no engine, a batch outside its profile, or no iterations.
        EngineError: the engine reported no layer times.
    """
    if iterations < 1:
        raise InputError(f"--iterations must be 1 or more, not {iterations}")
    if shapes and batch is not None:
        raise InputError("--shapes sets the batch; drop --batch-size")
    with InferenceEngine(engine_path) as engine:
        engine.choose(chosen_inputs(engine.inputs, shapes))
        batch = engine.opt_batch if batch is None else batch
        engine.bind(batch)
        times = _layer_times(engine, iterations)
        shapes = {name: spec.at(batch, batch_range(engine.inputs)) for name, spec in engine.inputs.items()}
        described = {str(layer.get("Name")): layer for layer in engine_layers(engine.engine)}
    graph, costs_from = _graph(Path(engine_path), shapes)
    precisions = {name: layer_precision(described.get(name, {})) for name in times}
    roofline = measure_roofline(
        {*precisions.values(), "fp32"}, "cuda" if ENGINE == "tensorrt" else "cpu", physical_cores()
    )
    costs = {name: _cost(described.get(name, {"Name": name}), graph, batch) for name in times}
    roofline = roofline.raised(
        (precisions[name], cost.flops / times[name] / 1e6) for name, cost in costs.items() if cost and times[name]
    )
    total = sum(times.values())
    layers = [
        _placed(described.get(name, {"Name": name}), ms, 100 * ms / total, precisions[name], costs[name], roofline)
        for name, ms in times.items()
    ]
    slowest = sorted(layers, key=lambda layer: -layer.time_ms)
    return EngineProfile(str(engine_path), DEVICE, batch, iterations, total, slowest, roofline, costs_from)


def _layer_times(engine: InferenceEngine, iterations: int) -> dict[str, float]:
    for _ in range(3):
        engine.execute_ms()
    profiler = LayerTimes()
    engine.context.profiler = profiler
    for _ in range(iterations):
        profiler.next_execution()
        engine.enqueue()
        engine.synchronize()
    times = profiler.medians_ms()
    if not times or sum(times.values()) <= 0:
        raise EngineError(f"{engine.name} reported no layer times; rebuild it with detailed profiling verbosity")
    return times


def _graph(engine_path: Path, shapes: Mapping[str, Shape]) -> tuple[LayerGraph | None, str]:
    """Return the ONNX graph that E.json names, if it is still there."""
    try:
        onnx_path = Path(read_json(f"{engine_path}.json", "build record")["onnx"])
        for place in (onnx_path, engine_path.parent / onnx_path.name):
            if place.is_file():
                return LayerGraph.load(place, shapes), f"the ONNX graph {place.name}"
    except (InputError, KeyError, TypeError):
        pass
    return None, "the inspector's dimensions (the ONNX file that the engine was built from was not found)"


def _cost(layer: dict[str, Any], graph: LayerGraph | None, batch: int) -> LayerCost | None:
    if str(layer.get("LayerType")) in ("Reformat", "NoOp"):
        return None
    if graph is None:
        return inspector_cost(layer, batch)
    fused = graph.layer(onnx_names(layer))
    return layer_cost(fused) if fused else None


def _placed(
    layer: dict[str, Any], ms: float, share_percent: float, precision: str, cost: LayerCost | None, roof: Roofline
) -> LayerProfile:
    """Place a layer under the roof."""
    moved = cost.moved_bytes(ITEM_BYTES.get(precision, 4)) if cost else None
    intensity = cost.flops / moved if cost and moved else None
    least = roof.least_ms(precision, cost.flops, moved) if cost and moved else None
    return LayerProfile(
        name=str(layer["Name"]),
        layer_type=str(layer.get("LayerType", "?")),
        precision=precision,
        time_ms=ms,
        share_percent=share_percent,
        flops=cost.flops if cost else None,
        moved_bytes=moved,
        intensity=intensity,
        bound=roof.bound(precision, intensity),
        roof_percent=100 * least / ms if least and ms > 0 else None,
    )


def _finding(layer: LayerProfile, roof: Roofline) -> str:
    start = f"{layer.name} takes {layer.time_ms:.3g} ms ({layer.share_percent:.0f} %) in {layer.precision}"
    ridge = roof.ridge(layer.precision)
    if layer.intensity is None or ridge is None or layer.roof_percent is None:
        return f"{start}; its arithmetic is unknown, so no bound can be named."
    if layer.roof_percent < OVERHEAD_PERCENT:
        return (
            f"{start}: {layer.intensity:.1f} FLOP/byte, but it reaches only {layer.roof_percent:.1f} % of its roof: "
            "neither arithmetic nor memory bounds it, but overhead (a larger batch helps) or a disturbed machine."
        )
    if layer.roof_percent > CACHE_PERCENT:
        return f"{start}: {layer.intensity:.1f} FLOP/byte; faster than memory allows, so its data stay in the cache."
    side = "right" if layer.bound == "compute" else "left"
    limit = "arithmetic" if layer.bound == "compute" else "memory bandwidth"
    lower = "fewer operations help" if layer.precision == "int8" else "a lower precision helps"
    advice = lower if layer.bound == "compute" else "fusing, or smaller elements, helps"
    return (
        f"{start}: {layer.intensity:.1f} FLOP/byte, {side} of the ridge at {ridge:.1f}, so {limit} bounds it; "
        f"it reaches {layer.roof_percent:.0f} % of that roof ({advice})."
    )
