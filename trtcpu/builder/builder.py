"""The builder: network and config in, serialized engine out. A build that cannot succeed logs why and returns None."""

import hashlib
import os
import time
from collections.abc import Container

import numpy as np
import onnx

from trtcpu import _openvino
from trtcpu.api.enums import BuilderFlag, DataType, MemoryPoolType
from trtcpu.api.logger import ILogger
from trtcpu.api.pybind import Scoped, keep
from trtcpu.api.types import nptype
from trtcpu.builder import lowering, quantization
from trtcpu.builder.checks import BuildError, check
from trtcpu.builder.config import IBuilderConfig, IOptimizationProfile, ITimingCache
from trtcpu.builder.layer_facts import biased_products, layer_attributes
from trtcpu.builder.network import INetworkDefinition, ITensor, inputs_of, outputs_of
from trtcpu.builder.operators import names_read
from trtcpu.builder.strong_types import beyond_half, float_layers, half_types, without_halves
from trtcpu.calibration.calibrators import algorithm_of
from trtcpu.calibration.probe import runner
from trtcpu.calibration.session import calibrate
from trtcpu.calibration.tensors import calibration_plan
from trtcpu.plan import Binding, IHostMemory, Plan
from trtcpu.runtime.engine import ICudaEngine
from trtcpu.runtime.runtime import Runtime

_RANDOM = frozenset("Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split())
_SHAPED_BY_DATA = frozenset("Compress If Loop NonMaxSuppression NonZero Scan Unique".split())
_POOLS = ("MaxPool", "AveragePool", "LpPool")  # whose sizes OpenVINO may round otherwise
_EXPORT_ERROR = 1e-3
"""How far the plan's outputs may be from the compiled network's, of the largest."""


class Builder(Scoped):
    """Makes networks, configs and profiles, and builds serialized engines."""

    __slots__ = ("error_recorder", "logger", "max_DLA_batch_size", "max_threads", "num_DLA_cores")
    # As on every GPU of TensorRT's: code that asks before it sets the flag must build here what it builds there.
    # What the layers ran in, the inspector says.
    platform_has_fast_fp16 = platform_has_fast_int8 = True
    platform_has_tf32 = False

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"Builder needs a trt.ILogger, found {type(logger).__name__}")
        self.logger = logger
        keep(self, error_recorder=None, max_threads=os.cpu_count() or 1, max_DLA_batch_size=0, num_DLA_cores=0)

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition(int(flags), self.logger)

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self.logger)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile(self.logger)

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> bool:
        try:
            check(network, config)
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

    def build_engine_with_config(self, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine | None:
        plan = self.build_serialized_network(network, config)
        return None if plan is None else Runtime(self.logger).deserialize_cuda_engine(plan)


class _Build:
    """One build, step by step; a progress monitor of the config is told of each step."""

    STEPS = ("lower", "quantize", "compile", "serialize")

    def __init__(self, network: INetworkDefinition, config: IBuilderConfig, logger: ILogger) -> None:
        self.network, self.config, self.logger = network, config, logger
        self.strongly = network.strongly_typed

    def run(self) -> Plan:
        check(self.network, self.config)
        monitor = self.config.progress_monitor
        if monitor is not None:
            monitor.phase_start("Building Engine", None, len(self.STEPS))
        try:
            for index, step in enumerate(self.STEPS):
                try:
                    getattr(self, f"_{step}")()
                except RuntimeError as error:
                    raise BuildError(f"Could not build the engine: {_openvino.reason(error)}") from error
                if monitor is not None and not monitor.step_complete("Building Engine", index):
                    raise BuildError("the build was cancelled by the progress monitor")
        finally:
            if monitor is not None:
                monitor.phase_finish("Building Engine")
        return self.plan

    def _lower(self) -> None:
        self.model = lowering.lowered(self.network)
        self.half = self._half()
        self.hint, self.floats = self._hint(), float_layers(self.model) if self.strongly and self.half else set()
        if half_types(self.model) and (self.half or self.config.asks_for("INT8")):
            self.model = without_halves(self.model)
        self.source, inputs = self.model, inputs_of(self.network)
        read: Container[str] = names_read(self.model.graph)
        if any(len(tensor.shape) < 2 for tensor in inputs):  # OpenVINO leaves out lists that are empty
            read = _openvino.inputs_read(self.model.SerializeToString(), [tensor.name for tensor in inputs])
        self.unused = [tensor.name for tensor in inputs if tensor.name not in read]
        self.shapes = lowering.inferred_shapes(self.source)
        for name in self.unused:
            self.logger.log(
                ILogger.WARNING,
                f"Input Tensor {name} is unused or used only at compile-time, but is not being removed.",
            )
        self.bounds = self._bounds()
        constrained = self.config.asks_for("OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS")
        self.asked = {x.name: x.precision for x in self.network if x.precision_is_set} if constrained else {}
        if constrained:
            for layer in self.network:
                if layer.output_type_is_set(0) and layer.get_output_type(0) == DataType.FLOAT:
                    self.asked.setdefault(layer.name, DataType.FLOAT)

    def _half(self) -> str:
        """Return FP16 or BF16 if layers may run in it, else "": a flag frees all, a type in a typed network its own."""
        if not self.strongly:
            return next((kind for kind in ("FP16", "BF16") if self.config.asks_for(kind)), "")
        types = half_types(self.model)
        if onnx.TensorProto.BFLOAT16 in types:  # beside it FP16 is the type of inputs and outputs
            return "BF16"
        return "FP16" if types else ""

    def _hint(self) -> str:
        """Return the fastest precision here of what layers may run in."""
        precision = _openvino.half_precision(self.half) if self.half else "FP32"
        if self.half and precision == "FP32":
            types = "FP16 or BF16" if self.half == "FP16" else "BF16"
            self.logger.log(ILogger.WARNING, f"this processor has no fast {types} arithmetic: layers compute in FP32")
        return {"FP16": "f16", "BF16": "bf16", "FP32": "f32"}[precision]

    def _bounds(self) -> dict[str, list[tuple[int, int]]]:
        """Smallest and largest size of each dimension over all profiles, by input that something reads."""
        bounds = {}
        for tensor in inputs_of(self.network):
            if tensor.name in self.unused:
                continue
            shapes = [shape for p in self.config.profiles for shape in p.get_shape(tensor.name)] or [tensor.shape]
            bounds[tensor.name] = [(min(sizes), max(sizes)) for sizes in zip(*map(list, shapes), strict=True)]
        return bounds

    def _quantize(self) -> None:
        if quantization.has_qdq(self.model):
            self.model = quantization.fit_weights(self.model)
            if self.config.calibrator is not None:
                self.logger.log(ILogger.WARNING, "Calibrator won't be used: the model's Q/DQ nodes give the scales")
            return
        if not self.config.asks_for("INT8"):
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
        if self.config.calibrator is not None:
            scales.update(self._calibrated())
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

    def _calibrated(self) -> dict[str, float]:
        """Scales from the calibrator; batches have the OPT shapes of the calibration profile, else of the first."""
        calibrator = self.config.calibrator
        plan = calibration_plan(self.model, algorithm_of(calibrator))
        profile = self.config.get_calibration_profile() or next(iter(self.config.profiles), None)
        inputs = {}
        for tensor in inputs_of(self.network):
            shapes = profile.get_shape(tensor.name) if profile else []
            inputs[tensor.name] = tuple(shapes[1] if shapes else tensor.shape), nptype(tensor.dtype)
        scales = calibrate(calibrator, plan, inputs, runner(self.model, plan), self.logger)
        if scales is None:
            raise BuildError("Calibration failed for the reason given above; no engine is built")
        return scales

    def _tensors(self) -> list[ITensor]:
        return inputs_of(self.network) + [
            layer.get_output(i) for layer in self.network for i in range(layer.num_outputs)
        ]

    def _keep_float(self) -> set[str]:
        """Names under which OpenVINO knows the layers that must stay in FP32, and their weights."""
        layers = {name for name, precision in self.asked.items() if precision == DataType.FLOAT} | self.floats
        nodes = [node for node in self.source.graph.node if node.name in layers]
        weights = {tensor.name for tensor in self.source.graph.initializer}
        outputs = {name for node in nodes for name in node.output}
        return layers | outputs | {name for node in nodes for name in node.input if name in weights}

    def _beyond_half(self) -> set[str]:
        """Return the weights of a BF16 build that OpenVINO, which stores FP16, must leave in FP32."""
        return beyond_half(self.source) if self.half == "BF16" else set()

    def _stored_half(self) -> tuple[str, set[str]]:
        """Return the type of weights in half precision, the model's or OpenVINO's, and what does not have it."""
        if self.half == "BF16" and self.strongly:
            return "BFloat16", self._keep_float()
        return "Half" if self.half else "Float", self._keep_float() | self._beyond_half()

    def _compile(self) -> None:
        keep = self._keep_float() | self._beyond_half()
        data = self.model.SerializeToString(deterministic=True)
        cache = None if self.config.get_flag(BuilderFlag.DISABLE_TIMING_CACHE) else self.config.get_timing_cache()
        key = hashlib.sha256(data + repr((self.hint, self.bounds, self.half, sorted(keep))).encode()).hexdigest()
        self.blob = self._from_cache(cache, key)
        if self.blob is None:
            started = time.perf_counter()
            pools = {name for node in self.source.graph.node if node.op_type in _POOLS for name in node.output}
            known = {name: shape for name, shape in self.shapes.items() if name in pools}
            compiled = _openvino.compile_model(data, self.hint, self.bounds, bool(self.half), keep, known)
            self.blob = compiled.export()
            self._check_export(compiled)
            self.logger.log(ILogger.INFO, f"Compiled in {time.perf_counter() - started:.3f} seconds.")
            if cache is not None:
                cache.store(key, self.blob)

    def _check_export(self, compiled: _openvino.Compiled) -> None:
        """Compare the plan, loaded again, with what was compiled: OpenVINO writes some operators wrongly."""
        loaded = _openvino.import_model(self.blob, self.hint)
        if {port.name for port in loaded.ports if port.is_input} != self.bounds.keys():
            raise BuildError("an input is an output too once OpenVINO has simplified the network")
        if any(node.op_type in _RANDOM for node in self.model.graph.node):
            return
        try:
            pairs = zip(compiled.sample(), loaded.sample(), strict=True)
        except RuntimeError:  # whether it runs depends on the values, which a caller knows
            return
        for made, read in pairs:
            most = _EXPORT_ERROR * np.abs(made[np.isfinite(made)], dtype=np.float32).max(initial=0)
            if not np.allclose(made, read, rtol=0, atol=most, equal_nan=made.dtype.kind == "f"):
                raise BuildError(
                    "the plan, loaded again, computes something else than the network that was compiled: OpenVINO "
                    f"{_openvino.version()} writes one of its operators wrongly"
                )

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
            products=biased_products(self.source),
            asked={name: precision.name for name, precision in self.asked.items()},
            attributes=layer_attributes(self.source, self.model, *self._stored_half()),
            unused=self.unused,
            **self._by_values(),
        )

    def _by_values(self) -> dict[str, list[str]]:
        """Return the outputs whose shapes only a run tells, or the inputs whose values tell them before."""
        shapes = [self.shapes[tensor.name] for tensor in outputs_of(self.network)]
        if all(shape and -1 not in shape for shape in shapes):
            return {}
        outputs = _openvino.shaped_by_values(self.source.SerializeToString(), self.bounds)
        lists = [x.name for x in inputs_of(self.network) if x.name in self.bounds and len(x.shape) <= 1]
        by_data = any(node.op_type in _SHAPED_BY_DATA for node in lowering.all_nodes(self.source))
        return {"by_values": outputs, "shape_inputs": lists if outputs and not by_data else []}

    def _bindings(self) -> list[Binding]:
        inputs = [Binding(t.name, t.dtype.name, list(t.shape), True) for t in inputs_of(self.network)]
        return inputs + [Binding(t.name, t.dtype.name, self.shapes[t.name], False) for t in outputs_of(self.network)]

    def _profiles(self) -> list[dict[str, list[list[int]]]]:
        profiles = []
        for profile in self.config.profiles or [None]:
            shapes = {}
            for tensor in inputs_of(self.network):
                wanted = profile.get_shape(tensor.name) if profile else []
                shapes[tensor.name] = [list(shape) for shape in wanted] or [list(tensor.shape)] * 3
            profiles.append(shapes)
        return profiles
