"""What `trtlab run` works on: a model of the lab with a labelled data set, or somebody else's ONNX file.

Without labels accuracy cannot be measured. The checks then have the drift of every engine against FP32 on the same
samples; FP32 itself is compared with ONNX Runtime.
"""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from helpers.course.settings import BASELINE
from helpers.data import digits, models
from helpers.data.datasets import DataSet, load_dataset
from helpers.engine.backend import ENGINE
from helpers.tools.files import atomic_path, sha256, write_json
from helpers.tools.outputs import onnx_session
from trtcpu.errors import InputError
from trtlab.building.build import input_specs
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import open_inputs
from trtlab.engines.network import parse_onnx
from trtlab.engines.tensors import batch_range, batched, count, examples, taken
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import encoded, of_model, published, read_beside, write_beside
from trtlab.models.class_names import fit_labels, names_in, number_of_classes, read_classes
from trtlab.models.export import export_onnx
from trtlab.report.results import ONNX_RUNTIME
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import Report
from trtlab.timing.runners import RunnerSpec

Predict = Callable[[np.ndarray], np.ndarray]

OPSET = 17
SAMPLES = 64


class LabModel:
    """A PyTorch model and its data; both are loaded once, when a stage first needs them."""

    preparation, note = "Prepare images and weights", ""
    labelled, calibrated, one_profile = True, True, False

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.preprocessing = published(options.model, options.data, options.input_size, options.input_size)

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

    def export(self, path: Path, report: Report) -> None:
        """Export the model to ONNX at `path`, compared with PyTorch; its JSON record lies beside it."""
        report("loading the model")
        model = self.model
        report("tracing, then comparing ONNX Runtime with PyTorch")
        about = {"model": self.options.model, "data": self.options.data, "classes": json.dumps(self.data.classes)}
        about |= encoded(self.preprocessing)
        exported = export_onnx(model, path, opset=OPSET, input_size=self.options.input_size, metadata=about)
        write_json(f"{path}.json", {**vars(exported), "path": f"{path.parent.name}/{path.name}"})

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
        kinds = ["pytorch", "pytorch-fp16", *([] if self.options.quick else ["torch-compile"])]
        told = {"data": self.options.data, "sample_shape": (3, self.options.input_size, self.options.input_size)}
        pytorch = [RunnerSpec(kind, self.options.model, **told) for kind in kinds]
        return [*pytorch, RunnerSpec("onnxruntime", str(onnx))]


class OnnxModel:
    """One ONNX file of any inputs, with samples, labelled images, or neither: then INT8 cannot be calibrated."""

    def __init__(self, options: RunOptions) -> None:
        """Parse the model, so that a wrong one ends before anything is written.

        Raises:
            InputError: no ONNX model, shapes, samples or labels that do not fit it, or an option that contradicts it.
        """
        self.original, self.name = options.onnx, options.onnx.name
        model = parse_onnx(options.onnx)
        if model.quantized:
            does = "trtlab build --precision int8 builds it, compare and bench measure it"
            raise InputError(
                f"{self.name} has Q/DQ nodes, so its only engine is INT8, and a run compares several; {does}"
            )
        self.metadata, self.fixed = model.metadata(), model.fixed_batch is not None
        self.one_profile = self.fixed or bool(options.shapes)
        self.inputs = input_specs(model, BuildOptions(shapes=options.shapes))
        self.labelled, self.calibrated = bool(options.labels), bool(options.labels or options.samples)
        self.preparation = "Prepare images" if self.labelled else ""
        self.preprocessing, self.note = self._preprocessing(options)
        self.options = dataclasses.replace(options, **self._as_run(options))
        self.given_names = read_classes(options.classes) if options.classes else None
        if self.given_names:
            self.given_names.check(self.outputs_per_sample, self.name)
        _ = self.labelled and self.outputs_per_sample

    def _preprocessing(self, options: RunOptions) -> tuple[Preprocessing | None, str]:
        """Return what images or samples go through if that is known, and a note if it had to be assumed."""
        if options.samples:
            open_inputs(options.samples, self.inputs)
        if options.labels and len(self.inputs) > 1:
            takes = f"{self.name} takes {', '.join(self.inputs)}"
            raise InputError(f"{options.labels} is of images, {takes}; give an .npz of named inputs")
        if not self.calibrated:
            return None, ""
        model, samples = (self.name, self.metadata), options.samples
        found = of_model(self.inputs, model, options.preprocessing, samples, needed=self.labelled)
        return found if self.labelled else (read_beside(samples), "")

    def _as_run(self, options: RunOptions) -> dict[str, Any]:
        """Return the run's model, data and batches: those that the model takes."""
        low, best, high = batch_range(self.inputs)
        fitting = tuple(batch for batch in options.batches if low <= batch <= high) or (best,)
        samples = options.samples.name if options.samples else "seeded noise, INT8 left out without --data"
        return {
            "model": self.original.stem,
            "data": options.labels or f"{samples} (no labels: drift against FP32 in place of accuracy)",
            "batches": fitting if self.one_profile else options.batches,
        }

    def prepare(self) -> None:
        """Load the images' names, and render or download what is not there; without labels there is nothing to do.

        Raises:
            InputError: labels that cannot match the model's outputs.
            DataError: images cannot be made, downloaded or read.
        """
        if self.labelled:
            calibration, accuracy = map(len, self._images())
            self.options = dataclasses.replace(self.options, calibration_images=calibration, accuracy_images=accuracy)

    @functools.cached_property
    def data(self) -> DataSet:
        """The data set, with the labels of the model's outputs."""
        names = self.given_names or names_in(self.metadata, self.name)
        return fit_labels(load_dataset(self.options.labels), self.outputs_per_sample, names, self.name)

    def _images(self) -> list[list[tuple[Path, int]]]:
        limits = {"calibration": self.options.calibration_images, "validation": self.options.accuracy_images}
        return [self.data.images(split, limit=limit) for split, limit in limits.items()]

    @functools.cached_property
    def origin(self) -> dict[str, str]:
        """What every stage depends on: the model, its samples, and the images' files, wherever their links lead."""
        samples, labels = self.options.samples, {}
        if self.labelled:
            images = [
                (str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns, label)
                for split in self._images()
                for path, label in split
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
        if self.preprocessing:
            write_beside(path, self.preprocessing)

    def samples(self, path: Path) -> dict[str, np.ndarray]:
        """Return the first samples of the file, in the inputs' types."""
        given = taken(open_inputs(path, self.inputs), self.inputs, 0, SAMPLES)
        return {name: np.asarray(array).astype(self.inputs[name].dtype) for name, array in given.items()}

    def _class_names(self) -> list[str]:
        if self.given_names:
            return self.given_names.names
        return list(self.data.classes) if self.labelled and not names_in(self.metadata, "") else []

    @functools.cached_property
    def outputs_per_sample(self) -> int:
        """How many classes the first output scores, as ONNX Runtime says; raises InputError if it scores none."""
        outputs = self.outputs(examples(self.inputs, batch_range(self.inputs)[0]), onnx_session(self.original))
        return number_of_classes(next(iter(outputs.values())).shape[1:], self.name)

    def outputs(
        self, samples: Mapping[str, np.ndarray], session: onnxruntime.InferenceSession
    ) -> dict[str, np.ndarray]:
        """Return ONNX Runtime's outputs, in batches as the model takes them, the last of a fixed model padded."""
        names = [output.name for output in session.get_outputs()]
        number, size = count(samples, self.inputs), batch_range(self.inputs)[2]
        if self.fixed:
            full, cut = math.ceil(number / size) * size, batched(self.inputs)
            filled = {name: np.resize(samples[name], (full, *samples[name].shape[1:])) for name in cut}
            samples = {**samples, **filled}
        starts = range(0, number, size)
        parts = [session.run(names, taken(samples, self.inputs, start, start + size)) for start in starts]
        kept = number if self.fixed else None
        return {
            name: np.concatenate([np.atleast_1d(part[place]) for part in parts])[:kept]
            for place, name in enumerate(names)
        }

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
