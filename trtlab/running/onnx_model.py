"""What `trtlab run --onnx M` is of: somebody else's model, of any inputs, with samples, labelled images, or neither.

Without labels accuracy cannot be measured. In its place stands the drift of every engine against FP32 on the same
samples, as rows of the checks: FP32 itself is held to ONNX Runtime's outputs.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from helpers.data.datasets import DataSet, load_dataset
from helpers.tools.files import atomic_path, sha256
from helpers.tools.outputs import onnx_session
from trtcpu.errors import InputError
from trtlab.building.build import input_specs
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import open_inputs
from trtlab.engines.network import parse_onnx
from trtlab.engines.tensors import batch_range, batched, count, examples, taken
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import (
    NOTHING,
    encoded,
    of_model,
    read_beside,
    write_beside,
)
from trtlab.models.class_names import ClassNames, fit_labels, names_in, number_of_classes, read_classes
from trtlab.report.results import ONNX_RUNTIME
from trtlab.running.lab_model import Predict
from trtlab.running.run_options import EngineSpec, RunOptions
from trtlab.timing.runners import RunnerSpec

SAMPLES = 64
NO_LABELS = "no labels: drift against FP32 in place of accuracy"


class OnnxModel:
    """One ONNX file. INT8 is built only where there are samples or images to calibrate it with."""

    def __init__(self, options: RunOptions) -> None:
        """Parse the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: no ONNX model, shapes, samples or labels that do not fit it, or an option that contradicts it.
        """
        self.original, self.name = options.onnx, options.onnx.name
        model = parse_onnx(options.onnx)
        self.metadata, self.fixed = model.metadata(), model.fixed_batch is not None
        self.inputs = input_specs(model, BuildOptions(shapes=options.shapes))
        self.labelled = options.labels is not None
        self.preparation = "Prepare images" if self.labelled else ""
        self._given = self._samples_preprocessing(options)
        self.options = dataclasses.replace(options, **self._as_run(options))
        self.preprocessing, self.note = self._of_images() if self.labelled else (self._given, "")
        self.preprocessed = self.preprocessing.described() if self.preprocessing else "none: samples as they are"
        _ = self.given_names
        _ = self.labelled and self.outputs_per_sample

    def _samples_preprocessing(self, options: RunOptions) -> Preprocessing | None:
        """Return what the samples went through, where that is recorded; samples that do not fit are an error now."""
        if not options.samples:
            return None
        open_inputs(options.samples, self.inputs)
        of_model(self.inputs, (str(options.onnx), self.metadata), NOTHING, options.samples, needed=False)
        return read_beside(options.samples)

    def _as_run(self, options: RunOptions) -> dict[str, Any]:
        """Return the run's model, data and batches: those that the model takes."""
        low, best, high = batch_range(self.inputs)
        free = low == high or options.shapes
        batches = tuple(batch for batch in options.batches if low <= batch <= high) if free else options.batches
        samples = Path(options.samples).name if options.samples else "seeded noise, INT8 left out without --data"
        data = options.labels or f"{samples} ({NO_LABELS})"
        return {"model": self.original.stem, "data": data, "batches": batches or (best,)}

    def _of_images(self) -> tuple[Preprocessing, str]:
        """Return what the images go through, as exporter or options say, and a note where neither did."""
        if len(self.inputs) > 1:
            takes = ", ".join(self.inputs)
            raise InputError(
                f"{self.options.labels} is of images, {self.name} takes {takes}; give an .npz of named inputs"
            )
        return of_model(self.inputs, (self.name, self.metadata), self.options.preprocessing, None, needed=True)

    def prepare(self) -> None:
        """Load the images' names, and render or download what is not there; without labels there is nothing to do.

        Raises:
            InputError: labels that cannot match the model's outputs.
            DataError: images cannot be made, downloaded or read.
        """
        if self.labelled:
            calibration, accuracy = (len(self._images(split)) for split in ("calibration", "validation"))
            found = {"calibration_images": calibration, "accuracy_images": accuracy}
            self.options = dataclasses.replace(self.options, **found)

    @functools.cached_property
    def data(self) -> DataSet:
        """The data set, with the labels of the model's outputs."""
        names = self.given_names or names_in(self.metadata, self.name)
        return fit_labels(load_dataset(self.options.labels), self.outputs_per_sample, names, self.name)

    def _images(self, split: str) -> list[tuple[Path, int]]:
        limits = {"calibration": self.options.calibration_images, "validation": self.options.accuracy_images}
        return self.data.images(split, limit=limits[split])

    @functools.cached_property
    def origin(self) -> dict[str, str]:
        """What every stage depends on: the model, its samples, and the images' files."""
        samples, labels = self.options.samples, {}
        if self.labelled:
            images = [
                (*_state(path), label) for split in ("calibration", "validation") for path, label in self._images(split)
            ]
            files = hashlib.sha256(json.dumps(images).encode()).hexdigest()
            labels = {"labels": str(self.options.labels), "files": files, **encoded(self.preprocessing)}
        return {
            "model": self.options.model,
            "onnx": sha256(self.original),
            "samples": sha256(samples) if samples else "noise",
            "shapes": ", ".join(self.options.shapes),
            "classes": json.dumps(self._class_names()),
            **labels,
        }

    def is_built(self, spec: EngineSpec) -> bool:
        """Say whether a run builds this engine: not where the model has one profile, or nothing calibrates INT8."""
        one_profile = self.fixed or bool(self.options.shapes)
        calibrated = bool(self.options.samples or self.labelled)
        return not (one_profile and spec.name == "dynamic-fp16") and (spec.name != "int8" or calibrated)

    def take(self, path: Path) -> None:
        """Write the model to `path`, its weights inside, with what the engines' records say of it."""
        model = onnx.load(str(self.original))
        names = self._class_names()
        known = self.metadata | ({"classes": json.dumps(names)} if names else {})
        onnx.helper.set_model_props(model, known | (encoded(self.preprocessing) if self.labelled else {}))
        with atomic_path(path) as temporary:
            onnx.save(model, str(temporary))

    def write_samples(self, path: Path) -> None:
        """Write the samples, or noise in their place, as one .npz; their preprocessing goes beside it."""
        given = self.options.samples
        arrays = open_inputs(given, self.inputs) if given else examples(self.inputs, SAMPLES)
        with atomic_path(path) as temporary:
            np.savez(temporary, **{name: np.asarray(array) for name, array in arrays.items()})
        if self._given:
            write_beside(path, self._given)

    def samples(self, path: Path) -> dict[str, np.ndarray]:
        """Return the first samples of the file, in the inputs' types."""
        given = taken(open_inputs(path, self.inputs), self.inputs, 0, SAMPLES)
        return {name: np.asarray(array).astype(self.inputs[name].dtype) for name, array in given.items()}

    def _class_names(self) -> list[str]:
        if self.given_names:
            return self.given_names.names
        return list(self.data.classes) if self.labelled and not names_in(self.metadata, "") else []

    @functools.cached_property
    def given_names(self) -> ClassNames | None:
        """The names of --classes; raises InputError where they are not as many as the outputs."""
        if self.options.classes is None:
            return None
        names = read_classes(self.options.classes)
        names.check(self.outputs_per_sample, self.name)
        return names

    @functools.cached_property
    def outputs_per_sample(self) -> int:
        """How many classes the first output scores, as ONNX Runtime says; raises InputError where it scores none."""
        outputs = self.outputs(examples(self.inputs, batch_range(self.inputs)[0]), onnx_session(self.original))
        return number_of_classes(next(iter(outputs.values())).shape[1:], self.name)

    def outputs(
        self, samples: Mapping[str, np.ndarray], session: onnxruntime.InferenceSession
    ) -> dict[str, np.ndarray]:
        """Return ONNX Runtime's outputs, in batches as the model takes them, the last of a fixed model padded."""
        names = [output.name for output in session.get_outputs()]
        number, size, cut = count(samples, self.inputs), batch_range(self.inputs)[2], batched(self.inputs)
        parts = []
        for start in range(0, number, size):
            batch = taken(samples, self.inputs, start, start + size)
            found = min(size, number - start)
            if self.fixed and found < size:
                batch |= {name: np.resize(batch[name], (size, *batch[name].shape[1:])) for name in cut}
            outputs = session.run(names, batch)
            parts.append([output[:found] for output in outputs] if found < size else outputs)
        return {name: np.concatenate([part[place] for part in parts]) for place, name in enumerate(names)}

    def baseline(self, path: Path) -> tuple[str, Predict]:
        """Return what the engines' accuracy is compared with, by its row's name."""
        session, spec = onnx_session(path), next(iter(self.inputs.values()))

        def predict(images: np.ndarray) -> np.ndarray:
            outputs = self.outputs({spec.name: images.astype(spec.dtype, copy=False)}, session)
            return next(iter(outputs.values())).astype(np.float32, copy=False)

        return ONNX_RUNTIME, predict

    def runners(self, path: Path) -> list[RunnerSpec]:
        """Return what is timed beside the engines."""
        return [RunnerSpec("onnxruntime", str(path), ONNX_RUNTIME, inputs=self.inputs)]


def _state(path: Path) -> tuple[str, int, int]:
    """Return the file that an image's link leads to, its size and its time of change."""
    found = path.stat()
    return str(path.resolve()), found.st_size, found.st_mtime_ns
