"""How a build is calibrated: by a calibrator while it builds (implicit), or into scales before it (explicit)."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx

from helpers.engine.backend import trt
from helpers.tools.files import atomic_write
from trtcpu.calibration_cache import CalibrationCache, format_cache
from trtcpu.errors import InputError
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import CalibrationBatches, image_batches, read_cache, tensor_batches
from trtlab.engines.network import ParsedModel, profile_of
from trtlab.engines.tensors import InputSpec, batch_range
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import write_beside

_KINDS = {"EntropyCalibration2": "entropy", "EntropyCalibration": "entropy1", "MinMaxCalibration": "minmax"}


class Calibration:
    """Where one build's scales come from: batches of data, a cache, or neither, as without INT8 or with Q/DQ nodes."""

    def __init__(
        self,
        model: ParsedModel,
        options: BuildOptions,
        inputs: dict[str, InputSpec],
        preprocessing: Preprocessing | None,
        report: Callable[[str], None],
    ) -> None:
        """Open what was given; `report` is told of each batch.

        Raises:
            InputError: the build needs scales and nothing gives them, or what was given cannot be used.
        """
        self.model, self.options, self.inputs = model, options, inputs
        self.preprocessing, self.report = preprocessing, report
        self.batches: CalibrationBatches | None = None
        self.cache: CalibrationCache | None = None
        self.kind = options.calibrator or "entropy"
        self.written: bytes | None = None
        if options.calib_npy:
            self.batches = tensor_batches(options.calib_npy, inputs, model.fixed_batch)
        elif options.calib_images:
            how = (preprocessing, model.input_name, model.fixed_batch)
            self.batches = image_batches(options.calib_images, *how, options.calib_count)
        elif options.calib_cache:
            self.cache = read_cache(options.calib_cache, model.calibrated_inputs, model.tensor_names)
            self.kind = _KINDS.get(self.cache.algorithm, "percentile")
            if options.calibrator not in (None, self.kind):
                raise InputError(
                    f"{options.calib_cache} was written by the {self.kind} calibrator, not by {options.calibrator}; "
                    "drop --calibrator or calibrate again"
                )
        elif options.int8 and not model.quantized:
            raise InputError(
                f"{options.precision} needs calibration: give --calib-npy (from trtlab calib-data, or an .npz of named "
                "inputs), --calib-images or --calib-cache"
            )
        self.needed = bool(self.batches or self.cache)

    def scales(self, graph: onnx.ModelProto) -> dict[str, float] | None:
        """Return the scale of each tensor of a float graph; None where the build needs none."""
        if not self.batches:
            return self.cache.scales if self.cache else None
        from trtlab.building.typed import calibrated  # brings the CPU engine along

        found = calibrated(graph, self.kind, self.batches, self.report)
        self.written = format_cache(found)
        return found.scales

    @contextlib.contextmanager
    def attached(self, config: "trt.IBuilderConfig") -> Iterator[None]:
        """Let a calibrator serve what is built in the block; what it raised in there is raised when the block ends."""
        from trtlab.building.calibrate import CALIBRATORS  # TensorRT 11 has none

        batch_size = self.batches.batch_size if self.batches else batch_range(self.inputs)[1]
        calibrator = CALIBRATORS[self.kind]()
        cache = Path(self.options.calib_cache).read_bytes() if self.cache else None
        calibrator.start(self.batches, cache, batch_size, self.report)
        config.int8_calibrator = calibrator
        given = self.batches.sample_shapes if self.batches else {}
        shapes = {name: (batch_size, *given[name]) if name in given else s.best for name, s in self.inputs.items()}
        profile = profile_of(self.model, {name: (shape, shape, shape) for name, shape in shapes.items()})
        if profile is not None:
            config.set_calibration_profile(profile)
        try:
            yield
        finally:
            if calibrator.error is not None:
                raise calibrator.error
        self.written = calibrator.written

    def kept(self, engine_path: str | Path) -> dict[str, Any]:
        """Write the cache that came of the data, and return how the engine was calibrated."""
        batches = self.batches
        path = Path(self.options.calib_cache or f"{engine_path}.cache")
        if batches and self.written is not None:
            atomic_write(path, self.written)
            if self.preprocessing is not None:
                write_beside(path, self.preprocessing)
        return {
            "calibrator": self.kind,
            "source": batches.source if batches else str(path),
            "cache": str(path),
            "images": batches.number * batches.batch_size if batches else 0,
            "given": batches.available if batches else 0,
        }
