"""CalibrationDataset(data_dir, num_samples): which images of a folder it takes, and how it preprocesses them.

Only the grader knows the right pixels to 1e-5 (solutions/checks/s04_int8.py). The points here ask what shows without
them: the colour of a framed picture, and files that must give the same as others.
"""

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.task import Task
from helpers.checks.probes import image_folders as pictures
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.listings import reversed_listings
from helpers.checks.probes.student import one_each
from helpers.toys.networks import EDGE

FUNCTION = "CalibrationDataset"
SHAPE = (3, EDGE, EDGE)
TOLERANCE = 1e-5
"""Largest difference of a right value; float32 arithmetic in another order changes the last bits, about 5e-7."""

_READS = 3  # of each file: a random flip of one of five is missed once in 1,000 cases
# sizes whose shorter side becomes 256 without rounding
_SIZES = ((128, 200), (800, 512), (240, 240), (98, 98), (1600, 1024))

_COLOUR, _BECOMES = (255, 120, 10), (2.2489, 0.0651, -1.6302)  # red, green, blue, and their normalised values
_COLOUR_OFF = 1e-3  # the figures above have four decimals
_PLACES = [(4, 4), (4, 219), (219, 4), (219, 219), (112, 112)]  # rows and columns, away from edges blurred by resizing
_SMALL = 98  # an image's edge: 98 × (256 / 98) is slightly below 256 in floats, and 255 after int()
_EVEN, _UNEVEN = (10, 10, 10, 10), (2, 9, 13)  # files per class of two folders
_KINDS = ("a/1.png", "a/2.jpg", "b/3.jpeg", "b/4.gif", "b/5.jpeg.txt")  # of which three are images

DATASET = Task("calibration_dataset", check="check_calibration_dataset", takes=(FUNCTION,))


@probe
def read_images(notebook: Notebook, *, files: list[bytes]) -> list[np.ndarray]:
    """Return each file's image, as the only one of a folder and read a few times: an array [reads, …]."""
    found = []
    for content in files:
        with tempfile.TemporaryDirectory() as folder:
            pictures.write_folder(folder, {"class/image.png": content})
            dataset = notebook[FUNCTION](folder, 1)
            found.append(np.stack([np.array(dataset[0]) for _ in range(_READS)]))
    return found


@probe
def dataset_shades(
    notebook: Notebook, *, files: Mapping[str, bytes], num_samples: int, indices: list[int], backwards: bool
) -> tuple[int, list[float]]:
    """Return len(CalibrationDataset(folder of `files`, num_samples)), and the means of the images at `indices`.

    `backwards`: the dates and the folder's listing are in reverse order of the names.
    """
    listing = reversed_listings() if backwards else contextlib.nullcontext()
    with tempfile.TemporaryDirectory() as folder, listing:
        pictures.write_folder(folder, files)
        for date, name in enumerate(sorted(files, reverse=backwards)):
            os.utime(Path(folder) / name, (date, date))
        dataset = notebook[FUNCTION](folder, num_samples)
        held = [dataset[index] for index in indices]  # at once, as a DataLoader's batch
        return len(dataset), [float(np.mean(np.asarray(image))) for image in held]


def photos(case: Case) -> list[bytes]:
    """Return pictures of noise in several sizes, drawn for this case."""
    return [pictures.noise_image(case.number("dataset.photos") + size[0], *size) for size in _SIZES]


def steady(case: Case, files: Sequence[bytes]) -> list[np.ndarray]:
    """Return the files' images; raise Missed if one of them changes from read to read."""
    found = one_each(case.call(read_images, files=list(files)).require(FUNCTION), files, "files")
    changing = sum(not np.array_equal(image, np.broadcast_to(image[0], image.shape)) for image in found)
    advice = "use no random crop or flip, and do not change stored arrays in place"
    agree({"images that change": changing}, {"images that change": 0}, f"each file read {_READS} times", advice)
    return [image[0] for image in found]


@DATASET.point("dataset.tensor", 0.5, "An image is float32 of shape (3, 224, 224)")
def tensor(case: Case) -> str:
    images, right = case.call(read_images, files=photos(case)).require(FUNCTION), f"float32 of shape {SHAPE}"
    found = sorted({f"{image.dtype} of shape {image.shape[1:]}" for image in images})
    advice = "put channels first with transpose(2, 0, 1); keep mean and deviation in float32: TensorRT reads raw memory"
    agree({"each": " or ".join(found)}, {"each": right}, f"{len(images)} images", advice)
    return f"{len(images)} images of {right}"


@DATASET.point("dataset.pixels", 2, "Images are preprocessed as in the model's training")
def pixels(case: Case) -> str:
    right = {f"pixel {place}": _BECOMES for place in _PLACES}
    for width, height in ((640, 320), (320, 640)):
        (image,) = steady(case, [pictures.framed_png(width, height, _COLOUR)])
        what = f"a {width}×{height} picture, its shorter side resized to 256, the centre cropped"
        advice = "keep the aspect ratio, crop the centre, channels first, divide by 255, subtract MEAN, divide by STD"
        agree(image.shape, SHAPE, what, advice)
        found = {f"pixel {place}": image[:, place[0], place[1]].tolist() for place in _PLACES}
        agree(found, right, what, advice, atol=_COLOUR_OFF)
    small = pictures.noise_image(case.number("dataset.small"), _SMALL, _SMALL)
    what = f"a {_SMALL}×{_SMALL} picture to give the same as after a bilinear resize to 256×256"
    advice = "make the shorter side exactly 256 (int() turns 255.99 into 255), with the bilinear filter"
    alike(steady(case, [small]), steady(case, [pictures.as_rgb(small, 256)]), what, advice)
    return f"the colour at the centre of 640×320 and 320×640; {_SMALL}×{_SMALL} as after a resize to 256×256"


def alike(found: Sequence[np.ndarray], right: Sequence[np.ndarray], what: str, advice: str) -> None:
    """Raise Missed if an image differs from the right one."""
    pairs = zip(found, right, strict=True)
    worst = max(np.abs(image - truth).max() if image.shape == truth.shape else np.inf for image, truth in pairs)
    if not worst <= TOLERANCE:
        raise Missed(what, f"a difference of {worst:.3g} (normalised values run from about -2.1 to 2.6)", advice)


@DATASET.point("dataset.greyscale", 0.5, "Greyscale, palette and RGBA files become RGB")
def converted(case: Case) -> str:
    seed = case.number("dataset.grey")
    files = [pictures.noise_image(seed + index, 350, 280, mode) for index, mode in enumerate(("L", "P", "RGBA"))]
    what, advice = "the same image as from an RGB file", 'call convert("RGB") before you resize the image'
    alike(steady(case, files), steady(case, [pictures.as_rgb(content) for content in files]), what, advice)
    return "the same images as from RGB files"


@DATASET.point("dataset.number", 0.5, "num_samples is respected")
def number(case: Case) -> str:
    kinds = dict.fromkeys(_KINDS, pictures.plain_png([9] * 3))
    folders = {"40 images": _classes(case, _EVEN), "24 images": _classes(case, _UNEVEN), ", ".join(_KINDS): kinds}
    asked = [(there, most) for there in folders for most in (10, 1000)]
    found = {f"{most} of {there}": _shades(case, folders[there], most)[0] for there, most in asked}
    right = dict(zip(found, (10, 40, 10, 24, 3, 3), strict=True))
    advice = "count only .png, .jpg and .jpeg files, and no more than there are"
    agree(found, right, "len(dataset) for num_samples", advice)
    return "6 lengths of even and uneven folders; 3 images among files of many kinds"


def _shades(
    case: Case, files: dict[str, bytes], most: int, indices: Sequence[int] = (), backwards: bool = False
) -> tuple[int, list[float]]:
    asked = {"files": files, "num_samples": most, "indices": list(indices), "backwards": backwards}
    return case.call(dataset_shades, **asked).require(FUNCTION)


@DATASET.point("dataset.spread", 0.5, "Always the same images, spread over the classes")
def spread(case: Case) -> str:
    shades = np.sort(_listed(case, _EVEN, sum(_EVEN)))
    _listed(case, _UNEVEN, sum(_UNEVEN))
    classes = np.searchsorted(shades, _listed(case, _EVEN, 26)) // _EVEN[0]
    found = ", ".join(map(str, sorted(np.bincount(classes, minlength=len(_EVEN)))))
    advice = "take files at equal steps through the sorted list, or from each class in turn"
    agree({"per class": found}, {"per class": "6, 6, 7, 7"}, "26 images of four classes of ten", advice)
    return "26 of 40 images, evenly from all classes"


def _listed(case: Case, sizes: tuple[int, ...], part: int) -> list[float]:
    """Return the means of `part` images in order; raise Missed if they are not steady or not all different."""
    files, there_and_back = _classes(case, sizes), [*range(part), *reversed(range(part))]
    _, means = _shades(case, files, part, there_and_back)
    _, others = _shades(case, files, part, range(part), backwards=True)
    found = {"read backwards": means[part:][::-1], "with other dates": others, "different": len(set(means))}
    right = dict.fromkeys(("read backwards", "with other dates"), means[:part]) | {"different": part}
    advice = "sort the files by name, use each once, and choose none by chance, date or directory order"
    agree(found, right, f"the mean values of {part} images", advice)
    return means[:part]


def _classes(case: Case, sizes: tuple[int, ...]) -> dict[str, bytes]:
    """Return plain images, each class lighter than the one before, each image of its own shade."""
    names = [f"class{number}" for number in case.random("dataset.names").permutation(100)[: len(sizes)]]
    return {
        f"{name}/{index}.png": pictures.plain_png([40 + 50 * rank + 3 * index] * 3)
        for rank, (name, size) in enumerate(zip(names, sizes, strict=True))
        for index in range(size)
    }
