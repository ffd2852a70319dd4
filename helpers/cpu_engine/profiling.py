"""Layer times: `IProfiler` and the run that feeds it."""

from typing import TYPE_CHECKING

from helpers.cpu_engine import _memory
from helpers.cpu_engine._bindings import Overridable

if TYPE_CHECKING:
    from helpers.cpu_engine.context import IExecutionContext

__all__ = ["IProfiler", "Profiler", "run_profiled"]


class IProfiler(Overridable):
    """Base of profilers; `report_layer_time` is called for each fused layer, in order, after every inference."""

    def __init__(self) -> None:
        super().__init__()

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError(
            "a profiler derived from trt.IProfiler must override report_layer_time(layer_name, ms)"
        )


class Profiler(IProfiler):
    """Print each layer's time to stdout."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print(f"{layer_name}: {ms}ms")


def run_profiled(context: "IExecutionContext", tensors: list, profiler: IProfiler) -> None:
    """Run one inference on the engine's measuring copy and report each fused layer's milliseconds.

    OpenVINO measures per node when the model was loaded so; a second copy keeps ordinary runs free of that cost.
    """
    request = context.profiled_request()
    for name, address, nbytes, shape, kind in tensors:
        request.bind(name, _memory.view(address, nbytes).view(kind).reshape(shape))
    request.infer()
    times = request.node_times_ms()
    for layer in context.engine.layers:
        if layer.node in times:
            profiler.report_layer_time(layer.name, times[layer.node])
