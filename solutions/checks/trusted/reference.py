"""The reference artifacts: what the pipeline makes of the lab's model on this machine, built once and kept.

They stand in for a step that a submission missed, and the submission's engines are timed against them.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from helpers.backend import DEVICE
from helpers.data import load_dataset
from helpers.files import atomic_write
from helpers.lab import CALIBRATION_IMAGES, MODEL, PROFILE_BATCHES, VALIDATION_IMAGES
from helpers.models import load_model
from solutions.checks.trusted import reference_accuracy
from solutions.checks.trusted.reference_images import IMAGE_ARTIFACTS, write_image_artifact
from solutions.checks.trusted.reference_measurements import MEASURED_ENGINES, write_measurements
from solutions.checks.trusted.solution_cells import solution_cell
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions
from solutions.pipeline.calibration_data import write_calibration_tensor
from solutions.pipeline.export import export_onnx, simplify_onnx

__all__ = ["OPSET", "Reference", "reference"]

FOLDER_VARIABLE = "TRT_LAB_REFERENCE"
OPSET = 18

_FP16_BATCHES = (1, 8, 8)
_ENGINES = {
    "resnet50_fp32.engine": ("fp32", PROFILE_BATCHES),
    "resnet50_fp16.engine": ("fp16", _FP16_BATCHES),
    "resnet50_dynamic_fp16.engine": ("fp16", PROFILE_BATCHES),
    "resnet50_int8.engine": ("int8", PROFILE_BATCHES),
}


@dataclass(frozen=True)
class Reference:
    """A folder of reference artifacts, named as the lab names them; each is made when it is first asked for."""

    folder: Path

    def path(self, name: str) -> Path:
        """Return the artifact's path, building it and what it needs first. Safe beside other processes."""
        target = self.folder / name
        if not target.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not target.is_file():
                    self._make(name)
        return target

    def bytes(self, name: str) -> bytes:
        """Return the artifact's content."""
        return self.path(name).read_bytes()

    def _make(self, name: str) -> None:
        target = self.folder / name
        if name == "resnet50.onnx":
            export_onnx(load_model(MODEL), target, opset=OPSET)
        elif name == "resnet50_simplified.onnx":
            self._need("resnet50.onnx")
            simplify_onnx(self.folder / "resnet50.onnx", target)
        elif name == "calibration.npy":
            images = [path for path, _ in load_dataset("digits").images("calibration", limit=CALIBRATION_IMAGES)]
            for _ in write_calibration_tensor(images, target):
                pass
        elif name == "resnet50_calib.cache":
            self._make("resnet50_int8.engine")
        elif name in ("latency.json", "throughput.json"):
            for engine in MEASURED_ENGINES.values():
                self._need(engine)
            write_measurements(self.folder)
        elif name in IMAGE_ARTIFACTS:
            self._need("resnet50.onnx")
            write_image_artifact(name, self.folder)
        elif name == reference_accuracy.PYTORCH_SCORES:
            reference_accuracy.make_pytorch_scores(self.folder)
        elif name == "accuracy.json":
            for part in (*reference_accuracy.ENGINES.values(), reference_accuracy.PYTORCH_SCORES):
                self._need(part)
            reference_accuracy.make_accuracy(self, target)
        elif name == "inference.py":
            atomic_write(target, solution_cell("05_inference", "tensorrt_inference"))
        elif name in _ENGINES:
            self._build(name)
        else:
            raise ValueError(f"there is no reference {name}")

    def _build(self, name: str) -> None:
        precision, (least, best, most) = _ENGINES[name]
        self._need("resnet50_simplified.onnx")
        options = {"min_batch": least, "opt_batch": best, "max_batch": most}
        if precision.startswith("int8"):
            self._need("calibration.npy")
            options["calib_npy"] = self.folder / "calibration.npy"
            options["calib_cache"] = self.folder / "resnet50_calib.cache"
        source = self.folder / "resnet50_simplified.onnx"
        build_engine(source, self.folder / name, BuildOptions(precision=precision, **options))

    def _need(self, name: str) -> None:
        if not (self.folder / name).is_file():
            self._make(name)


def reference() -> Reference:
    """Return this machine's reference for the engine and model chosen: in $TRT_LAB_REFERENCE or results/reference."""
    root = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[2] / "results" / "reference")
    kept = "".join(letter if letter.isalnum() else "-" for letter in DEVICE)
    return Reference(root / kept / f"{MODEL}-{CALIBRATION_IMAGES}-{VALIDATION_IMAGES}")
