"""What an INT8 calibration reads: batches from a folder of images or tensors on disk, and TensorRT's cache files."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.tools.files import atomic_path
from trtcpu.calibration_cache import parse_cache
from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec, Shape, batched, count, taken
from trtlab.images.preprocessing import IMAGENET, Preprocessing, find_images
from trtlab.images.preprocessing_record import write_beside

_MIN_IMAGES = 2
_BATCHES = (8, 7, 6, 5, 4, 3, 2)
_KINDS = {"EntropyCalibration2": "entropy", "EntropyCalibration": "entropy1", "MinMaxCalibration": "minmax"}


@dataclass
class CalibrationBatches:
    """Batches by input, each [batch_size, *sample_shapes[name]]; only whole batches are used."""

    source: str
    batch_size: int
    available: int
    sample_shapes: dict[str, Shape]
    _batches: Iterator[dict[str, np.ndarray]]

    @property
    def number(self) -> int:
        """How many batches there are."""
        return self.available // self.batch_size

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for batch in self._batches:
            if all(len(batch[name]) == self.batch_size for name in self.sample_shapes):
                yield {name: _checked(array, self.source) for name, array in batch.items()}


@dataclass(frozen=True)
class CalibrationCache:
    """TensorRT's text cache: `scales` by tensor name; the dynamic range is 127 times the scale."""

    source: str
    kind: str
    scales: dict[str, float]
    data: bytes

    def check_fits(self, inputs: Collection[str], tensors: Collection[str]) -> None:
        """Raise InputError where the cache belongs to another network than one with these inputs and tensors.

        Of the inputs only those that have a scale are given: indices have none.
        """
        known = sum(name in tensors for name in self.scales)
        if not all(name in self.scales for name in inputs) or 2 * known < len(self.scales):
            names = " and ".join(map(repr, inputs)) or "indices alone"
            raise InputError(
                f"calibration cache {self.source} belongs to another model: {known} of its {len(self.scales)} tensors "
                f"are in this network, whose input is {names}; calibrate with --calib-npy or --calib-images"
            )


def image_batches(
    folder: str | Path, preprocessing: Preprocessing, name: str, fixed_batch: int | None, count: int | None = None
) -> CalibrationBatches:
    """Return preprocessed batches for the input `name`, of all images or of `count`, spread over the sorted paths.

    Raises:
        InputError: no folder, fewer images than asked for or too few, or a count that the model's fixed batch does not
            divide; an image that cannot be read raises when its batch is asked for.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder; --calib-images takes a folder of images")
    paths = find_images(folder)
    if count is not None:
        if not 1 <= count <= len(paths):
            raise InputError(f"--calib-count {count} of the {len(paths)} images in {folder}: give 1 to {len(paths)}")
        if fixed_batch and count % fixed_batch:
            raise InputError(f"--calib-count {count} is no multiple of the model's fixed batch of {fixed_batch}")
        paths = [paths[index] for index in np.linspace(0, len(paths) - 1, count).round().astype(int)]
    size = _batch_size(str(folder), len(paths), fixed_batch)
    images = ({name: batch} for batch in preprocessing.batches(paths, size))
    return CalibrationBatches(str(folder), size, len(paths), {name: preprocessing.shape}, images)


def tensor_batches(path: str | Path, inputs: Mapping[str, InputSpec], fixed_batch: int | None) -> CalibrationBatches:
    """Return batches of the tensors on disk that `open_inputs` opens.

    Raises:
        InputError: as `open_inputs`, or too few samples.
    """
    arrays = open_inputs(path, inputs)
    number = count(arrays, inputs)
    size = _batch_size(str(path), number, fixed_batch)
    slices = (
        {name: np.asarray(a, inputs[name].dtype) for name, a in taken(arrays, inputs, start, start + size).items()}
        for start in range(0, number, size)
    )
    return CalibrationBatches(
        str(path), size, number, {name: arrays[name].shape[1:] for name in batched(inputs)}, slices
    )


def open_inputs(path: str | Path, inputs: Mapping[str, InputSpec]) -> dict[str, np.ndarray]:
    """Return [n, …] for every input: from an .npz of named arrays, or for a single input from a .npy, which is mapped.

    An input that has no batch, such as a scalar, is given once, in its own shape.

    Raises:
        InputError: missing, truncated, neither, without one of the inputs, or of another shape or type.
    """
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        if len(inputs) > 1:
            raise InputError(f"{path} holds one tensor, needed are {', '.join(inputs)}; give an .npz of named inputs")
        return {name: _fitting(path, "", loaded, spec) for name, spec in inputs.items()}
    cut = batched(inputs)
    arrays = {
        name: _fitting(path, f" {name}", _member(loaded, path, name), spec, name in cut)
        for name, spec in inputs.items()
    }
    if len({len(arrays[name]) for name in cut}) > 1:
        counts = ", ".join(f"{name} {len(arrays[name])}" for name in cut)
        raise InputError(f"{path} has another number of samples for each input ({counts}); make them equal")
    return arrays


def _load(path: str | Path) -> "np.ndarray | np.lib.npyio.NpzFile":
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; make it with trtlab calib-data") from error
    except Exception as error:  # NumPy's header parser raises ValueError, SyntaxError, EOFError, tokenize errors
        raise InputError(f"{path} is not a .npy tensor ({error}); make it with trtlab calib-data") from error


def _member(archive: "np.lib.npyio.NpzFile", path: str | Path, name: str) -> np.ndarray:
    if name not in archive.files:
        raise InputError(f"{path} holds {', '.join(archive.files) or 'nothing'}, but no {name}; add it by that name")
    try:
        return archive[name]
    except Exception as error:  # zipfile's and zlib's errors, and those of NumPy's header parser
        raise InputError(f"{name} in {path} cannot be read ({error}); write the file again with numpy.savez") from error


def _fitting(path: str | Path, name: str, tensor: np.ndarray, spec: InputSpec, has_batch: bool = True) -> np.ndarray:
    """Return the tensor where it fits the input, whose batch, if it has one, it need not keep to."""
    kinds = "f" if spec.dtype.kind == "f" else "b" if spec.dtype.kind == "b" else "iu"
    sizes = (*spec.best[:1], *tensor.shape[1:]) if has_batch and tensor.ndim else tensor.shape
    if not (tensor.dtype.kind in kinds and spec.takes(sizes)):
        wanted = spec.described().removeprefix(f"{spec.name} ")
        dtype, _, axes = wanted.partition(" [")
        axes = ", ".join([*(["n"] if has_batch else []), *axes.rstrip("]").split(", ")[has_batch:]])
        how = "as trtlab calib-data writes it" if has_batch else "the same for all samples: it has no batch"
        found = f"{tensor.dtype} {list(tensor.shape)}"
        raise InputError(f"{path} holds{name} {found}; needed is {dtype} [{axes}], {how}")
    if spec.limit is not None and tensor.size and not (-spec.limit <= tensor.min() <= tensor.max() < spec.limit):
        raise InputError(
            f"{path} holds{name or ' indices'} up to {tensor.max()}; the model's table has {spec.limit} rows"
        )
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
    images: list[Path], path: str | Path, *, preprocessing: Preprocessing = IMAGENET, batch: int = 16
) -> Iterator[int]:
    """Write the images preprocessed as float32 [n, C, H, W], and FILE.json; yields how many are done, batch by batch.

    Batches go straight to the file, so memory does not grow with their number; a memory map would do that too, but it
    ends the process when the disk is full.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(images), *preprocessing.shape)}
    with atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            done = 0
            for rows in preprocessing.batches(images, batch):
                file.write(rows.astype("<f4", copy=False).data)
                done += len(rows)
                yield done
        write_beside(path, preprocessing, content=temporary)


def _batch_size(source: str, available: int, fixed_batch: int | None) -> int:
    needed = max(_MIN_IMAGES, fixed_batch or 0)
    if available < needed:
        raise InputError(
            f"calibration needs at least {needed} images, {source} has {available}; some hundred give good scales"
        )
    return fixed_batch or _best_batch(available)


def _best_batch(available: int) -> int:
    """Return the largest batch up to 8 that leaves no image over: TensorRT takes whole batches of one size."""
    return next((batch for batch in _BATCHES if available % batch == 0), 1)


def _checked(batch: np.ndarray, source: str) -> np.ndarray:
    if not np.isfinite(batch).all():
        raise InputError(f"{source} holds NaN or infinite values; make it again with trtlab calib-data")
    return np.ascontiguousarray(batch)
