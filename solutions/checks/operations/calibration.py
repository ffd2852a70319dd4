"""The student's side of step 4: reads the data set, plays TensorRT towards the calibrator, builds with it."""

import shutil
import tempfile
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from helpers.probes.answer import Notebook as Submission
from helpers.probes.answer import probe as operation
from helpers.probes.builds import as_bytes, failed_build, recorded_builds
from helpers.probes.calibration import ImageList, play_tensorrt
from helpers.probes.image_folders import write_folder
from helpers.probes.listings import reversed_listings
from helpers.probes.networks import EDGE

__all__ = [
    "build_int8",
    "calibrator_runs",
    "dataset_items",
    "failing_build_int8",
    "loader_prints",
    "print_of",
    "random_images",
    "sampled_order",
]

_IMAGE = (3, EDGE, EDGE)
_PRINT_CELLS = 8
_MOST_IMAGES = 2000
_AGAIN = 6


def random_images(seed: int, number: int, strength: float = 1.0) -> np.ndarray:
    """Return float32 [number, 3, 224, 224] of noise around `strength`, each image stronger than the one before.

    So the scales tell whether the last batches were used too.
    """
    noise = np.random.default_rng(seed).standard_normal((number, *_IMAGE), dtype=np.float32)
    return noise * np.linspace(strength / 4, strength * 4, number, dtype=np.float32)[:, None, None, None]


def print_of(image: np.ndarray) -> np.ndarray:
    """Return an image's fingerprint, float32 [192]: the means of 8×8 cells of each channel of [3, 224, 224]."""
    side = EDGE // _PRINT_CELLS
    cells = np.asarray(image, np.float32).reshape(3, _PRINT_CELLS, side, _PRINT_CELLS, side)
    return cells.mean(axis=(2, 4)).reshape(-1)


@operation
def dataset_items(submission: Submission, *, files: dict[str, bytes], num_samples: int) -> dict[str, Any]:
    """Make CalibrationDataset(folder, num_samples) over `files`; return its `length` and its `items` as arrays.

    `once_more` are the first items, read a second time; `listed_otherwise` the first items of another data set over
    the same files, in a folder that lists them in another order.
    """
    make = submission["CalibrationDataset"]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, files)
        dataset = make(folder, num_samples)
        length = len(dataset)
        few = range(min(length, len(files), _AGAIN))
        items = [np.array(dataset[index]) for index in range(min(length, len(files)))]
        once_more = [np.array(dataset[index]) for index in few]
        with reversed_listings():
            anew = make(folder, num_samples)
        return {
            "length": length,
            "items": items,
            "once_more": once_more,
            "listed_otherwise": [np.array(anew[index]) for index in few if index < len(anew)],
        }


def sampled_order(seed: int, number: int) -> list[int]:
    """Return the order in which the calibrator's loader gives its images."""
    return np.random.default_rng([seed, 1]).permutation(number).tolist()


@operation
def calibrator_runs(submission: Submission, *, seed: int, number: int, batch: int, cache: bytes) -> dict[str, Any]:
    """Drive Int8EntropyCalibrator over `number` random images through three builds.

    `first` starts without a cache, after another calibrator with other images was made and used. `again` is the same
    calibrator after its cache was removed. `later` is a new calibrator that finds the cache of before. `file` is the
    cache on disk after the first build. The loader's sampler gives the images in the order of `sampled_order`.
    """
    make = submission["Int8EntropyCalibrator"]
    loader = _loader(ImageList(random_images(seed, number)), batch, sampled_order(seed, number))
    others = _loader(ImageList(random_images(seed + 1, batch)), batch)
    expected = -(-number // batch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.cache"
        calibrator = make(loader, str(path))
        play_tensorrt(make(others, str(path.with_name("other.cache"))), _IMAGE, 1, cache)
        first = play_tensorrt(calibrator, _IMAGE, expected, cache)
        written = path.read_bytes() if path.is_file() else None
        path.unlink(missing_ok=True)
        again = play_tensorrt(calibrator, _IMAGE, expected, cache)
        path.write_bytes(cache)
        later = play_tensorrt(make(loader, str(path)), _IMAGE, expected, cache)
        runs = {"first": asdict(first), "again": asdict(again), "later": asdict(later)}
    return {**runs, "file": written, "batch_size": first.batch_size}


@operation
def build_int8(submission: Submission, *, models: list[bytes], builds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run build_engine_int8 several times in one folder, each time with a new calibrator.

    All ONNX files are there before the first build. A build is {"model": index, "seed", "number", "strength", "cache"}:
    the images that its loader gives in batches of 8, and the cache's name; with "copy_of" the file of that name is
    copied there first. Each result holds `returned`, `returned_type`, `file`, `cache` (the
    bytes on disk afterwards), `batches` (how often the calibrator was asked for one) and `builds`.
    """
    build, make = submission["build_engine_int8"], submission["Int8EntropyCalibrator"]
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for index, model in enumerate(models):
            (folder / f"model{index}.onnx").write_bytes(model)
        for number, wanted in enumerate(builds):
            cache = folder / wanted["cache"]
            if "copy_of" in wanted and (folder / wanted["copy_of"]).is_file():
                shutil.copyfile(folder / wanted["copy_of"], cache)
            images = random_images(wanted["seed"], wanted["number"], wanted["strength"])
            source, target = folder / f"model{wanted['model']}.onnx", folder / f"engine{number}.engine"
            asked: list[str] = []
            with recorded_builds() as seen:
                loader = _loader(ImageList(images), 8)
                returned = build(str(source), str(target), _watched(make, asked)(loader, str(cache)))
            results.append(
                {
                    "returned": as_bytes(returned),
                    "returned_type": type(returned).__name__,
                    "file": target.read_bytes() if target.is_file() else None,
                    "cache": cache.read_bytes() if cache.is_file() else None,
                    "batches": len(asked),
                    "builds": [asdict(found) for found in seen],
                }
            )
    return results


@operation
def failing_build_int8(submission: Submission, *, onnx: bytes, parsed: bool) -> dict[str, Any]:
    """Call build_engine_int8 where it must fail; the result is `failed_build`'s."""
    build, make = submission["build_engine_int8"], submission["Int8EntropyCalibrator"]
    loader = _loader(ImageList(random_images(0, 8)), 8)
    return failed_build(
        lambda source, target: build(source, target, make(loader, f"{source}.cache")), onnx, parsed=parsed
    )


@operation
def loader_prints(submission: Submission) -> np.ndarray | None:
    """Return the fingerprints [N, 192] of the images that the notebook's `loader` gives; None without a loader."""
    loader = submission.value("loader")
    if loader is None:
        return None
    images = (image for batch in loader for image in np.asarray(batch))
    prints = [print_of(image) for image in islice(images, _MOST_IMAGES)]
    return np.stack(prints) if prints else np.empty((0, 3 * _PRINT_CELLS**2), np.float32)


def _loader(dataset: ImageList, batch: int, order: list[int] | None = None) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=batch, sampler=order)


def _watched(make: Any, asked: list[str]) -> Any:
    """Return the student's calibrator class with its calls of get_batch noted."""

    def get_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append("get_batch")
        return make.get_batch(self, *args, **kwargs)

    return type(make.__name__, (make,), {"get_batch": get_batch})
