"""The engine inspector: an engine's layers as text or JSON in TensorRT's layout."""

import json
from typing import Any

from trtcpu.api.enums import LayerInformationFormat, ProfilingVerbosity
from trtcpu.api.pybind import Declared
from trtcpu.api.version import API
from trtcpu.plan import Binding
from trtcpu.runtime.layers import Layer
from trtcpu.runtime.loaded import LoadedPlan


class EngineInspector(Declared):
    """Reads an engine's layers. How much it tells depends on the profiling verbosity the engine was built with."""

    __slots__ = ("_loaded", "error_recorder", "execution_context")

    def __init__(self, loaded: LoadedPlan) -> None:
        self._loaded = loaded
        self.execution_context: object | None = None
        self.error_recorder: object | None = None

    def clear_inspection_source(self) -> bool:
        self.execution_context = None
        return True

    def _shown(self, layer: Layer) -> Any:
        verbosity = self._loaded.verbosity
        if verbosity == ProfilingVerbosity.NONE:
            return ""
        return layer.json if verbosity == ProfilingVerbosity.DETAILED else layer.name

    def get_layer_information(self, layer_index: int, format: LayerInformationFormat) -> str:
        """Return one layer, as one line or as JSON."""
        shown = self._shown(self._loaded.layers[layer_index])
        return json.dumps(shown, indent=2) if format == LayerInformationFormat.JSON else _one_line(shown)

    def get_engine_information(self, format: LayerInformationFormat) -> str:
        """Return all layers and the bindings."""
        shown = [self._shown(layer) for layer in self._loaded.layers]
        bindings = self._loaded.plan.bindings
        names = [binding.name for binding in bindings]
        if format == LayerInformationFormat.JSON:
            ends = {"I/O Tensors": [*map(self._described, bindings)]} if API.io_tensors else {"Bindings": names}
            return json.dumps({"Layers": shown, **ends}, indent=2)
        return "\n".join(["Layers:", *map(_one_line, shown), "Bindings:", *names])

    def _described(self, binding: Binding) -> dict[str, Any]:
        """Return an input or output as TensorRT 11 shows it."""
        profiles = self._loaded.plan.profiles if binding.is_input else ()
        shapes = [dict(zip(("MinShape", "OptShape", "MaxShape"), one[binding.name], strict=True)) for one in profiles]
        return {
            "Name": binding.name,
            "IOMode": "Input" if binding.is_input else "Output",
            "DataType": binding.dtype.capitalize(),
            "Dimensions": [-1 if isinstance(size, list) else size for size in binding.shape],
            "Location": "Device",
            "IsShapeInferenceIO": False,
            "ProfileInfo": [one | {"Format": "Row major linear (kLINEAR)"} for one in shapes],
        }


def _one_line(shown: Any) -> str:
    if isinstance(shown, str):
        return shown
    tensors = {key: ", ".join(t["Name"] for t in shown[key]) for key in ("Inputs", "Outputs")}
    return (
        f"Name: {shown['Name']}, LayerType: {shown['LayerType']}, Inputs: [{tensors['Inputs']}], "
        f"Outputs: [{tensors['Outputs']}], Precision: {shown['Precision']}, TacticName: {shown['TacticName']}"
    )
