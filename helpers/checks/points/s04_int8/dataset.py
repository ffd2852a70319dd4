"""CalibrationDataset(data_dir, num_samples): which images of a folder, and what becomes of a pixel.

What a right pixel is to 1e-5 only the grader knows (solutions/checks/s04_int8.py). The points here ask what can be told
without: a picture of two plain colours, files that must give the same as others.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import short
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
# sizes whose shorter side becomes 256 with nothing to be rounded; the last is a JPEG
_SIZES = ((128, 200), (800, 512), (240, 240), (98, 98), (1600, 1024))

# plain colours, and the image that they become by channel: red, green, blue
_COLOURS = {(255, 0, 0): (2.2489, -2.0357, -1.8044), (250, 120, 10): (2.1633, 0.0651, -1.6302)}
_COLOUR_OFF = 1e-3  # the figures above have four decimals
_BLURRED = 0.06  # the share of the pixels of `framed_png` that may differ: those along its edges, which resizing blurs
_SMALL = 98  # an image's edge: 98 × (256 / 98) is a bit less than 256 in floats, and 255 where that is cut
_EVEN, _UNEVEN = (10, 10, 10, 10), (2, 9, 13)  # files of each class of two folders

DATASET = Task("calibration_dataset", check="check_calibration_dataset", takes=(FUNCTION,))


@probe
def read_images(notebook: Notebook, *, files: list[bytes]) -> list[np.ndarray | str]:
    """Return what each file becomes as the only image of a folder, read a few times: an array [reads, …]."""
    make, found = notebook[FUNCTION], []
    for content in files:
        with tempfile.TemporaryDirectory() as folder:
            pictures.write_folder(folder, {"class/image.png": content})  # Pillow goes by the content
            dataset = make(folder, 1)
            items = [_array(dataset[0]) for _ in range(_READS)]
        found.append(np.stack(items) if isinstance(items[0], np.ndarray) else items[0])
    return found


def _array(item: Any) -> np.ndarray | str:
    return np.array(item) if hasattr(item, "__array__") else type(item).__name__


@probe
def dataset_length(notebook: Notebook, *, files: Mapping[str, bytes], num_samples: int) -> int:
    """Return len(CalibrationDataset(folder of `files`, num_samples))."""
    with tempfile.TemporaryDirectory() as folder:
        pictures.write_folder(folder, files)
        return len(notebook[FUNCTION](folder, num_samples))


@probe
def dataset_shades(notebook: Notebook, *, files: Mapping[str, bytes], num_samples: int) -> dict[str, list[float]]:
    """Return the mean of each image: in order, read `backwards`, and of a `copy` with other dates, listed otherwise."""
    make = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as copy:
        for seed, place in enumerate((folder, copy)):
            for date, name in enumerate(np.random.default_rng(seed).permutation(sorted(files)).tolist()):
                pictures.write_folder(place, {name: files[name]})
                os.utime(Path(place) / name, (date, date))
        found = {"shades": _shades(make(folder, num_samples)), "backwards": _shades(make(folder, num_samples), -1)}
        with reversed_listings():
            return {**found, "copy": _shades(make(copy, num_samples))}


def _shades(dataset: Any, step: int = 1) -> list[float]:
    held = [dataset[index] for index in range(len(dataset))[::step]]  # at once, as a DataLoader's batch
    return [float(np.mean(np.asarray(image))) for image in held][::step]


def photos(case: Case) -> list[bytes]:
    """Return noise in pictures of several sizes, the case's own."""
    seed = case.number("dataset.photos")
    kinds = ["PNG"] * (len(_SIZES) - 1) + ["JPEG"]
    return [pictures.noise_image(seed + size[0], *size, kind=kind) for size, kind in zip(_SIZES, kinds, strict=True)]


def read(case: Case, files: Sequence[bytes]) -> list[np.ndarray]:
    """Return what files become in a few reads, each [reads, …]; raise Missed where that is no image."""
    found = one_each(case.call(read_images, files=list(files)).require(FUNCTION), files, "files")
    for image in found:
        if isinstance(image, str):
            advice = "return the image alone, with no class beside it"
            raise Missed("an image from dataset[0], an array or a tensor", f"a {image}", advice)
    return found


def steady(case: Case, files: Sequence[bytes]) -> list[np.ndarray]:
    """Return what files become; raise Missed where one of them changes from read to read."""
    found = read(case, files)
    if not all(np.array_equal(image, np.broadcast_to(image[0], image.shape)) for image in found):
        advice = "no random crop or flip, and nothing changed in place that is kept"
        raise Missed("the same values each time an image is read", f"others within {_READS} readings", advice)
    return [image[0] for image in found]


@DATASET.point("dataset.tensor", 0.5, "An image is float32 of shape (3, 224, 224)")
def tensor(case: Case) -> str:
    images, right = [image[0] for image in read(case, photos(case))], f"float32 of shape {SHAPE}"
    wrong = {f"{image.dtype} of shape {image.shape}" for image in images} - {right}
    if wrong:
        advice = "channels first: transpose(2, 0, 1); keep mean and deviation in float32, for TensorRT reads raw memory"
        raise Missed(right, ", ".join(sorted(wrong)), advice)
    return f"{len(images)} images of {right}"


@DATASET.point("dataset.pixels", 2, "Images are preprocessed as the model was trained")
def pixels(case: Case) -> str:
    sizes = ((640, 320), (320, 640))
    images = steady(case, [pictures.framed_png(*size, *_COLOURS) for size in sizes])
    for size, image in zip(sizes, images, strict=True):
        _as_known(image, "×".join(map(str, size)))
    small = pictures.noise_image(case.number("dataset.small"), _SMALL, _SMALL)
    what = f"{_SMALL}×{_SMALL} to become what it does when Pillow's bilinear filter has made it 256×256"
    advice = "the shorter side is exactly 256: int() makes 255 of 255.99; give resize the bilinear filter"
    _alike(case, [small], [pictures.resized_png(small, 256)], what, advice)
    return f"two plain colours in the middle of 640×320 and 320×640; {_SMALL}×{_SMALL} by way of 256×256"


def _as_known(image: np.ndarray, size: str) -> None:
    """Raise Missed where an image is not the middle of `framed_png`, in its colours, neither turned nor squeezed."""
    framed = np.ones((EDGE, EDGE), bool)
    framed[EDGE // 4 : -EDGE // 4, EDGE // 4 : -EDGE // 4] = False
    framed[EDGE // 4 : EDGE // 2, EDGE // 2 : -EDGE // 4] = True
    light, dark = (np.array(figures)[:, None, None] for figures in _COLOURS.values())
    if image.shape != SHAPE:
        raise Missed(f"an image of shape {SHAPE}", f"{image.shape}", "cut out 224×224, channels first")
    off = np.abs(image - np.where(framed, light, dark)).max(axis=0) > _COLOUR_OFF
    if not off.mean() <= _BLURRED:
        found = image[:, :8, :8].mean(axis=(1, 2), dtype=float)
        wanted = (
            f"the middle of a {size} picture, its shorter side made 256; its corner becomes {short(list(light.flat))}"
        )
        raise Missed(
            wanted, f"{off.mean():.0%} of the pixels are others; the corner is {short(list(found))}", _cause(found)
        )


def _cause(found: np.ndarray) -> str:
    """Return advice for what the corner became: the known mistakes each leave a trace of their own."""
    place = "keep the ratio; Image.size is (width, height), crop(left, top, right, bottom), transpose(2, 0, 1)"
    traces = (
        (np.abs(found - next(iter(_COLOURS.values()))).max() <= _COLOUR_OFF, place),
        (np.abs(found).max() > 10, "divide by 255 before anything else"),
        (found.min() >= 0 and found.max() <= 1, "these are pixels from 0 to 1: subtract MEAN, then divide by STD"),
        (found[0] < found[2], "red and blue have changed places: Pillow gives red, green, blue, and so it must stay"),
    )
    other = "divide by 255, then subtract MEAN, then divide by STD, each by channel; cut out the middle"
    return next((advice for left, advice in traces if left), other)


def _alike(case: Case, files: Sequence[bytes], others: Sequence[bytes], what: str, advice: str) -> None:
    """Raise Missed where a file does not become what the other one does."""
    for image, right in zip(steady(case, files), steady(case, others), strict=True):
        if image.shape != right.shape or not np.allclose(image, right, rtol=0, atol=TOLERANCE):
            raise Missed(what, "other values", advice)


@DATASET.point("dataset.greyscale", 0.5, "Greyscale, palette and RGBA files become RGB")
def converted(case: Case) -> str:
    seed = case.number("dataset.grey")
    files = [pictures.noise_image(seed + index, 350, 280, mode) for index, mode in enumerate(("L", "P", "RGBA"))]
    what, advice = (
        "each to become what the same picture in RGB does",
        'convert("RGB") first, before the image is resized',
    )
    _alike(case, files, [pictures.as_rgb(content) for content in files], what, advice)
    return "as the same pictures in RGB"


@DATASET.point("dataset.number", 0.5, "num_samples is respected")
def number(case: Case) -> str:
    asked = [(_classes(case, sizes), most) for sizes in (_EVEN, _UNEVEN) for most in (10, 1000)]
    jpeg, gif = (pictures.plain_image([90, 120, 30], 256, 256, kind) for kind in ("JPEG", "GIF"))
    mixed = {"a/1.png": pictures.plain_png([9, 9, 9]), "a/2.jpg": jpeg, "b/3.jpeg": jpeg}
    mixed |= {"b/4.gif": gif, "b/5.jpeg.txt": b"a picture"}
    for files, most in (*asked, (mixed, 1000)):
        images = [name for name in files if name.endswith((".png", ".jpg", ".jpeg"))]
        found, right = (
            case.call(dataset_length, files=files, num_samples=most).require(FUNCTION),
            min(most, len(images)),
        )
        if found != right:
            kinds = ", ".join(sorted({Path(name).suffix for name in files}))
            what = f"a length of {right} for {len(files)} files ({kinds}) and num_samples={most}"
            raise Missed(
                what, f"{found}", "take the files that end in .png, .jpg or .jpeg, and never more than there are"
            )
    return "4 lengths of even and uneven folders; 3 images among files of many kinds"


@DATASET.point("dataset.spread", 0.5, "The images are spread over the classes, always the same ones")
def spread(case: Case) -> str:
    shades = np.sort(_listed(case, _EVEN, sum(_EVEN)))
    _listed(case, _UNEVEN, sum(_UNEVEN))
    return "of 40 images " + "; ".join(_evenly(_listed(case, _EVEN, part), shades) for part in (10, 26))


def _listed(case: Case, sizes: tuple[int, ...], part: int) -> list[float]:
    """Return the means of `part` images in order; raise Missed where they are not steady, or not all different."""
    found = case.call(dataset_shades, files=_classes(case, sizes), num_samples=part).require(FUNCTION)
    shades = found["shades"]
    if found["backwards"] != shades:
        raise Missed("dataset[i] to be image i, in whatever order you ask", "other images", "read self.files[index]")
    if found["copy"] != shades:
        what = "the same images from a copy of the folder with other dates, however it is listed"
        raise Missed(what, "others, or in another order", "sort the files by name; choose nothing by chance or by date")
    if not len(shades) == len(set(shades)) == part:
        said = f"{len(shades)} images, {len(set(shades))} different ones"
        raise Missed(f"{part} different images", said, "take each file at most once; an image is an array of its own")
    return shades


def _evenly(found: list[float], shades: np.ndarray) -> str:
    """Return evidence that `found` are evenly of the classes; `shades` are the sorted means of all images."""
    counts = np.bincount(np.searchsorted(shades, found) // _EVEN[0], minlength=len(_EVEN))
    said = ", ".join(map(str, counts))
    if counts.max() - counts.min() > 1:
        advice = "take files at equal steps over all of the sorted list, or the classes in turns"
        raise Missed(f"{len(found)} images of four classes of ten, as many of each", said, advice)
    return f"{len(found)}: {said}"


def _classes(case: Case, sizes: tuple[int, ...]) -> dict[str, bytes]:
    """Return plain images, each class lighter than the one before, every image of its own shade."""
    names = [f"class{number}" for number in case.random("dataset.names").permutation(100)[: len(sizes)]]
    return {
        f"{name}/{index}.png": pictures.plain_png([40 + 50 * rank + 3 * index] * 3)
        for rank, (name, size) in enumerate(zip(names, sizes, strict=True))
        for index in range(size)
    }
