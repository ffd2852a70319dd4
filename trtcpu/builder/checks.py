"""What must hold of a network and its configuration before a build: flags, precisions and profiles that fit."""

from trtcpu.api.enums import DataType
from trtcpu.builder import quantization
from trtcpu.builder.config import IBuilderConfig, IOptimizationProfile
from trtcpu.builder.network import INetworkDefinition, inputs_of, outputs_of

_NEEDS_FLAG = {DataType.HALF: "FP16", DataType.BF16: "BF16", DataType.INT8: "INT8"}


class BuildError(Exception):
    """Why a build ends; its text is logged as an error."""


def check(network: INetworkDefinition, config: IBuilderConfig) -> None:
    """Accept a network and a configuration that can be built.

    Raises:
        BuildError: they cannot, and why.
    """
    if network.model is None:
        raise BuildError("Network must have at least one output: nothing was parsed into it")
    if network.num_outputs == 0:
        raise BuildError("Network must have at least one output")
    if both := {tensor.name for tensor in inputs_of(network)} & {tensor.name for tensor in outputs_of(network)}:
        raise BuildError(f"Network input {', '.join(sorted(both))} is an output too: give the output a name of its own")
    _check_flags(network, config)
    _check_profiles(network, config)


def _check_flags(network: INetworkDefinition, config: IBuilderConfig) -> None:
    if network.strongly_typed:
        for name in _NEEDS_FLAG.values():
            if config.asks_for(name):
                raise BuildError(f"{name} flag must not be set for a strongly typed network: its ONNX types decide")
        return
    if quantization.has_qdq(network.model) and not config.asks_for("INT8"):
        raise BuildError(
            "Int8 precision has been set for a layer or layer output, but int8 is not configured in the builder: "
            "the model has QuantizeLinear/DequantizeLinear nodes, set BuilderFlag.INT8"
        )
    if config.asks_for("OBEY_PRECISION_CONSTRAINTS"):
        for layer in network:
            flag = _NEEDS_FLAG.get(layer.precision)
            if layer.precision_is_set and flag and not config.asks_for(flag):
                raise BuildError(
                    f"Layer {layer.name} asks for precision {layer.precision.name}, but {flag} is not set in the "
                    "builder config"
                )


def _check_profiles(network: INetworkDefinition, config: IBuilderConfig) -> None:
    shapes = {tensor.name: list(tensor.shape) for tensor in inputs_of(network)}
    dynamic = [name for name, shape in shapes.items() if -1 in shape]
    if dynamic and not config.profiles:
        raise BuildError(
            "Network has dynamic or shape inputs, but no optimization profile has been defined. "
            f"Dynamic inputs: {', '.join(dynamic)}"
        )
    for index, profile in enumerate(config.profiles):
        for name in dynamic:
            if not profile.get_shape(name):
                raise BuildError(f"Optimization profile {index} is missing values for dynamic input {name}")
        for name in profile.names():
            if name not in shapes:
                found = ", ".join(shapes)
                raise BuildError(f"Optimization profile {index} sets {name!r}, which is no input; inputs are {found}")
            _check_profile_shape(index, name, shapes[name], profile)


def _check_profile_shape(index: int, name: str, shape: list[int], profile: IOptimizationProfile) -> None:
    for wanted in profile.get_shape(name):
        if len(wanted) != len(shape):
            raise BuildError(
                f"Optimization profile {index} gives input {name} {len(wanted)} dimensions, it has {len(shape)}"
            )
        for axis, (size, fixed) in enumerate(zip(wanted, shape, strict=True)):
            if fixed >= 0 and size != fixed:
                raise BuildError(
                    f"Static dimension mismatch while setting input shape for {name}: dimension {axis} is {fixed} in "
                    f"the network, {size} in optimization profile {index}. Is the ONNX file's batch fixed?"
                )
