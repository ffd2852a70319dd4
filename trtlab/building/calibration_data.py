"""What an INT8 calibration reads: batches from a folder of images or tensors on disk, and TensorRT's cache files."""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.tools.files import atomic_path, read_file
from trtcpu.calibration_cache import CalibrationCache, parse_cache
from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec, Shape, batched, count, taken
from trtlab.images.preprocessing import IMAGENET, Preprocessing, find_images
from trtlab.images.preprocessing_record import write_beside

_MIN_IMAGES = 2
_MOST_BATCH = 8


@dataclass
class CalibrationBatches:
    """Batches by input, each [batch_size, *sample_shapes[name]]; only whole batches are used."""

    source: str
    batch_size: int
    available: int
    sample_shapes: dict[str, Shape]
    _batches: Iterator[dict[str, np.ndarray]]

    def told(self, report: Callable[[str], None]) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches, and tell of each.

        Raises:
            InputError: a value is NaN or infinite, or what `_batches` raises.
        """
        number = self.available // self.batch_size
        for index, batch in enumerate(itertools.islice(self._batches, number), start=1):
            if not all(np.isfinite(array).all() for array in batch.values()):
                raise InputError(f"{self.source} holds NaN or infinite values; make it again with trtlab calib-data")
            report(f"calibrating: batch {index} of {number}")
            yield {name: np.ascontiguousarray(array) for name, array in batch.items()}


def image_batches(
    folder: str | Path, preprocessing: Preprocessing, name: str, fixed_batch: int | None, count: int | None = None
) -> CalibrationBatches:
    """Return preprocessed batches for the input `name`, of all images or of `count`, spread over the sorted paths.

    Raises:
        InputError: no folder, fewer images than asked for or too few, or a count that the model's fixed batch does not
            divide; an image that cannot be read raises when its batch is asked for.
    """
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
    arrays, cut = _loaded(path, inputs), batched(inputs)
    for name, spec in inputs.items():
        _check_fits(path, arrays[name], spec, name in cut)
    if len({len(arrays[name]) for name in cut}) > 1:
        counts = ", ".join(f"{name} {len(arrays[name])}" for name in cut)
        raise InputError(f"{path} has another number of samples for each input ({counts}); make them equal")
    return arrays


def _loaded(path: str | Path, inputs: Collection[str]) -> dict[str, np.ndarray]:
    """Return the tensors of an .npz that are named as inputs, or the one of a .npy as the only input's."""
    try:
        file = np.load(path, mmap_mode="r", allow_pickle=False)
        single = isinstance(file, np.ndarray)
        arrays = {} if single else {name: file[name] for name in inputs if name in file.files}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; make it with trtlab calib-data") from error
    except Exception as error:  # those of zipfile and zlib; ValueError, SyntaxError, EOFError of NumPy's header parser
        raise InputError(f"{path} is no .npy or .npz of tensors ({error}); make it with trtlab calib-data") from error
    if single and len(inputs) > 1:
        raise InputError(f"{path} holds one tensor, needed are {', '.join(inputs)}; give an .npz of named inputs")
    absent = [name for name in inputs if not single and name not in arrays]
    if absent:
        raise InputError(f"{path} holds {', '.join(file.files) or 'nothing'}, but no {absent[0]}; add it by that name")
    return dict.fromkeys(inputs, file) if single else arrays


def _check_fits(path: str | Path, tensor: np.ndarray, spec: InputSpec, has_batch: bool) -> None:
    """Raise InputError for a tensor that does not fit its input; the number of samples is not looked at."""
    kinds = spec.dtype.kind if spec.dtype.kind in "fb" else "iu"
    sizes = (*spec.best[:1], *tensor.shape[1:]) if has_batch and tensor.ndim else tensor.shape
    if not (tensor.dtype.kind in kinds and spec.takes(sizes)):
        dtype, _, axes = spec.described().removeprefix(f"{spec.name} ").partition(" [")
        axes = ", ".join(["n", *axes.split(", ")[1:]]) if has_batch else axes
        how = "as trtlab calib-data writes it" if has_batch else "the same for all samples: it has no batch"
        found = f"{path} holds {spec.name} {tensor.dtype} {list(tensor.shape)}"
        raise InputError(f"{found}; needed is {dtype} [{axes.rstrip(']')}], {how}")
    if spec.limit is not None and tensor.size and not (-spec.limit <= tensor.min() <= tensor.max() < spec.limit):
        raise InputError(f"{path} holds {spec.name} up to {tensor.max()}; the model's table has {spec.limit} rows")


def read_cache(path: str | Path, inputs: Collection[str], tensors: Collection[str]) -> CalibrationCache:
    """Return a calibration cache that TensorRT or the CPU engine wrote for a network with these inputs and tensors.

    Of the inputs only those that have a scale are given: indices have none.

    Raises:
        InputError: the file is missing, empty, truncated, no calibration cache, or one of another network.
    """
    data = read_file(path, "calibration cache")
    try:
        cache = parse_cache(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    known = sum(name in tensors for name in cache.scales)
    if not all(name in cache.scales for name in inputs) or 2 * known < len(cache.scales):
        names = " and ".join(map(repr, inputs)) or "indices alone"
        raise InputError(
            f"calibration cache {path} belongs to another model: {known} of its {len(cache.scales)} tensors are in "
            f"this network, whose input is {names}; calibrate with --calib-npy or --calib-images"
        )
    return cache


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
    # the largest that leaves no image over: TensorRT takes whole batches of one size
    return fixed_batch or next(batch for batch in range(_MOST_BATCH, 0, -1) if available % batch == 0)
