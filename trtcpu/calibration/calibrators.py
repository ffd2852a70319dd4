"""TensorRT's INT8 calibrator base classes, which a user derives from.

The driver in `session` calls a calibrator as TensorRT does. Addresses in `get_batch`'s list are integers or
`DeviceAllocation` objects: TensorRT's bindings cast each to `size_t`, which takes whatever `int()` takes short of a
float.
"""

from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.api.pybind import Overridable, to_override
from trtcpu.errors import InputError


class IInt8Calibrator(Overridable):
    """Base of calibrators; a subclass overrides the methods below and calls its base's `__init__`."""

    __slots__ = ()

    @to_override
    def get_batch_size(self) -> int:
        """Return the number of samples a batch; it should equal the batch of the calibration profile's OPT shape."""

    @to_override
    def get_batch(self, names: list[str]) -> list[int] | None:
        """Return the device address of a batch of each of the inputs `names`, in that order; None or [] at the end."""

    @to_override
    def read_calibration_cache(self) -> bytes | None:
        """Return the bytes of a calibration cache, or None to calibrate from batches."""

    @to_override
    def write_calibration_cache(self, cache: memoryview) -> None:
        """Keep the calibration cache; `cache` is a memoryview of bytes."""

    @to_override
    def get_algorithm(self) -> CalibrationAlgoType:
        """Return the algorithm that chooses the scales."""


class IInt8EntropyCalibrator2(IInt8Calibrator):
    """Least KL divergence, for every tensor of the network as parsed; TensorRT's choice for convolutional networks."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        return CalibrationAlgoType.ENTROPY_CALIBRATION_2


class IInt8EntropyCalibrator(IInt8Calibrator):
    """Least KL divergence, for the tensors that remain after layer fusion."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        return CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8MinMaxCalibrator(IInt8Calibrator):
    """The largest magnitude seen, for every tensor of the network as parsed."""

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        return CalibrationAlgoType.MINMAX_CALIBRATION


class IInt8LegacyCalibrator(IInt8Calibrator):
    """A quantile of the magnitudes, for the tensors that remain after layer fusion.

    `get_quantile()` gives the share of the values that the range must hold. `get_regression_cutoff()`, a fraction of
    the largest magnitude, leaves greater values out before the quantile is taken; 1 (or 0) leaves none out. TensorRT
    names these two and does not document their arithmetic; this reading is the CPU engine's own and no recording
    confirms it. Histogram caches are not used; TensorRT's Python bindings cannot hand one over either.
    """

    __slots__ = ()

    def get_algorithm(self) -> CalibrationAlgoType:
        return CalibrationAlgoType.LEGACY_CALIBRATION

    @to_override
    def get_quantile(self) -> float:
        """Return the share, over 0 and up to 1, of magnitudes that the range must hold."""

    @to_override
    def get_regression_cutoff(self) -> float:
        """Return the fraction, from 0 to 1, of the largest magnitude beyond which values are left out."""

    def read_histogram_cache(self, length: int) -> bytes | None:
        """Return None: histogram caches are not used."""

    def write_histogram_cache(self, ptr: object, length: int) -> None:
        """Keep nothing: histogram caches are not used."""


def algorithm_of(calibrator: object) -> CalibrationAlgoType:
    """Return the calibrator's algorithm.

    Raises:
        InputError: it is no calibrator, or its `get_algorithm` fails or gives something else.
    """
    if not isinstance(calibrator, IInt8Calibrator):
        kind = type(calibrator).__name__
        raise InputError(f"{kind} is no calibrator; derive it from trt.IInt8EntropyCalibrator2")
    try:
        return CalibrationAlgoType(calibrator.get_algorithm())
    except Exception as error:
        raise InputError(f"get_algorithm() must return a trt.CalibrationAlgoType: {error}") from error
