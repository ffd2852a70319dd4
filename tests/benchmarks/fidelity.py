"""How many of an engine's calibration scales equal those that real TensorRT wrote for the same network and images.

tests/fixtures/fidelity holds what TensorRT 8.6.0 wrote on an NVIDIA H200: the caches of three calibrators over 64
images in batches of 8, for a ResNet-50 with 10 classes and 10 % of its convolution weights, and the logits of the
INT8 engines. tests/fixtures/fidelity_lab holds the same of the lab's own ResNet-50 and images. `scales_equal` takes
any other recording just as well.
"""

import dataclasses
import functools
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import cuda, trt
from helpers.calibration_cache import parse_cache
from tests.benchmarks import lab_recording

__all__ = [
    "CACHE_FILES",
    "RECORDING",
    "RECORDINGS",
    "Equality",
    "Recording",
    "calibrated_engine",
    "make_calibrator",
    "recorded_images",
    "recorded_network",
    "scales_equal",
]

RECORDING = Path(__file__).resolve().parents[1] / "fixtures" / "fidelity"
CACHE_FILES = {"minmax": "minmax.cache", "entropy": "entropy1.cache", "entropy2": "entropy2.cache"}
BASES = {
    "minmax": "IInt8MinMaxCalibrator",
    "entropy": "IInt8EntropyCalibrator",
    "entropy2": "IInt8EntropyCalibrator2",
    "legacy": "IInt8LegacyCalibrator",
}
TOLERANCE = 1e-4
_KEPT_WEIGHTS = 0.1


@dataclasses.dataclass(frozen=True)
class Equality:
    """`share` of a cache's `tensors` whose scale is the engine's; `different` gives the others' ratio − 1."""

    share: float
    tensors: int
    different: dict[str, float]


@functools.cache
def recorded_network() -> bytes:
    """Return the recorded ResNet-50 as ONNX, exported as for the recording: opset 17, TorchScript, dynamic batch."""
    import torch
    import torchvision

    model = torchvision.models.resnet50(weights=None, num_classes=10)
    _load_sparse(model, torch.load(RECORDING / "resnet50_10pct.pt", map_location="cpu", weights_only=True))
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            (torch.zeros(1, 3, 224, 224),),
            file,
            opset_version=17,
            dynamo=False,
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
        )
    return file.getvalue()


def _load_sparse(model: Any, checkpoint: dict[str, dict[str, Any]]) -> None:
    """Put the kept weights where a seeded draw in module order says; the first convolution keeps all of its weights."""
    import torch

    draw = np.random.RandomState(0)
    state = {name: tensor.float() for name, tensor in checkpoint["oth"].items()}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Conv2d):
            shape = tuple(module.weight.shape)
            kept = torch.from_numpy(draw.random_sample(shape) < (1.0 if name == "conv1" else _KEPT_WEIGHTS))
            weight = torch.zeros(shape)
            weight[kept] = checkpoint["nz"][name].float()
            state[f"{name}.weight"] = weight
    model.load_state_dict(state)


@functools.cache
def recorded_images() -> np.ndarray:
    """Return the 64 recorded images, normalised with ImageNet's mean and deviation: float32 [64, 3, 224, 224]."""
    from PIL import Image

    sheets = [np.asarray(Image.open(path)) for path in sorted((RECORDING / "images").glob("*.webp"))]
    tiles = [sheet.reshape(8, 224, 4, 224, 3).transpose(0, 2, 4, 1, 3).reshape(32, 3, 224, 224) for sheet in sheets]
    mean = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
    deviation = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
    return np.ascontiguousarray((np.concatenate(tiles).astype(np.float32) / np.float32(255) - mean) / deviation)


@dataclasses.dataclass(frozen=True)
class Recording:
    """The `folder` with what TensorRT wrote for the ONNX file `network()` and `images()` [64, 3, 224, 224]."""

    folder: Path
    network: Callable[[], bytes]
    images: Callable[[], np.ndarray]


RECORDINGS = {
    "fidelity": Recording(RECORDING, recorded_network, recorded_images),
    "fidelity_lab": Recording(lab_recording.LAB_RECORDING, lab_recording.lab_network, lab_recording.lab_images),
}


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
            ours, recorded = parse_cache(calibrator.written), parse_cache((caches / file).read_bytes())
            found[kind] = compare(ours.scales, recorded.scales)
    return found
