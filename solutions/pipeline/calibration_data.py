"""What an INT8 calibration reads: batches from a folder of images or a tensor on disk, and TensorRT's cache files."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.calibration_cache import parse_cache
from helpers.errors import InputError
from helpers.files import atomic_path
from solutions.pipeline.preprocessing import batches, find_images

__all__ = [
    "MAX_IMAGES",
    "CalibrationBatches",
    "CalibrationCache",
    "image_batches",
    "npy_batches",
    "open_tensor",
    "read_cache",
    "write_calibration_tensor",
]

MAX_IMAGES = 512
_MIN_IMAGES = 2
_BATCHES = range(8, 3, -1)
_KINDS = {"EntropyCalibration2": "entropy", "EntropyCalibration": "entropy1", "MinMaxCalibration": "minmax"}


@dataclass
class CalibrationBatches:
    """Batches of float32 [batch_size, *sample_shape]; only whole batches are used."""

    source: str
    batch_size: int
    available: int
    _batches: Iterator[np.ndarray]

    @property
    def number(self) -> int:
        """How many batches there are."""
        return self.available // self.batch_size

    def __iter__(self) -> Iterator[np.ndarray]:
        for batch in self._batches:
            if len(batch) == self.batch_size:
                yield _checked(batch, self.source)


@dataclass(frozen=True)
class CalibrationCache:
    """TensorRT's text cache: `scales` by tensor name; the dynamic range is 127 times the scale."""

    source: str
    kind: str
    scales: dict[str, float]
    data: bytes

    def check_fits(self, input_name: str, tensors: Collection[str]) -> None:
        """Raise InputError where the cache belongs to another network than one with these tensor names."""
        known = sum(name in tensors for name in self.scales)
        if input_name not in self.scales or 2 * known < len(self.scales):
            raise InputError(
                f"calibration cache {self.source} belongs to another model: {known} of its {len(self.scales)} tensors "
                f"are in this network, whose input is {input_name!r}; calibrate with --calib-npy or --calib-images"
            )


def image_batches(folder: str | Path, sample_shape: tuple[int, ...], fixed_batch: int | None) -> CalibrationBatches:
    """Return preprocessed batches of at most 512 of a folder's images, spread evenly over the sorted names.

    Raises:
        InputError: no folder, no images or too few; a later one that cannot be read raises when its batch is asked for.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder; --calib-images takes a folder of images")
    paths = find_images(folder)
    if len(paths) > MAX_IMAGES:
        paths = [paths[index] for index in np.linspace(0, len(paths) - 1, MAX_IMAGES).round().astype(int)]
    channels, height, width = sample_shape
    if channels != 3 or height != width:
        raise InputError(f"the model takes {list(sample_shape)}, no square RGB image; calibrate with --calib-npy")
    size = _batch_size(str(folder), len(paths), fixed_batch)
    return CalibrationBatches(str(folder), size, len(paths), batches(paths, size, height))


def npy_batches(path: str | Path, sample_shape: tuple[int, ...], fixed_batch: int | None) -> CalibrationBatches:
    """Return batches of a float tensor [n, *sample_shape] on disk, which is mapped, not loaded.

    Raises:
        InputError: the file is missing, is no such tensor, or holds too few images.
    """
    tensor = open_tensor(path, sample_shape)
    size = _batch_size(str(path), len(tensor), fixed_batch)
    slices = (np.asarray(tensor[start : start + size], np.float32) for start in range(0, len(tensor), size))
    return CalibrationBatches(str(path), size, len(tensor), slices)


def open_tensor(path: str | Path, sample_shape: tuple[int, ...]) -> np.ndarray:
    """Return a read-only view of the .npy file at `path`, float [n, *sample_shape].

    Raises:
        InputError: missing, truncated, not .npy, or of another shape or type.
    """
    try:
        tensor = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; make it with trtlab calib-data") from error
    except Exception as error:  # NumPy's header parser raises ValueError, SyntaxError, EOFError, tokenize errors
        raise InputError(f"{path} is not a .npy tensor ({error}); make it with trtlab calib-data") from error
    wanted = ", ".join(map(str, sample_shape))
    if not isinstance(tensor, np.ndarray) or tensor.dtype.kind != "f" or tensor.shape[1:] != tuple(sample_shape):
        found = f"{tensor.dtype} {list(tensor.shape)}" if isinstance(tensor, np.ndarray) else "an archive"
        raise InputError(f"{path} holds {found}; needed is float32 [n, {wanted}], as trtlab calib-data writes it")
    return tensor


def read_cache(path: str | Path) -> CalibrationCache:
    """Return a calibration cache that TensorRT or the CPU engine wrote.

    Raises:
        InputError: the file is missing, empty, truncated or no calibration cache.
    """
    try:
        data = Path(path).read_bytes()
        content = parse_cache(data)
    except OSError as error:
        raise InputError(f"cannot read the calibration cache {path}: {error.strerror or error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return CalibrationCache(str(path), _KINDS.get(content.algorithm, "percentile"), content.scales, data)


def write_calibration_tensor(
    images: list[Path], path: str | Path, *, size: int = 224, batch: int = 16
) -> Iterator[int]:
    """Write the images preprocessed as float32 [n, 3, size, size]; yields how many are done, batch by batch.

    Batches go straight to the file, so memory does not grow with their number; a memory map would do that too, but it
    ends the process when the disk is full.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(images), 3, size, size)}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        done = 0
        for rows in batches(images, batch, size):
            file.write(rows.astype("<f4", copy=False).data)
            done += len(rows)
            yield done


def _batch_size(source: str, available: int, fixed_batch: int | None) -> int:
    needed = max(_MIN_IMAGES, fixed_batch or 0)
    if available < needed:
        raise InputError(
            f"calibration needs at least {needed} images, {source} has {available}; some hundred give good scales"
        )
    return fixed_batch or _best_batch(available)


def _best_batch(available: int) -> int:
    """Return the largest batch of 4 to 8 that leaves the fewest images over."""
    possible = [batch for batch in _BATCHES if batch <= available] or [available]
    return min(possible, key=lambda batch: available % batch)


def _checked(batch: np.ndarray, source: str) -> np.ndarray:
    if not np.isfinite(batch).all():
        raise InputError(f"{source} holds NaN or infinite values; make it again with trtlab calib-data")
    return np.ascontiguousarray(batch, np.float32)
