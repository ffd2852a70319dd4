"""Calibration's speed, memory and fidelity: against FP32 inference, onnxruntime.quantization and recorded TensorRT
caches.

`python -m tests.benchmarks.bench_calibration` prints `measure()` as JSON. Each method runs in a process of its own,
so that its peak memory is its own.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import fidelity

BATCH = 8
# Starting takes us 0.8 s: of 128 images that is a sixth, of 384 a thirteenth.
ENTROPY_IMAGES = 384
ROUNDS = 2
ONNXRUNTIME_IMAGES_A_CALL = 16  # its calibrator keeps all activations of one call, 92 MB an image, in memory
INFERENCE_IMAGES = 512


def measure(inference_images: int = INFERENCE_IMAGES, entropy_images: int = ENTROPY_IMAGES) -> dict[str, Any]:
    """Return the ratios for bench.json, with the figures that they come from; takes about four minutes.

    `calibration_speedup`: onnxruntime's entropy calibrator's time over ours, same images, from the ONNX file to the
    scales; each one's shortest of two runs in turns, as what else the machine does only ever makes them longer.
    `calibration_over_inference`: entropy calibration's time over the FP32 inference of the same images.
    `scales`: by calibrator, how many of the tensors have real TensorRT's scale within 1e-4, and the others' ratio − 1.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "images.npy", fidelity.recorded_images())
        (folder / "network.onnx").write_bytes(fidelity.recorded_network())
        paired = _in_process("inference", inference_images, folder)
        runs: dict[str, list[dict[str, float]]] = {"ours": [], "onnxruntime": []}
        for task in list(runs) * ROUNDS:
            runs[task].append(_in_process(task, entropy_images, folder))
    seconds = {task: [run["seconds"] for run in found] for task, found in runs.items()}
    peaks = {task: max(run["peak_bytes"] for run in found) for task, found in runs.items()}
    return {
        "calibration_speedup": min(seconds["onnxruntime"]) / min(seconds["ours"]),
        "calibration_over_inference": paired["calibration_seconds"] / paired["inference_seconds"],
        **_fidelity(),
        "calibration": {
            "entropy_images": entropy_images,
            "entropy_seconds": min(seconds["ours"]),
            "entropy_seconds_of_runs": seconds["ours"],
            "entropy_peak_bytes": peaks["ours"],
            "onnxruntime_seconds": min(seconds["onnxruntime"]),
            "onnxruntime_seconds_of_runs": seconds["onnxruntime"],
            "onnxruntime_peak_bytes": peaks["onnxruntime"],
            **paired,
        },
    }


def _fidelity() -> dict[str, Any]:
    """Calibrate as the recording was and compare."""
    found = fidelity.scales_equal(fidelity.recorded_network(), fidelity.recorded_images(), fidelity.RECORDING, BATCH)
    return {
        "scales": {
            kind: {"equal": equal.tensors - len(equal.different), "of": equal.tensors, "different": equal.different}
            for kind, equal in found.items()
        },
    }


def _in_process(task: str, images: int, folder: Path) -> dict[str, float]:
    """Run one of the tasks below in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "tests.benchmarks.bench_calibration", task, str(images), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise RuntimeError(f"{' '.join(command[1:])} ended with {done.returncode}: {said}")
    return json.loads(done.stdout.splitlines()[-1])


def _images(count: int, folder: Path) -> np.ndarray:
    """Return the recorded images over and over: float32 [count, 3, 224, 224]."""
    recorded = np.load(folder / "images.npy", mmap_mode="r")
    return recorded[np.arange(count) % len(recorded)]


def _peak_bytes() -> int:
    """Return this process's own peak; getrusage's begins with that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _calibrate(images: np.ndarray, folder: Path) -> tuple[float, int]:
    """Calibrate with IInt8EntropyCalibrator2.

    Returns:
        The seconds from the first call of the calibrator to its last, and the process's peak bytes then.
    """
    calibrator = fidelity.make_calibrator("entropy2", images, BATCH)
    marks: list[tuple[float, int]] = []
    for name in ("get_batch_size", "write_calibration_cache"):
        setattr(calibrator, name, _marked(getattr(calibrator, name), marks))
    fidelity.calibrated_engine((folder / "network.onnx").read_bytes(), calibrator, (BATCH, *images.shape[1:]))
    return marks[-1][0] - marks[0][0], marks[-1][1]


def _marked(method: Any, marks: list[tuple[float, int]]) -> Any:
    def call(*arguments: Any) -> Any:
        marks.append((time.perf_counter(), _peak_bytes()))
        return method(*arguments)

    return call


def _task_ours(count: int, folder: Path) -> dict[str, float]:
    """Entropy calibration on the CPU engine, compilation for calibration and of its loops included."""
    seconds, peak = _calibrate(_images(count, folder), folder)
    return {"seconds": seconds, "peak_bytes": peak}


def _task_inference(count: int, folder: Path) -> dict[str, float]:
    """FP32 inference of the images before and after their calibration, so that the machine's drift cancels."""
    images = _images(count, folder)
    infer = _fp32_inference(folder)
    infer(images[: 4 * BATCH])
    before = infer(images[: count // 2])
    calibration, _ = _calibrate(images, folder)
    return {
        "inference_images": count,
        "inference_seconds": before + infer(images[count // 2 :]),
        "calibration_seconds": calibration,
    }


def _fp32_inference(folder: Path) -> Any:
    """Return a function that infers images in FP32 in batches through the API and returns the seconds it took."""
    from helpers.engine.backend import trt
    from trtlab.engines.inference import InferenceEngine

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    trt.OnnxParser(network, logger).parse((folder / "network.onnx").read_bytes())
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    shape = (3, 224, 224)
    profile.set_shape("input", (1, *shape), (BATCH, *shape), (BATCH, *shape))
    config.add_optimization_profile(profile)
    engine = InferenceEngine(bytes(builder.build_serialized_network(network, config)))

    def infer(images: np.ndarray) -> float:
        started = time.perf_counter()
        for first in range(0, len(images), BATCH):
            engine.infer(images[first : first + BATCH])
        return time.perf_counter() - started

    return infer


def _task_onnxruntime(count: int, folder: Path) -> dict[str, float]:
    """onnxruntime.quantization's entropy calibrator with its defaults, fed in calls of a few images."""
    from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator

    class Reader(CalibrationDataReader):
        def __init__(self, images: np.ndarray) -> None:
            self._batches = (images[i : i + BATCH] for i in range(0, len(images), BATCH))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self._batches, None)
            return None if batch is None else {"input": batch}

    images = _images(count, folder)
    parts = [images[i : i + ONNXRUNTIME_IMAGES_A_CALL] for i in range(0, count, ONNXRUNTIME_IMAGES_A_CALL)]
    started = time.perf_counter()
    calibrator = create_calibrator(
        folder / "network.onnx", None, str(folder / "augmented.onnx"), calibrate_method=CalibrationMethod.Entropy
    )
    for part in parts:
        calibrator.collect_data(Reader(part))
    calibrator.compute_data()
    return {"seconds": time.perf_counter() - started, "peak_bytes": _peak_bytes()}


TASKS = {"inference": _task_inference, "ours": _task_ours, "onnxruntime": _task_onnxruntime}

if __name__ == "__main__":
    found = TASKS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3])) if len(sys.argv) > 3 else measure()
    print(json.dumps(found))
