"""A plan in memory: what an engine, its contexts and its inspectors share. No name of it is TensorRT's."""

from functools import cached_property
from typing import Any

from helpers.cpu_engine import _openvino
from helpers.cpu_engine.api.enums import ProfilingVerbosity
from helpers.cpu_engine.api.logger import ILogger
from helpers.cpu_engine.plan import Binding, Plan
from helpers.cpu_engine.runtime.layers import Layer, layers_of

__all__ = ["LoadedPlan"]


class LoadedPlan:
    """A plan with its compiled model; `bindings` are its inputs and outputs by name."""

    def __init__(self, plan: Plan, logger: ILogger) -> None:
        self.plan, self.logger = plan, logger
        self.compiled = _openvino.import_model(plan.blob, plan.hint)
        self.bindings = {binding.name: binding for binding in plan.bindings}
        self.inputs = [binding for binding in plan.bindings if binding.is_input]
        self.outputs = [binding for binding in plan.bindings if not binding.is_input]
        for name, shape in self.compiled.output_shapes.items():
            if name in self.bindings:
                self.bindings[name].shape = _merged(self.bindings[name].shape, shape)

    @cached_property
    def profiling(self) -> _openvino.Compiled:
        """The same model with per-node times, loaded when a profiler is first attached."""
        return _openvino.import_model(self.plan.blob, self.plan.hint, profiling=True)

    @cached_property
    def layers(self) -> list[Layer]:
        """The fused layers, in the order of execution."""
        return layers_of(self.compiled.nodes(), self.plan)

    @property
    def verbosity(self) -> ProfilingVerbosity:
        """How much of its layers the engine was built to tell."""
        return ProfilingVerbosity.__members__[self.plan.verbosity]

    def binding(self, name: str) -> Binding | None:
        """Return an input or output, or None after logging which there are; raise TypeError where no name is given."""
        if not isinstance(name, str):
            raise TypeError(f"incompatible function arguments: a tensor's name is a str, not {name!r}")
        binding = self.bindings.get(name)
        if binding is None:
            known = ", ".join(self.bindings)
            self.logger.log(ILogger.ERROR, f"Given invalid tensor name: {name}. The engine's I/O tensors are: {known}")
        return binding


def _merged(planned: list[Any], compiled: list[int]) -> list[Any]:
    """Take the sizes that OpenVINO fixed; keep the plan's where they follow an input."""
    if len(planned) != len(compiled):
        return list(compiled)
    return [c if c >= 0 else p for p, c in zip(planned, compiled, strict=True)]
