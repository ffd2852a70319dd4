"""The builder: network and config in, serialized engine out. A build that cannot succeed logs why and returns None."""

import hashlib
import os
import time

import onnx

from helpers.cpu_engine import _openvino, lowering, quantization
from helpers.cpu_engine._bindings import Scoped
from helpers.cpu_engine.calibrate_network import calibrated_scales
from helpers.cpu_engine.config import IBuilderConfig, IOptimizationProfile, ITimingCache
from helpers.cpu_engine.enums import BuilderFlag, DataType, MemoryPoolType, NetworkDefinitionCreationFlag
from helpers.cpu_engine.layer_facts import layer_attributes
from helpers.cpu_engine.logger import ILogger
from helpers.cpu_engine.network import INetworkDefinition
from helpers.cpu_engine.plan import Binding, Plan

__all__ = ["Builder", "IHostMemory"]

_PRECISION_FLAGS = (BuilderFlag.FP16, BuilderFlag.INT8, BuilderFlag.BF16)
_NEEDS_FLAG = {
    DataType.HALF: BuilderFlag.FP16,
    DataType.BF16: BuilderFlag.BF16,
    DataType.INT8: BuilderFlag.INT8,
}


class IHostMemory(Scoped, bytes):
    """Serialized bytes; supports the buffer protocol and `bytes()`, as TensorRT's does."""

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> DataType:
        return DataType.INT8


class BuildError(Exception):
    """Why a build ends; its text is logged as an error."""


class Builder(Scoped):
    """Makes networks, configs and profiles, and builds serialized engines."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Builder needs a trt.ILogger, found {type(logger).__name__}")
        self.logger = logger
        self.error_recorder = None
        self.max_threads = os.cpu_count() or 1
        self.max_DLA_batch_size = 0
        self.num_DLA_cores = 0

    @property
    def platform_has_fast_fp16(self) -> bool:
        # As on every GPU of TensorRT's: code that asks before it sets the flag must build here what it builds there.
        # What the layers ran in, the inspector says.
        return True

    @property
    def platform_has_fast_int8(self) -> bool:
        return True

    @property
    def platform_has_tf32(self) -> bool:
        return False

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(int(flags), self.logger)

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self.logger)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile(self.logger)

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        try:
            _check(network, config)
        except BuildError as error:
            self.logger.log(ILogger.ERROR, str(error))
            return False
        return True

    def reset(self) -> None:
        pass

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory | None:
        """Build an engine; None, with the reason logged as an error, when it cannot be built."""
        try:
            return IHostMemory(_Build(network, config, self.logger).run().serialize())
        except BuildError as error:
            self.logger.log(ILogger.ERROR, str(error))
            return None

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> object:
        from helpers.cpu_engine.runtime import Runtime

        plan = self.build_serialized_network(network, config)
        return None if plan is None else Runtime(self.logger).deserialize_cuda_engine(plan)


def _check(network: INetworkDefinition, config: IBuilderConfig) -> None:
    if network.model is None:
        raise BuildError("Network must have at least one output: nothing was parsed into it")
    if network.num_outputs == 0:
        raise BuildError("Network must have at least one output")
    _check_flags(network, config)
    _check_profiles(network, config)


def _check_flags(network: INetworkDefinition, config: IBuilderConfig) -> None:
    strongly = network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    if strongly:
        for flag in _PRECISION_FLAGS:
            if config.get_flag(flag):
                raise BuildError(
                    f"{flag.name} flag must not be set for a strongly typed network: its ONNX types decide"
                )
    elif quantization.has_qdq(network.model) and not config.get_flag(BuilderFlag.INT8):
        raise BuildError(
            "Int8 precision has been set for a layer or layer output, but int8 is not configured in the builder: "
            "the model has QuantizeLinear/DequantizeLinear nodes, set BuilderFlag.INT8"
        )
    if config.get_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS) and not strongly:
        for layer in network:
            flag = _NEEDS_FLAG.get(layer.precision)
            if layer.precision_is_set and flag and not config.get_flag(flag):
                raise BuildError(
                    f"Layer {layer.name} asks for precision {layer.precision.name}, but {flag.name} is not set in the "
                    "builder config"
                )


def _dynamic_inputs(network: INetworkDefinition) -> list[str]:
    tensors = [network.get_input(i) for i in range(network.num_inputs)]
    return [tensor.name for tensor in tensors if -1 in list(tensor.shape)]


def _check_profiles(network: INetworkDefinition, config: IBuilderConfig) -> None:
    dynamic = _dynamic_inputs(network)
    if dynamic and not config.profiles:
        raise BuildError(
            "Network has dynamic or shape inputs, but no optimization profile has been defined. "
            f"Dynamic inputs: {', '.join(dynamic)}"
        )
    shapes = {t.name: list(t.shape) for t in (network.get_input(i) for i in range(network.num_inputs))}
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


class _Build:
    """One build, step by step; a progress monitor of the config is told of each step."""

    STEPS = ("lower", "quantize", "compile", "serialize")

    def __init__(self, network: INetworkDefinition, config: IBuilderConfig, logger: ILogger) -> None:
        self.network, self.config, self.logger = network, config, logger
        self.strongly = network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED)

    def run(self) -> Plan:
        _check(self.network, self.config)
        monitor = self.config.progress_monitor
        if monitor is not None:
            monitor.phase_start("Building Engine", None, len(self.STEPS))
        try:
            for index, step in enumerate(self.STEPS):
                getattr(self, f"_{step}")()
                if monitor is not None and not monitor.step_complete("Building Engine", index):
                    raise BuildError("the build was cancelled by the progress monitor")
        finally:
            if monitor is not None:
                monitor.phase_finish("Building Engine")
        return self.plan

    def _lower(self) -> None:
        self.model = self.source = lowering.lowered(self.network)
        self.hint = self._hint()
        self.bounds = self._bounds()
        constrained = any(
            self.config.get_flag(flag)
            for flag in (BuilderFlag.OBEY_PRECISION_CONSTRAINTS, BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
        )
        self.asked = {x.name: x.precision for x in self.network if x.precision_is_set} if constrained else {}
        if constrained:
            for layer in self.network:
                if layer.output_type_is_set(0) and layer.get_output_type(0) == DataType.FLOAT:
                    self.asked.setdefault(layer.name, DataType.FLOAT)

    def _hint(self) -> str:
        """Precision for the layers that are free: the fastest asked for that this processor computes in."""
        half, brain = self.config.get_flag(BuilderFlag.FP16), self.config.get_flag(BuilderFlag.BF16)
        if self.strongly:
            half, brain = self._has_type(onnx.TensorProto.FLOAT16), self._has_type(onnx.TensorProto.BFLOAT16)
        if half and _openvino.has_fast("FP16"):
            return "f16"
        if (half or brain) and _openvino.has_fast("BF16"):
            return "bf16"
        if half or brain:
            self.logger.log(
                ILogger.WARNING, "this processor has neither FP16 nor BF16 arithmetic: layers compute in FP32"
            )
        return "f32"

    def _has_type(self, element_type: int) -> bool:
        graph = self.network.model.graph
        values = (*graph.input, *graph.output, *graph.value_info)
        return any(value.type.tensor_type.elem_type == element_type for value in values) or any(
            tensor.data_type == element_type for tensor in graph.initializer
        )

    def _bounds(self) -> dict[str, list[tuple[int, int]]]:
        """Smallest and largest size of each dimension over all profiles, by input."""
        bounds = {}
        for index in range(self.network.num_inputs):
            tensor = self.network.get_input(index)
            shapes = [shape for p in self.config.profiles for shape in p.get_shape(tensor.name)] or [tensor.shape]
            bounds[tensor.name] = [(min(sizes), max(sizes)) for sizes in zip(*map(list, shapes), strict=True)]
        return bounds

    def _quantize(self) -> None:
        if quantization.has_qdq(self.model):
            self.model = quantization.fit_weights(self.model)
            return
        if not self.config.get_flag(BuilderFlag.INT8):
            return
        scales = self._scales()
        not_int8 = {name for name, precision in self.asked.items() if precision != DataType.INT8}
        try:
            self.model, missing = quantization.quantize(self.model, scales, not_int8)
        except ValueError as error:
            raise BuildError(str(error)) from error
        for name in missing:
            self.logger.log(
                ILogger.WARNING,
                f"Missing scale and zero-point for tensor {name}, expect fall back to non-int8 implementation for any "
                "layer consuming or producing given tensor",
            )

    def _scales(self) -> dict[str, float]:
        scales: dict[str, float] = {}
        if self.config.int8_calibrator is not None:
            found = calibrated_scales(self.model, self.network, self.config, self.logger)
            if found is None:
                raise BuildError("Calibration failed for the reason given above; no engine is built")
            scales.update(found)
        for tensor in self._tensors():
            if tensor.dynamic_range is not None:
                scales[tensor.name] = max(map(abs, tensor.dynamic_range)) / 127
        if not any(scale > 0 for scale in scales.values()):
            raise BuildError(
                "Calibration failure occurred with no scaling factors detected. This could be due to no int8 "
                "calibrator or insufficient custom scales for network layers: set config.int8_calibrator, or the "
                "tensors' dynamic ranges"
            )
        return scales

    def _tensors(self) -> list:
        tensors = [self.network.get_input(i) for i in range(self.network.num_inputs)]
        return tensors + [layer.get_output(i) for layer in self.network for i in range(layer.num_outputs)]

    def _keep_float(self) -> set[str]:
        """Names under which OpenVINO knows the layers that must stay in FP32, and their weights."""
        layers = {name for name, precision in self.asked.items() if precision == DataType.FLOAT}
        if self.strongly and self.hint != "f32":
            floats = {
                value.name
                for value in (*self.source.graph.value_info, *self.source.graph.output)
                if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
            }
            layers |= {node.name for node in self.source.graph.node if any(name in floats for name in node.output)}
        nodes = [node for node in self.source.graph.node if node.name in layers]
        weights = {tensor.name for tensor in self.source.graph.initializer}
        outputs = {name for node in nodes for name in node.output}
        return layers | outputs | {name for node in nodes for name in node.input if name in weights}

    def _compile(self) -> None:
        keep = self._keep_float()
        half = not self.strongly and any(self.config.get_flag(f) for f in (BuilderFlag.FP16, BuilderFlag.BF16))
        data = self.model.SerializeToString(deterministic=True)
        cache = None if self.config.get_flag(BuilderFlag.DISABLE_TIMING_CACHE) else self.config.get_timing_cache()
        key = hashlib.sha256(data + repr((self.hint, self.bounds, half, sorted(keep))).encode()).hexdigest()
        self.blob = self._from_cache(cache, key)
        if self.blob is None:
            started = time.perf_counter()
            try:
                self.blob = _openvino.compile_model(data, self.hint, self.bounds, half, keep).export()
            except RuntimeError as error:
                raise BuildError(f"Could not build the engine: {error}") from error
            self.logger.log(ILogger.INFO, f"Compiled in {time.perf_counter() - started:.3f} seconds.")
            if cache is not None:
                cache.store(key, self.blob)

    def _from_cache(self, cache: ITimingCache | None, key: str) -> bytes | None:
        blob = cache.find(key) if cache is not None else None
        if blob is not None:
            self.logger.log(ILogger.INFO, "Timing cache hit: the compiled model is taken from the cache.")
        elif self.config.get_flag(BuilderFlag.ERROR_ON_TIMING_CACHE_MISS):
            raise BuildError("Timing cache miss, and ERROR_ON_TIMING_CACHE_MISS is set")
        return blob

    def _serialize(self) -> None:
        self.plan = Plan(
            network=self.network.name,
            hint=self.hint,
            bindings=self._bindings(),
            profiles=self._profiles(),
            blob=self.blob,
            flags=self.config.flags,
            verbosity=self.config.profiling_verbosity.name,
            workspace_bytes=self.config.get_memory_pool_limit(MemoryPoolType.WORKSPACE),
            operators={node.name: node.op_type for node in self.source.graph.node},
            layer_of={name: node.name for node in self.source.graph.node for name in node.output},
            asked={name: precision.name for name, precision in self.asked.items()},
            attributes=layer_attributes(self.source, self.model),
        )

    def _bindings(self) -> list[Binding]:
        inputs = [self.network.get_input(i) for i in range(self.network.num_inputs)]
        bindings = [Binding(t.name, t.dtype.name, list(t.shape), True) for t in inputs]
        shapes = lowering.output_shapes(self.source)
        for index in range(self.network.num_outputs):
            tensor = self.network.get_output(index)
            bindings.append(Binding(tensor.name, tensor.dtype.name, shapes[tensor.name], False))
        return bindings

    def _profiles(self) -> list[dict[str, list[list[int]]]]:
        profiles = []
        for profile in self.config.profiles or [None]:
            shapes = {}
            for index in range(self.network.num_inputs):
                tensor = self.network.get_input(index)
                wanted = profile.get_shape(tensor.name) if profile else []
                shapes[tensor.name] = [list(shape) for shape in wanted] or [list(tensor.shape)] * 3
            profiles.append(shapes)
        return profiles
