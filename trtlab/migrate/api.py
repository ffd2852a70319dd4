"""TensorRT's Python API as far as names go: its modules, classes and members, and what reading or calling one gives."""

from collections.abc import Container
from functools import cache

from trtcpu.api.manifest import load_manifest
from trtcpu.api.version import VERSIONS
from trtcpu.api_changes import load_changes

MODULE = "tensorrt"
MODULES = {MODULE, "tensorrt_bindings", "tensorrt_lean", "tensorrt_dispatch", "trtcpu.tensorrt"}
ITERATED = {"INetworkDefinition": "ILayer", "ICudaEngine": "str"}
"""What iterating over an instance, or an index, gives."""

_RETURNS: dict[str, str] = {
    "Builder.build_engine": "ICudaEngine",
    "Builder.build_cuda_engine": "ICudaEngine",
    "Builder.logger": "ILogger",
    "Builder.max_batch_size": "int",
    "ICudaEngine.num_bindings": "int",
    "ICudaEngine.max_batch_size": "int",
    "ICudaEngine.get_binding_name": "str",
    "ICudaEngine.get_binding_index": "int",
    "ICudaEngine.num_io_tensors": "int",
    "IExecutionContext.engine": "ICudaEngine",
    "INetworkDefinition.add_fully_connected": "IFullyConnectedLayer",
    "INetworkDefinition.add_convolution": "IConvolutionLayer",
    "INetworkDefinition.add_deconvolution": "IDeconvolutionLayer",
    "INetworkDefinition.add_pooling": "IPoolingLayer",
    "INetworkDefinition.add_padding": "IPaddingLayer",
    "INetworkDefinition.num_layers": "int",
    "INetworkDefinition.num_inputs": "int",
    "INetworkDefinition.num_outputs": "int",
    "ILayer.num_inputs": "int",
    "ILayer.num_outputs": "int",
    "ILayer.name": "str",
    "ITensor.name": "str",
    "get_plugin_registry": "IPluginRegistry",
    "get_builder_plugin_registry": "IPluginRegistry",
    "volume": "int",
}
"""What attributes and functions give that the manifest of the API has no signature for."""


@cache
def known_names() -> frozenset[str]:
    """Return all classes, enums and functions that TensorRT has or had."""
    manifest = load_manifest(VERSIONS["10"].line)
    gone = {name.partition(".")[0] for name in load_changes()}
    return frozenset({*manifest["surface"], *manifest["outside"], *gone})


@cache
def member_names() -> frozenset[str]:
    """Return what members of TensorRT's classes are or were called."""
    surface = load_manifest(VERSIONS["10"].line)["surface"].values()
    gone = {name.rpartition(".")[2] for name in load_changes()}
    return frozenset(gone.union(*(entry.get("members", ()) for entry in surface)))


@cache
def returned(owner: str, name: str) -> str:
    """Return what calling or reading the member gives, "" where that is not known."""
    full = f"{owner}.{name}" if owner else name
    if full in _RETURNS:
        return _RETURNS[full]
    entry = load_manifest(VERSIONS["10"].line)["surface"].get(owner or name, {})
    entry = entry.get("members", {}).get(name, {}) if owner else entry
    kinds = {signature["returns"] for signature in entry.get("signatures", ())}
    found = kinds.pop() if len(kinds) == 1 else ""
    if not found and owner.endswith("Layer") and owner != "ILayer":
        return returned("ILayer", name)
    return found if found in known_names() or found in ("int", "str") else ""


def owner_of(meaning: str, attribute: str, known: Container[str]) -> str | None:
    """Return the name in `known` that reading `attribute` of `meaning` touches: `Builder.fp16_mode`, `UffParser`."""
    kind = meaning.removeprefix("type:")
    names = [attribute] if meaning == MODULE else [f"{kind}.{attribute}"]
    names += [f"ILayer.{attribute}"] if kind.endswith("Layer") else []
    return next((name for name in names if name in known), None)
