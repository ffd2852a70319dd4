"""CalibrationDataset(data_dir, num_samples): which images of a folder, and what becomes of a pixel.

What a right pixel is to 1e-5 only the grader knows (solutions/checks/s04_int8.py). The points here ask what can be told
without: the colour of a framed picture, files that must give the same as others.
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
"""Largest difference of a value that is right; float32 arithmetic in another order moves the last bits, about 5e-7."""

_READS = 3  # of each file: a random flip of one of five stays unseen once in 1,000
# sizes whose shorter side becomes 256 with nothing to be rounded
_SIZES = ((128, 200), (800, 512), (240, 240), (98, 98), (1600, 1024))

_COLOUR, _BECOMES = (255, 120, 10), (2.2489, 0.0651, -1.6302)  # red, green, blue, and what they become
_COLOUR_OFF = 1e-3  # the figures above have four decimals
_PLACES = [(4, 4), (4, 219), (219, 4), (219, 219), (112, 112)]  # rows and columns, away from edges that resizing blurs
_SMALL = 98  # an image's edge: 98 × (256 / 98) is a bit less than 256 in floats, and 255 where that is cut
_EVEN, _UNEVEN = (10, 10, 10, 10), (2, 9, 13)  # files of each class of two folders
_KINDS = ("a/1.png", "a/2.jpg", "b/3.jpeg", "b/4.gif", "b/5.jpeg.txt")  # of which three are images

DATASET = Task("calibration_dataset", check="check_calibration_dataset", takes=(FUNCTION,))


@probe
def read_images(notebook: Notebook, *, files: list[bytes]) -> list[np.ndarray]:
    """Return what each file becomes as the only image of a folder, read a few times: an array [reads, …]."""
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

    `backwards`: the dates and the folder's listing run against the order of the names.
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
    """Return noise in pictures of several sizes, the case's own."""
    return [pictures.noise_image(case.number("dataset.photos") + size[0], *size) for size in _SIZES]


def steady(case: Case, files: Sequence[bytes]) -> list[np.ndarray]:
    """Return what files become; raise Missed where one of them changes from read to read."""
    found = one_each(case.call(read_images, files=list(files)).require(FUNCTION), files, "files")
    changing = sum(not np.array_equal(image, np.broadcast_to(image[0], image.shape)) for image in found)
    advice = "no random crop or flip, and nothing changed in place that is kept"
    agree(changing, 0, f"the files that change within {_READS} readings", advice)
    return [image[0] for image in found]


@DATASET.point("dataset.tensor", 0.5, "An image is float32 of shape (3, 224, 224)")
def tensor(case: Case) -> str:
    images, right = case.call(read_images, files=photos(case)).require(FUNCTION), f"float32 of shape {SHAPE}"
    found = {f"{image.dtype} of shape {image.shape[1:]}" for image in images}
    advice = "channels first: transpose(2, 0, 1); keep mean and deviation in float32, for TensorRT reads raw memory"
    agree(sorted(found), [right], f"{len(images)} images", advice)
    return f"{len(images)} images of {right}"


@DATASET.point("dataset.pixels", 2, "Images are preprocessed as the model was trained")
def pixels(case: Case) -> str:
    right = dict.fromkeys(_PLACES, _BECOMES)
    for width, height in ((640, 320), (320, 640)):
        (image,) = steady(case, [pictures.framed_png(width, height, _COLOUR)])
        what = f"rows and columns of the middle of a {width}×{height} picture, its shorter side made 256"
        advice = "keep the ratio, cut out the centre, channels first; divide by 255, subtract MEAN, divide by STD"
        agree(image.shape, SHAPE, what, advice)
        agree({place: image[:, place[0], place[1]].tolist() for place in right}, right, what, advice, atol=_COLOUR_OFF)
    small = pictures.noise_image(case.number("dataset.small"), _SMALL, _SMALL)
    what = f"{_SMALL}×{_SMALL} to become what it does when Pillow's bilinear filter has made it 256×256"
    advice = "the shorter side is exactly 256: int() makes 255 of 255.99; give resize the bilinear filter"
    alike(steady(case, [small]), steady(case, [pictures.as_rgb(small, 256)]), what, advice)
    return f"the colour in the middle of 640×320 and 320×640; {_SMALL}×{_SMALL} by way of 256×256"


def alike(found: Sequence[np.ndarray], right: Sequence[np.ndarray], what: str, advice: str) -> None:
    """Raise Missed where an image differs from the right one."""
    pairs = zip(found, right, strict=True)
    worst = max(np.abs(image - truth).max() if image.shape == truth.shape else np.inf for image, truth in pairs)
    if not worst <= TOLERANCE:
        raise Missed(what, f"a difference of {worst:.3g} (normalised values run from about -2.1 to 2.6)", advice)


@DATASET.point("dataset.greyscale", 0.5, "Greyscale, palette and RGBA files become RGB")
def converted(case: Case) -> str:
    seed = case.number("dataset.grey")
    files = [pictures.noise_image(seed + index, 350, 280, mode) for index, mode in enumerate(("L", "P", "RGBA"))]
    what, advice = "each to become what the same picture in RGB does", 'convert("RGB") before the image is resized'
    alike(steady(case, files), steady(case, [pictures.as_rgb(content) for content in files]), what, advice)
    return "as the same pictures in RGB"


@DATASET.point("dataset.number", 0.5, "num_samples is respected")
def number(case: Case) -> str:
    folders = [
        *(_classes(case, sizes) for sizes in (_EVEN, _UNEVEN)),
        dict.fromkeys(_KINDS, pictures.plain_png([9] * 3)),
    ]
    found = [[_shades(case, files, most)[0] for most in (10, 1000)] for files in folders]
    what = f"len(dataset) with num_samples=10 and 1000: of 40 images, of 24, and of {', '.join(_KINDS)}"
    agree(
        found, [[10, 40], [10, 24], [3, 3]], what, "take files that end in .png, .jpg or .jpeg, at most what is there"
    )
    return "6 lengths of even and uneven folders; 3 images among files of many kinds"


def _shades(
    case: Case, files: dict[str, bytes], most: int, indices: Sequence[int] = (), backwards: bool = False
) -> tuple[int, list[float]]:
    asked = {"files": files, "num_samples": most, "indices": list(indices), "backwards": backwards}
    return case.call(dataset_shades, **asked).require(FUNCTION)


@DATASET.point("dataset.spread", 0.5, "The images are spread over the classes, always the same ones")
def spread(case: Case) -> str:
    shades = np.sort(_listed(case, _EVEN, sum(_EVEN)))
    _listed(case, _UNEVEN, sum(_UNEVEN))
    classes = np.searchsorted(shades, _listed(case, _EVEN, 26)) // _EVEN[0]
    found = sorted(np.bincount(classes, minlength=len(_EVEN)).tolist())
    advice = "take files at equal steps over all of the sorted list, or the classes in turns"
    agree(found, [6, 6, 7, 7], "26 images of four classes of ten", advice)
    return "of 40 images, 26 evenly of all classes"


def _listed(case: Case, sizes: tuple[int, ...], part: int) -> list[float]:
    """Return the means of `part` images in order; raise Missed where they are not steady, or not all different."""
    files, there_and_back = _classes(case, sizes), [*range(part), *reversed(range(part))]
    _, means = _shades(case, files, part, there_and_back)
    _, others = _shades(case, files, part, range(part), backwards=True)
    found = {"read backwards": means[part:][::-1], "of a copy with other dates": others, "different": len(set(means))}
    right = dict.fromkeys(("read backwards", "of a copy with other dates"), means[:part]) | {"different": part}
    advice = "dataset[i] is image i, each file once; sort by name and choose nothing by chance, date or the listing"
    agree(found, right, f"the means of {part} images as they are in order", advice)
    return means[:part]


def _classes(case: Case, sizes: tuple[int, ...]) -> dict[str, bytes]:
    """Return plain images, each class lighter than the one before, every image of its own shade."""
    names = [f"class{number}" for number in case.random("dataset.names").permutation(100)[: len(sizes)]]
    return {
        f"{name}/{index}.png": pictures.plain_png([40 + 50 * rank + 3 * index] * 3)
        for rank, (name, size) in enumerate(zip(names, sizes, strict=True))
        for index in range(size)
    }
