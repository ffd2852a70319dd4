"""How a network is built: `IBuilderConfig`, `IOptimizationProfile` and `ITimingCache`."""

import io
from collections.abc import Sequence
from operator import attrgetter

from trtcpu import _openvino
from trtcpu.api.enums import (
    BuilderFlag,
    DeviceType,
    EngineCapability,
    HardwareCompatibilityLevel,
    MemoryPoolType,
    PreviewFeature,
    ProfilingVerbosity,
    QuantizationFlag,
    TacticSource,
)
from trtcpu.api.logger import ILogger
from trtcpu.api.manifest import unsupported
from trtcpu.api.pybind import Declared, Flagged, Overridable, Scoped, keep, to_override
from trtcpu.api.types import Dims
from trtcpu.plan import IHostMemory, seal, unseal

_UNSUPPORTED_FLAGS = frozenset(
    "FP8 INT4 FP4 REFIT REFIT_IDENTICAL REFIT_INDIVIDUAL STRIP_PLAN WEIGHTLESS WEIGHT_STREAMING VERSION_COMPATIBLE "
    "SAFETY_SCOPE".split()
)
_CACHE_MAGIC = b"TRTCPUTC"
_MAX_LEVEL = 5


class IProgressMonitor(Overridable):
    """Base of build progress monitors; `step_complete` returning False cancels the build."""

    __slots__ = ()

    @to_override
    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """Learn that a phase of `num_steps` steps begins."""

    @to_override
    def step_complete(self, phase_name: str, step: int) -> bool:
        """Return whether to go on after a step."""

    @to_override
    def phase_finish(self, phase_name: str) -> None:
        """Learn that a phase is over."""


class IOptimizationProfile(Declared):
    """The smallest, most usual and largest shape of each dynamic input; False once shapes were out of order."""

    __slots__ = ("_broken", "_logger", "_shapes", "extra_memory_target")

    def __init__(self, logger: ILogger) -> None:
        self._logger = logger
        self._shapes: dict[str, tuple[Dims, Dims, Dims]] = {}
        self._broken = False
        self.extra_memory_target = 1.0

    def set_shape(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        """Set an input's shapes; out of order they are logged as an error and the profile becomes invalid."""
        shapes = (Dims(min), Dims(opt), Dims(max))
        ranks = {len(shape) for shape in shapes}
        ordered = len(ranks) == 1 and all(0 <= a <= b <= c for a, b, c in zip(*shapes, strict=True))
        if not ordered:
            self._broken = True
            self._logger.log(
                ILogger.ERROR,
                f"Specified optimization profiles must satisfy MIN<=OPT<=MAX. Found {shapes[0]}, {shapes[1]}, "
                f"{shapes[2]} for input {input!r}.",
            )
            return
        self._shapes[input] = shapes

    def get_shape(self, input: str) -> list[Dims]:
        """Return [min, opt, max], or an empty list for an input that was not set."""
        return [Dims(shape) for shape in self._shapes.get(input, ())]

    def set_shape_input(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        raise unsupported("shape inputs (IOptimizationProfile.set_shape_input)")

    def get_shape_input(self, input: str) -> list[Sequence[int]]:
        return []

    def names(self) -> list[str]:
        """Return the inputs that have shapes (not part of TensorRT's API)."""
        return list(self._shapes)

    def __bool__(self) -> bool:
        return not self._broken


class ITimingCache(Declared):
    """Compiled models by network and configuration, so that a second build takes them instead of compiling again."""

    __slots__ = ("_blobs", "_platform")

    def __init__(self, blobs: dict[str, bytes] | None = None, platform: str | None = None) -> None:
        self._blobs = dict(blobs or {})
        self._platform = platform or _platform()

    def serialize(self) -> IHostMemory:
        """Return the cache as bytes for `IBuilderConfig.create_timing_cache`."""
        index = {"platform": _platform(), "sizes": {key: len(blob) for key, blob in self._blobs.items()}}
        return IHostMemory(seal(_CACHE_MAGIC, index, b"".join(self._blobs.values())))

    def combine(self, input_cache: "ITimingCache", ignore_mismatch: bool) -> bool:
        self._blobs.update(input_cache._blobs)
        return True

    def reset(self) -> bool:
        self._blobs.clear()
        return True

    def find(self, key: str) -> bytes | None:
        """Return the compiled model under `key` (not part of TensorRT's API)."""
        return self._blobs.get(key)

    def store(self, key: str, blob: bytes) -> None:
        """Keep a compiled model (not part of TensorRT's API)."""
        self._blobs[key] = blob

    @staticmethod
    def parse(data: bytes) -> "ITimingCache | None":
        """Return the cache that `serialize` wrote, or None for anything else (not part of TensorRT's API)."""
        try:
            index, stored = unseal(_CACHE_MAGIC, data)
            sizes, reader = index["sizes"], io.BytesIO(stored)
            cache = ITimingCache({key: reader.read(size) for key, size in sizes.items()}, index["platform"])
            fits = [len(blob) for blob in cache._blobs.values()] == [*sizes.values()] and not reader.read()
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
        ):  # not sealed by a cache, or around nonsense
            return None
        return cache if fits and isinstance(cache._platform, str) else None


def _platform() -> str:
    return f"OpenVINO {_openvino.version()} {','.join(_openvino.cpu_capabilities())}"


class IBuilderConfig(Scoped, Flagged):
    """Options of a build.

    Kept and readable, but without effect on a CPU: workspace and other memory pools, tactic sources, averaging and
    optimisation level, auxiliary streams, DLA settings.
    """

    __slots__ = (
        "DLA_core",
        "_calibration_profile",
        "_level",
        "_logger",
        "_pools",
        "_preview",
        "_profiles",
        "_quantization",
        "_tactic_sources",
        "_timing_cache",
        "avg_timing_iterations",
        "calibrator",
        "default_device_type",
        "engine_capability",
        "hardware_compatibility_level",
        "max_aux_streams",
        "plugins_to_serialize",
        "profile_stream",
        "profiling_verbosity",
        "progress_monitor",
    )

    def __init__(self, logger: ILogger) -> None:
        self._logger = logger
        self.flags = 1 << int(BuilderFlag.TF32)
        self._quantization = 0
        self.calibrator: object | None = None
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.progress_monitor: IProgressMonitor | None = None
        keep(
            self,
            avg_timing_iterations=1,
            max_aux_streams=-1,
            default_device_type=DeviceType.GPU,
            engine_capability=EngineCapability.STANDARD,
            hardware_compatibility_level=HardwareCompatibilityLevel.NONE,
            profile_stream=0,
            DLA_core=-1,
            plugins_to_serialize=[],
        )
        self._level = 3
        self._pools: dict[MemoryPoolType, int] = {}
        self._profiles: list[IOptimizationProfile] = []
        self._calibration_profile: IOptimizationProfile | None = None
        self._timing_cache: ITimingCache | None = None
        self._tactic_sources = sum(
            1 << int(s) for s in (TacticSource.EDGE_MASK_CONVOLUTIONS, TacticSource.JIT_CONVOLUTIONS)
        )
        self._preview: dict[PreviewFeature, bool] = {}

    # TensorRT's names, which version 11 lacks, for what is kept here.
    int8_calibrator = property(attrgetter("calibrator"), lambda self, given: setattr(self, "calibrator", given))
    quantization_flags = property(
        attrgetter("_quantization"), lambda self, given: setattr(self, "_quantization", given)
    )

    @property
    def flags(self) -> int:
        """The flags that are set, as a bit mask."""
        return Flagged.flags.__get__(self)

    @flags.setter
    def flags(self, flags: int) -> None:
        for name, flag in BuilderFlag.__members__.items():
            if name in _UNSUPPORTED_FLAGS and int(flags) >> int(flag) & 1:
                raise unsupported(f"BuilderFlag.{name}")
        Flagged.flags.__set__(self, int(flags))

    def set_quantization_flag(self, flag: QuantizationFlag) -> None:
        self._quantization |= 1 << int(flag)

    def clear_quantization_flag(self, flag: QuantizationFlag) -> None:
        self._quantization &= ~(1 << int(flag))

    def get_quantization_flag(self, flag: QuantizationFlag) -> bool:
        return bool(self._quantization >> int(flag) & 1)

    def asks_for(self, *names: str) -> bool:
        """Say whether a flag of these names is set that this version has (not part of TensorRT's API)."""
        known = BuilderFlag.__members__
        return any(self.get_flag(known[name]) for name in names if name in known)

    @property
    def builder_optimization_level(self) -> int:
        return self._level

    @builder_optimization_level.setter
    def builder_optimization_level(self, level: int) -> None:
        if not 0 <= level <= _MAX_LEVEL:
            self._logger.log(
                ILogger.WARNING, f"builder optimization level {level} is not in 0-{_MAX_LEVEL}; nearest taken"
            )
        self._level = max(0, min(_MAX_LEVEL, level))

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        self._pools[pool] = int(pool_size)

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        return self._pools.get(pool, 0)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        """Add a profile; return its index, or -1 for an invalid one."""
        if not profile:
            self._logger.log(ILogger.ERROR, "Optimization profile is not valid: its shapes are out of order.")
            return -1
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    @property
    def profiles(self) -> list[IOptimizationProfile]:
        """The profiles that were added (not part of TensorRT's API)."""
        return self._profiles

    def set_calibration_profile(self, profile: IOptimizationProfile) -> bool:
        if not profile:
            self._logger.log(ILogger.ERROR, "Calibration profile is not valid: its shapes are out of order.")
            return False
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self) -> IOptimizationProfile | None:
        return self._calibration_profile

    def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache | None:
        """Make a cache from bytes; empty bytes, or with a warning bytes that are no cache, make an empty one."""
        data = bytes(serialized_timing_cache)
        if not data:
            return ITimingCache()
        parsed = ITimingCache.parse(data)
        if parsed is None:
            self._logger.log(
                ILogger.WARNING, f"The {len(data)} bytes given are no timing cache; starting with an empty one."
            )
        return parsed or ITimingCache()

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        """Use a cache; one of another platform is refused unless `ignore_mismatch`, which drops its entries."""
        platform = cache._platform
        if platform != _platform():
            if not ignore_mismatch:
                self._logger.log(
                    ILogger.ERROR, f"Timing cache was made by {platform}, this is {_platform()}; not used."
                )
                return False
            self._logger.log(ILogger.WARNING, f"Timing cache was made by {platform}; its entries are dropped.")
            cache.reset()
            cache._platform = _platform()
        self._timing_cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        return self._timing_cache

    def set_tactic_sources(self, tactic_sources: int) -> bool:
        self._tactic_sources = int(tactic_sources)
        return True

    def get_tactic_sources(self) -> int:
        return self._tactic_sources

    def set_preview_feature(self, feature: PreviewFeature, enable: bool) -> None:
        self._preview[feature] = bool(enable)

    def get_preview_feature(self, feature: PreviewFeature) -> bool:
        return self._preview.get(feature, False)

    def set_device_type(self, layer: object, device_type: DeviceType) -> None:
        if device_type != DeviceType.GPU:
            raise unsupported("DLA (IBuilderConfig.set_device_type)")

    def can_run_on_DLA(self, layer: object) -> bool:
        return False

    def reset(self) -> None:
        self.__init__(self._logger)
