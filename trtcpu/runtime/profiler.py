"""Profilers: they are told the time of each fused layer after every inference."""

from trtcpu.api.pybind import Overridable, to_override


class IProfiler(Overridable):
    """Base of profilers; `report_layer_time` is called for each fused layer, in order, after every inference."""

    __slots__ = ()

    @to_override
    def report_layer_time(self, layer_name: str, ms: float) -> None:
        """Take the milliseconds of one layer."""


class Profiler(IProfiler):
    """Print each layer's time to stdout."""

    __slots__ = ()

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print(f"{layer_name}: {ms}ms")
