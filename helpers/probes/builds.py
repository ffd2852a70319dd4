"""Watches what a student's builder asks TensorRT for, and reads back what a finished plan holds."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from helpers.backend import trt
from helpers.layers import count_precisions, engine_layers

__all__ = ["Build", "plan_facts", "recorded_builds"]

_FLAGS = ("FP16", "INT8", "BF16", "TF32")
_BUILDS = ("build_serialized_network", "build_engine")


@dataclass
class Build:
    """One call of a builder: the workspace limit in bytes, the precision flags, the calibrator's class and profiles."""

    workspace_bytes: int
    flags: dict[str, bool] = field(default_factory=dict)
    calibrator: str | None = None
    profiles: int = 0


@contextlib.contextmanager
def recorded_builds(*, failing: bool = False) -> Iterator[list[Build]]:
    """Give a list that each build inside the block adds to. Plans are built with detailed layer information.

    `failing` builds answer None, as TensorRT does where no kernel fits.

    Detailed verbosity is what lets the inspector say which precision a layer runs in. Optimization level 0 takes the
    first kernel that works: a check answers in seconds, and on so small a network timing would decide by chance which
    precision wins (TensorRT 8.6 on an H200: 3 s and INT8 layers; at its default level 18 s and none).
    """
    builds: list[Build] = []
    originals = {name: getattr(trt.Builder, name) for name in _BUILDS if hasattr(trt.Builder, name)}

    def recording(original: Any) -> Any:
        def build(builder: Any, network: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
            config.builder_optimization_level = 0
            builds.append(_facts(config))
            return None if failing else original(builder, network, config, *args, **kwargs)

        return build

    try:
        for name, original in originals.items():
            setattr(trt.Builder, name, recording(original))
        yield builds
    finally:
        for name, original in originals.items():
            setattr(trt.Builder, name, original)


def _facts(config: Any) -> Build:
    flags = {name: config.get_flag(getattr(trt.BuilderFlag, name)) for name in _FLAGS if hasattr(trt.BuilderFlag, name)}
    calibrator = getattr(config, "int8_calibrator", None)
    return Build(
        workspace_bytes=int(config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE)),
        flags=flags,
        calibrator=type(calibrator).__name__ if calibrator is not None else None,
        profiles=int(config.num_optimization_profiles),
    )


def plan_facts(plan: bytes) -> dict[str, Any] | None:
    """Return what a serialized engine says of itself, as plain data; None where it is no engine of this TensorRT.

    Keys: `inputs` and `outputs` (name → {"shape", "dtype"}), `profiles` (a list of {input: [min, opt, max] shapes}),
    `layers` (the number of layers) and `precisions` (precision → number of layers, where the plan has that detail).
    """
    engine = trt.Runtime(trt.Logger(trt.Logger.INTERNAL_ERROR)).deserialize_cuda_engine(plan)
    if engine is None:
        return None
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    layers = engine_layers(engine)
    return {
        "inputs": {name: _tensor(engine, name) for name in inputs},
        "outputs": {name: _tensor(engine, name) for name in names if name not in inputs},
        "profiles": [
            {name: [list(shape) for shape in engine.get_tensor_profile_shape(name, index)] for name in inputs}
            for index in range(engine.num_optimization_profiles)
        ],
        "layers": len(layers),
        "precisions": count_precisions(layers),
    }


def _tensor(engine: Any, name: str) -> dict[str, Any]:
    return {
        "shape": [int(dim) for dim in engine.get_tensor_shape(name)],
        "dtype": str(engine.get_tensor_dtype(name)).rpartition(".")[2],
    }
