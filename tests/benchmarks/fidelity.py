"""How many of an engine's calibration scales equal those that real TensorRT wrote for the same network and images.

tests/fixtures/fidelity_lab holds what TensorRT 8.6.0 wrote on an NVIDIA H200 for the lab's own ResNet-50 and 64 of its
calibration images: the caches of three calibrators (batches of 8, in order), the logits of its INT8 engines and
PyTorch's. Images are rendered and weights shipped: no more is stored. `scales_equal` takes any other recording just as
well.
"""

import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from helpers.engine.backend import cuda, trt
from trtcpu.calibration_cache import parse_cache

RECORDING = Path(__file__).resolve().parents[1] / "fixtures" / "fidelity_lab"
CACHE_FILES = {"minmax": "minmax.cache", "entropy": "entropy1.cache", "entropy2": "entropy2.cache"}
BASES = {
    "minmax": "IInt8MinMaxCalibrator",
    "entropy": "IInt8EntropyCalibrator",
    "entropy2": "IInt8EntropyCalibrator2",
    "legacy": "IInt8LegacyCalibrator",
}
TOLERANCE = 1e-4
# How many scales may differ, all of them near ties. First: TensorRT's two entropy calibrators contradict
# each other in layer2.1's first ReLU. The others: float32 rounding decides, and differs between processors.
NEAR_TIES = {"minmax": 0, "entropy": 3, "entropy2": 3}
IMAGES = 64


@dataclasses.dataclass(frozen=True)
class Equality:
    """`share` of a cache's `tensors` whose scale is the engine's; `different` gives the others' ratio − 1."""

    share: float
    tensors: int
    different: dict[str, float]


@functools.cache
def recorded_network() -> bytes:
    """Return the lab's ResNet-50 as ONNX with a dynamic batch, at opset 17."""
    from helpers.data.models import load_model
    from trtlab.models.export import export_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "resnet50.onnx")
        export_onnx(load_model("resnet50"), path, opset=17, dynamic_batch=True, input_size=224, simplify=False)
        return path.read_bytes()


@functools.cache
def recorded_images() -> np.ndarray:
    """Return the recorded calibration images, preprocessed: float32 [64, 3, 224, 224]."""
    from helpers.data.datasets import load_dataset
    from trtlab.images.preprocessing import load_batch

    return load_batch([path for path, _ in load_dataset("digits", progress=False).images("calibration", IMAGES)])


def weights_sha256() -> str:
    """Return the SHA-256 of the weights in `recorded_network`, which a recording must name."""
    from helpers.data.models import WEIGHTS
    from helpers.tools.files import sha256

    return sha256(WEIGHTS / "resnet50.npz")


def pytorch_logits(images: np.ndarray) -> np.ndarray:
    """Return PyTorch's FP32 logits on the processor: [N, 10]."""
    import torch

    from helpers.data.models import load_model

    with torch.inference_mode():
        return load_model("resnet50")(torch.from_numpy(images)).numpy()


def logits(plan: Any, images: np.ndarray, batch: int) -> np.ndarray:
    """Return a serialized engine's logits on `images`: [N, 10]."""
    from trtlab.engines.inference import InferenceEngine

    with InferenceEngine(bytes(plan)) as engine:
        return np.concatenate([engine.infer(images[i : i + batch]) for i in range(0, len(images), batch)])


def without_long_builds(level: int) -> Any:
    """Return a context in which builds use this optimisation level; scales don't depend on it, build time does."""
    original = trt.Builder.create_builder_config

    def create(builder: Any) -> Any:
        config = original(builder)
        config.builder_optimization_level = level
        return config

    return mock.patch.object(trt.Builder, "create_builder_config", create)


def make_calibrator(kind: str, images: np.ndarray, batch: int, cache: bytes | None = None) -> Any:
    """Return a calibrator of `kind` over `images` [N, C, H, W] in order; its `written` is the cache in the end."""
    base = getattr(trt, BASES[kind])

    class Calibrator(base):
        def __init__(self) -> None:
            base.__init__(self)
            self.written: bytes | None = None
            self._device = cuda.mem_alloc(images[:batch].nbytes)
            self._batches = (images[i : i + batch] for i in range(0, len(images) - batch + 1, batch))

        def get_batch_size(self) -> int:
            return batch

        def get_batch(self, names: list[str]) -> list[int] | None:
            values = next(self._batches, None)
            if values is None:
                return None
            cuda.memcpy_htod(self._device, np.ascontiguousarray(values))
            return [int(self._device)]

        def read_calibration_cache(self) -> bytes | None:
            return cache

        def write_calibration_cache(self, data: memoryview) -> None:
            self.written = bytes(data)

    return Calibrator()


def calibrated_engine(network: bytes, calibrator: Any, shape: tuple[int, ...]) -> Any:
    """Return the serialized INT8 + FP16 engine of an ONNX network, calibrated at `shape`, for batch 1 to shape[0]."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    parsed = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(parsed, logger)
    if not parser.parse(network):
        raise ValueError(parser.get_error(0).desc())
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.set_flag(trt.BuilderFlag.FP16)
    profile = builder.create_optimization_profile()
    profile.set_shape(parsed.get_input(0).name, (1, *shape[1:]), shape, shape)
    config.add_optimization_profile(profile)
    config.int8_calibrator = calibrator
    return builder.build_serialized_network(parsed, config)


def compare(ours: dict[str, float], recorded: dict[str, float], tolerance: float = TOLERANCE) -> Equality:
    """Return how many of the recorded scales are within a relative `tolerance` of ours; a missing one differs."""
    ratios = {name: ours.get(name, np.nan) / scale - 1 for name, scale in recorded.items()}
    different = {name: ratio for name, ratio in ratios.items() if not abs(ratio) <= tolerance}
    return Equality(1 - len(different) / len(recorded), len(recorded), different)


def scales_equal(network: bytes, images: np.ndarray, caches: Path, batch: int = 8) -> dict[str, Equality]:
    """Calibrate `network` (ONNX) with `images` [N, C, H, W] and compare with each recorded cache in the folder
    `caches`.

    Returns:
        The equality by calibrator: `minmax`, `entropy`, `entropy2`, those that are recorded.
    """
    found = {}
    for kind, file in CACHE_FILES.items():
        if (caches / file).exists():
            calibrator = make_calibrator(kind, images, batch)
            calibrated_engine(network, calibrator, (batch, *images.shape[1:]))
            found[kind] = compare(
                parse_cache(calibrator.written).scales, parse_cache((caches / file).read_bytes()).scales
            )
    return found
