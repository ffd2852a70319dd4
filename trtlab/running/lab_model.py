"""What `trtlab run --model M --data D` is of: a model that the lab has weights for, on a labelled data set."""

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from helpers.course.settings import BASELINE
from helpers.data import digits, models
from helpers.data.datasets import DataSet, load_dataset
from helpers.engine.backend import ENGINE
from helpers.tools.files import sha256, write_json
from trtlab.images.preprocessing_record import encoded, published
from trtlab.models.export import export_onnx
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.timing.runners import RunnerSpec

Report = Callable[[str], None]
Predict = Callable[[np.ndarray], np.ndarray]

OPSET = 17


class LabModel:
    """A PyTorch model and its data; both are loaded once, when a stage first needs them."""

    preparation, note = "Prepare images and weights", ""
    labelled = True

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.preprocessing = published(options.model, options.data, options.input_size, options.input_size)
        self.preprocessed = self.preprocessing.described()

    def prepare(self) -> None:
        """Render or download images and weights, with their own progress bars; what is there already costs nothing.

        Raises:
            InputError: the model has no weights for this data.
            DataError: images or weights cannot be made or downloaded.
        """
        models.check_model(self.options.model, self.options.data)
        self.data.images("calibration", limit=self.options.calibration_images)
        self.data.images("validation", limit=self.options.accuracy_images)
        if self.options.data != "digits":
            _ = self.model

    @functools.cached_property
    def data(self) -> DataSet:
        """The data set; rendered or downloaded when it is first used."""
        return load_dataset(self.options.data)

    @functools.cached_property
    def model(self) -> torch.nn.Module:
        """The PyTorch model on the CPU."""
        return models.load_model(self.options.model, data=self.options.data)

    @functools.cached_property
    def origin(self) -> dict[str, str]:
        """What every stage depends on: the model with its weights, and the data with its renderer's version."""
        weights = models.WEIGHTS / f"{self.options.model}.npz"
        ours = self.options.data == "digits"
        return {
            "model": self.options.model,
            "weights": sha256(weights) if ours and weights.is_file() else "torchvision",
            "data": self.options.data,
            "renderer": str(digits.VERSION) if ours else "none",
        }

    def is_built(self, spec: EngineSpec) -> bool:
        """Say whether a run builds this engine: every one."""
        return True

    def export(self, path: Path, record: Path, report: Report) -> None:
        """Export the model to ONNX at `path`, compared with PyTorch; its JSON `record` lies beside it."""
        report("loading the model")
        model = self.model
        report("tracing, then comparing ONNX Runtime with PyTorch")
        about = {"model": self.options.model, "data": self.options.data, "classes": json.dumps(self.data.classes)}
        about |= encoded(self.preprocessing)
        exported = export_onnx(model, path, opset=OPSET, input_size=self.options.input_size, metadata=about)
        write_json(record, {**vars(exported), "path": f"{path.parent.name}/{path.name}"})

    def predictor(self, device: str) -> Predict:
        """Return a function from images [N, 3, S, S] to scores [N, C], both float32 NumPy arrays."""
        model = self.model.to(device)

        def predict(images: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return model(torch.from_numpy(images).to(device)).float().cpu().numpy()

        return predict

    def baseline(self, onnx: Path) -> tuple[str, Predict]:
        """Return what the engines' accuracy is compared with, by its row's name."""
        return BASELINE, self.predictor("cuda" if ENGINE == "tensorrt" else "cpu")

    def runners(self, onnx: Path) -> list[RunnerSpec]:
        """Return what is timed beside the engines; a quick run does not wait for torch.compile."""
        shape = (3, self.options.input_size, self.options.input_size)
        kinds = ["pytorch", "pytorch-fp16", *([] if self.options.quick else ["torch-compile"])]
        told = {"data": self.options.data, "sample_shape": shape}
        models = [RunnerSpec(kind, self.options.model, **told) for kind in kinds]
        return [*models, RunnerSpec("onnxruntime", str(onnx))]
