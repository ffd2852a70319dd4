"""The stages of `trtlab run --onnx M --data DATASET`: somebody else's classifier on labelled images, with its accuracy.

INT8 is calibrated with the calibration split, and ONNX Runtime is what speed and accuracy are compared with.
"""

import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtcpu.errors import InputError
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import encoded, of_metadata, resolve
from trtlab.models.class_names import fit_labels, names_in
from trtlab.running.foreign_recipe import ONNX_RUNTIME, ForeignRecipe
from trtlab.running.recipe import Predict, Recipe
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import Stage

if TYPE_CHECKING:
    from helpers.data.datasets import DataSet


class LabelledRecipe(ForeignRecipe):
    """The stages for one ONNX file with one image input, whose first output scores the classes of `options.labels`."""

    preparation = "Prepare images"
    measured = Recipe.measured

    def __init__(self, options: RunOptions) -> None:
        """Parse the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: as ForeignRecipe, or a model that takes no images or gives no scores.
        """
        super().__init__(options)
        self.calibration, self.cache_files = "calibration/calibration.npy", (self.cache, f"{self.cache}.json")
        self.preprocessing, self.note = self._of_images()
        self.preprocessed = self.preprocessing.described()
        _ = self.outputs_per_sample

    def prepare(self) -> None:
        """Load the images' names, and render or download what is not there.

        Raises:
            InputError: labels that cannot match the model's outputs.
            DataError: images cannot be made, downloaded or read.
        """
        number = {
            "calibration_images": len(self._images("calibration")),
            "accuracy_images": len(self._images("validation")),
        }
        self.options = dataclasses.replace(self.options, **number)

    def stages(self) -> list[Stage]:
        """Return every stage in order."""
        builds = [self._build(spec) for spec in self.engines]
        measured = [self._latency(), self._throughput(), self._accuracy(), self._profile()]
        return [self._take(), self._calibration_data(), *builds, self._checks(), *measured, self._report()]

    @functools.cached_property
    def data(self) -> "DataSet":
        """The data set, with the labels of the model's outputs."""
        from helpers.data.datasets import load_dataset

        model = Path(self.original).name
        names = self.given_names or names_in(self.metadata, model)
        return fit_labels(load_dataset(self.options.labels), self.outputs_per_sample, names, model)

    def _images(self, split: str) -> list[tuple[Path, int]]:
        limits = {"calibration": self.options.calibration_images, "validation": self.options.accuracy_images}
        return self.data.images(split, limit=limits[split])

    def _of_images(self) -> tuple[Preprocessing, str]:
        """Return what the images go through, as exporter or options say, and a note where neither did."""
        model = Path(self.original).name
        if len(self.inputs) > 1:
            takes = ", ".join(self.inputs)
            raise InputError(f"{self.options.labels} is of images, {model} takes {takes}; give an .npz of named inputs")
        recorded = of_metadata(self.metadata, model)
        return resolve(next(iter(self.inputs.values())), model, recorded, self.options.preprocessing)

    def _metadata(self) -> dict[str, str]:
        return super()._metadata() | encoded(self.preprocessing)

    @functools.cached_property
    def _origin(self) -> dict[str, str]:  # type: ignore[override]
        """What every stage depends on, the images' files too."""
        images = [
            (*_state(path), label) for split in ("calibration", "validation") for path, label in self._images(split)
        ]
        files = hashlib.sha256(json.dumps(images).encode()).hexdigest()
        return super()._origin | {"labels": str(self.options.labels), "files": files, **encoded(self.preprocessing)}

    def _class_names(self) -> list[str]:
        return super()._class_names() or ([] if names_in(self.metadata, "") else list(self.data.classes))

    def _baseline(self) -> tuple[str, Predict]:
        from helpers.tools.outputs import onnx_session

        session = onnx_session(self._path(self.onnx))
        spec = next(iter(self.inputs.values()))

        def predict(images: np.ndarray) -> np.ndarray:
            outputs = self.onnx_runtime({spec.name: images.astype(spec.dtype, copy=False)}, session)
            return next(iter(outputs.values())).astype(np.float32, copy=False)

        return ONNX_RUNTIME, predict


def _state(path: Path) -> tuple[str, int, int]:
    """Return the file that an image's link leads to, its size and its time of change."""
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns
