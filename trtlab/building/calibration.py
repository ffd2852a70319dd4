"""How a build is calibrated: by a calibrator while it builds (implicit), or into scales before it (explicit).

TensorRT swallows what a calibrator's `get_batch` raises: it prints it, ends the calibration and builds an engine from
the batches so far. The calibrators here keep the exception instead, so that the build can raise it.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx

from helpers.engine.backend import cuda, trt
from helpers.tools.files import atomic_write
from trtcpu.calibration_cache import CalibrationCache, format_cache
from trtcpu.errors import InputError
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import CalibrationBatches, image_batches, read_cache, tensor_batches
from trtlab.engines.network import ParsedModel, add_profile
from trtlab.engines.tensors import InputSpec, batch_range
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import write_beside

# By kind of calibrator: its algorithm's name in a cache, and the class of TensorRT that it is derived from.
_KINDS = {
    # least Kullback-Leibler divergence; TensorRT's recommendation for convolutional networks
    "entropy": ("EntropyCalibration2", "IInt8EntropyCalibrator2"),
    # TensorRT's first entropy calibrator; here only to use caches that it wrote
    "entropy1": ("EntropyCalibration", "IInt8EntropyCalibrator"),
    # the largest absolute value sets the range: nothing is clipped
    "minmax": ("MinMaxCalibration", "IInt8MinMaxCalibrator"),
    # the 99.99th percentile of the absolute values sets the range
    "percentile": ("LegacyCalibration", "IInt8LegacyCalibrator"),
}


def new_calibrator(kind: str) -> "Calibrator":
    """Return a calibrator of one of the `_KINDS`, to be started; TensorRT 11 has none."""
    return type(kind, (Calibrator, getattr(trt, _KINDS[kind][1])), {})()


class Calibrator:
    """What calibrators of every kind do: feed batches to TensorRT, or a cache.

    Attributes:
        written: the cache that TensorRT handed over, or None.
        error: what `get_batch` raised, or None.
    """

    def start(self, batches: CalibrationBatches, cache: bytes | None, report: Callable[[str], None]) -> None:
        """Feed `batches`, or let TensorRT take every scale from `cache`; `report` is told of each batch."""
        self._cache, self._batch_size, self._batches = cache, batches.batch_size, batches.told(report)
        self._buffers: dict[str, cuda.DeviceAllocation] = {}
        self.written: bytes | None = None
        self.error: BaseException | None = None

    def get_batch_size(self) -> int:
        return self._batch_size

    def get_batch(self, names: list[str]) -> list[int] | None:
        """Upload the next batch and return the device address of each input in `names`; None ends the calibration."""
        try:
            batch = next(self._batches, {})
            for name, array in batch.items():
                if name not in self._buffers:
                    self._buffers[name] = cuda.mem_alloc(array.nbytes)
                cuda.memcpy_htod(self._buffers[name], array)
        except BaseException as error:  # Ctrl-C too: TensorRT would swallow it
            self.error, batch = error, {}
        return [int(self._buffers[name]) for name in names] if batch else None

    def read_calibration_cache(self) -> bytes | None:
        return self._cache

    def write_calibration_cache(self, cache: bytes) -> None:
        self.written = bytes(cache)

    # from here on, what the legacy calibrator alone is asked
    def get_quantile(self) -> float:
        return 0.9999

    def get_regression_cutoff(self) -> float:
        return 1.0

    def read_histogram_cache(self, length: int) -> None:
        return None

    def write_histogram_cache(self, data: object, length: int) -> None:
        return None


class Calibration:
    """Where one build's scales come from: batches of data, a cache, or neither, as without INT8 or with Q/DQ nodes.

    `batches` is None if it is neither; beside a cache, none are in it.
    """

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
            self.batches = CalibrationBatches(str(options.calib_cache), batch_range(inputs)[1], 0, {}, iter(()))
            self.cache = read_cache(options.calib_cache, model.calibrated_inputs, model.tensor_names)
            self.kind = next((kind for kind, (name, _) in _KINDS.items() if name == self.cache.algorithm), "percentile")
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

    def scales(self, graph: onnx.ModelProto) -> dict[str, float] | None:
        """Return the scale of each tensor of a float graph; None if the build needs none."""
        if self.batches and not self.cache:
            from trtlab.building.typed import calibrated  # brings the CPU engine along

            self.cache = calibrated(graph, self.kind, self.batches, self.report)
            self.written = format_cache(self.cache)
        return self.cache.scales if self.cache else None

    @contextlib.contextmanager
    def attached(self, config: "trt.IBuilderConfig") -> Iterator[None]:
        """Let a calibrator serve what is built in the block; what it raised in there is raised when the block ends."""
        size, given = self.batches.batch_size, self.batches.sample_shapes
        serving = new_calibrator(self.kind)
        serving.start(self.batches, Path(self.options.calib_cache).read_bytes() if self.cache else None, self.report)
        config.int8_calibrator = serving
        shapes = {name: (size, *given[name]) if name in given else spec.best for name, spec in self.inputs.items()}
        add_profile(self.model, {name: [shape] * 3 for name, shape in shapes.items()}, config.set_calibration_profile)
        try:
            yield
        finally:
            if serving.error is not None:
                raise serving.error
        self.written = None if self.cache else serving.written

    def kept(self, engine_path: str | Path) -> dict[str, Any] | None:
        """Write the cache that came of the data, and return how the engine was calibrated; None if it was not."""
        if self.batches is None or self.model.quantized:  # of a model with Q/DQ nodes TensorRT asks no calibrator
            return None
        path = Path(self.options.calib_cache or f"{engine_path}.cache")
        given = self.batches.available
        if self.written is not None:
            atomic_write(path, self.written)
            if self.preprocessing is not None:
                write_beside(path, self.preprocessing)
        return {
            "calibrator": self.kind,
            "source": self.batches.source,
            "cache": str(path),
            "images": given - given % self.batches.batch_size,
            "given": given,
        }
