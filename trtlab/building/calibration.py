"""How a build is calibrated: by a calibrator while it builds (implicit), or into scales before it (explicit)."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.tools.files import atomic_write
from trtcpu.calibration_cache import format_cache
from trtcpu.errors import InputError
from trtlab.building.build_options import BuildOptions
from trtlab.building.calibration_data import (
    CalibrationBatches,
    CalibrationCache,
    image_batches,
    read_cache,
    tensor_batches,
)
from trtlab.engines.network import ParsedModel, profile_of
from trtlab.engines.tensors import InputSpec, batch_range
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import write_beside

if TYPE_CHECKING:
    import onnx

    from helpers.engine.backend import trt

Report = Callable[[str], None]
_DEFAULT = "entropy"


def batches_of(
    model: ParsedModel, options: BuildOptions, inputs: dict[str, InputSpec], preprocessing: Preprocessing | None
) -> CalibrationBatches | None:
    """Return the data that calibrates; None where the build has scales, or needs none.

    Raises:
        InputError: it needs some and has none, or what was given cannot be used.
    """
    if not _calibrates(model, options):
        return None
    if options.calib_npy:
        return tensor_batches(options.calib_npy, inputs, model.fixed_batch)
    if options.calib_images and preprocessing:
        how = (preprocessing, model.input_name, model.fixed_batch)
        return image_batches(options.calib_images, *how, count=options.calib_count)
    if not options.calib_cache:
        raise InputError(
            f"{options.precision} needs calibration: give --calib-npy (from trtlab calib-data, or an .npz of named "
            "inputs), --calib-images or --calib-cache"
        )
    return None


@contextlib.contextmanager
def attached(
    config: "trt.IBuilderConfig",
    model: ParsedModel,
    options: BuildOptions,
    inputs: dict[str, InputSpec],
    batches: CalibrationBatches | None,
    progress: Report,
) -> Iterator[Any]:
    """Attach a calibrator where the build needs one; the name keeps it alive until the build is over."""
    if not _calibrates(model, options):
        yield None
        return
    from trtlab.building.calibrate import CALIBRATORS  # TensorRT 11 has none

    cache, kind = (None, options.calibrator or _DEFAULT) if batches else _given(model, options)
    batch_size = batches.batch_size if batches else batch_range(inputs)[1]
    calibrator = CALIBRATORS[kind]()
    calibrator.start(batches, cache and cache.data, batch_size, progress)
    config.int8_calibrator = calibrator
    given = batches.sample_shapes if batches else {}
    shapes = {name: (batch_size, *given[name]) if name in given else spec.best for name, spec in inputs.items()}
    profile = profile_of(model, {name: (shape, shape, shape) for name, shape in shapes.items()})
    if profile is not None:
        config.set_calibration_profile(profile)
    try:
        yield calibrator
    finally:
        calibrator.free()


def recorded(
    calibrator: Any,
    engine_path: str | Path,
    options: BuildOptions,
    batches: CalibrationBatches | None,
    preprocessing: Preprocessing | None,
) -> dict[str, Any] | None:
    """Write the cache that TensorRT handed over, and return how the engine was calibrated; None where it was not."""
    if calibrator is None:
        return None
    from trtlab.building.calibrate import CALIBRATORS

    kind = next(name for name, cls in CALIBRATORS.items() if cls is type(calibrator))
    images = calibrator.fed * calibrator.get_batch_size()
    return _kept(kind, images, calibrator.written, engine_path, options, batches, preprocessing)


def scales_of(
    model: ParsedModel,
    graph: "onnx.ModelProto",
    engine_path: str | Path,
    options: BuildOptions,
    batches: CalibrationBatches | None,
    preprocessing: Preprocessing | None,
    progress: Report,
) -> tuple[dict[str, float] | None, Callable[[], dict[str, Any] | None]]:
    """Return the scale of each tensor, None where the model brings its own, and what to call after the build.

    That writes the cache, as an implicit build does, and returns how the engine was calibrated.

    Raises:
        InputError: as `batches_of`, or a cache that cannot be used.
    """
    if not _calibrates(model, options):
        return None, lambda: None
    written, images = None, 0
    if batches:
        from trtlab.building.scales import calibrated

        kind = options.calibrator or _DEFAULT
        found = calibrated(graph, kind, batches, progress)
        written, images = format_cache(found), batches.number * batches.batch_size
    else:
        found, kind = _given(model, options)
    return found.scales, lambda: _kept(kind, images, written, engine_path, options, batches, preprocessing)


def _calibrates(model: ParsedModel, options: BuildOptions) -> bool:
    given = options.calibration_source or options.calib_cache
    return options.int8 and bool(given or not model.quantized)


def _given(model: ParsedModel, options: BuildOptions) -> tuple[CalibrationCache, str]:
    """Return the cache to take the scales from, and the calibrator's kind."""
    cache = read_cache(options.calib_cache)
    if options.calibrator not in (None, cache.kind):
        raise InputError(
            f"{options.calib_cache} was written by the {cache.kind} calibrator, not by {options.calibrator}; "
            "drop --calibrator or calibrate again"
        )
    cache.check_fits(model.calibrated_inputs, model.tensor_names)
    return cache, cache.kind


def _kept(
    kind: str,
    images: int,
    written: bytes | None,
    engine_path: str | Path,
    options: BuildOptions,
    batches: CalibrationBatches | None,
    preprocessing: Preprocessing | None,
) -> dict[str, Any]:
    path = Path(options.calib_cache or f"{engine_path}.cache")
    if options.calibration_source and written is not None:
        atomic_write(path, written)
        if preprocessing is not None:
            write_beside(path, preprocessing)
    return {
        "calibrator": kind,
        "source": options.calibration_source or str(path),
        "cache": str(path),
        "images": images,
        "given": batches.available if batches else 0,
    }
