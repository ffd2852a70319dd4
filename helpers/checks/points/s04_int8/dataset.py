"""CalibrationDataset(data_dir, num_samples): which images of a folder, and what becomes of a pixel.

What a right pixel is to 1e-5 only the grader knows (solutions/checks/s04_int8.py). The points here ask what can be told
without: plain colours, a picture whose middle is known, files that must give the same as others.
"""

import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import point
from helpers.checks.points.s04_int8.session import in_new_session
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.image_folders import (
    as_rgb,
    framed_png,
    noise_image,
    plain_image,
    plain_png,
    resized_png,
    write_folder,
)
from helpers.checks.probes.listings import reversed_listings
from helpers.toys.networks import EDGE

FUNCTION = "CalibrationDataset"
SHAPE = (3, EDGE, EDGE)
TOLERANCE = 1e-5
"""Largest difference of a value that is right; float32 arithmetic in another order moves the last bits, about 5e-7."""

_READS = 8
"""How often each of five images is read: a random flip stays unseen once in 2^35."""

_SIZES = ((240, 400), (333, 257), (256, 256), (1600, 1100), (200, 181))
"""Shorter sides below and above 256, and below 224; the large one is a JPEG, whose decoder could make it smaller."""
_COLOURS = {(255, 0, 0): (2.2489, -2.0357, -1.8044), (250, 120, 10): (2.1633, 0.0651, -1.6302)}
"""Plain colours, and the image that they become by channel: red, green, blue."""

_COLOUR_OFF = 1e-3  # the figures above have four decimals
_MISPLACED = 0.03
"""Share of the pixels of `framed_png` that one pixel's shift moves over an edge, either way of rounding: 0.018."""

_SMALL, _SHORTER = 98, 256
"""An image's edge, and what it is made: 98 × (256 / 98) is a bit less than 256 in floats, and 255 where that is cut."""

_PARTS = (8, 10, 13, 26)
"""Of forty images in four classes: one part that the classes divide, three that they do not."""

_UNEVEN = (2, 9, 13)
"""Files of three classes."""

Images = dict[str, np.ndarray]


class ReadImage(TypedDict):
    """What `read_images` answers of one file."""

    first: np.ndarray | str
    steady: bool


class Shades(TypedDict):
    """What `dataset_shades` answers."""

    shades: list[float | str]
    anew: list[float | str]


@probe
def read_images(notebook: Notebook, *, files: Mapping[str, bytes], times: int) -> dict[str, ReadImage]:
    """Return what each file becomes as the only image of a folder, by name: as read `first`, whether it stays so.

    It is read `times` times; a type's name stands for what is no image.
    """
    make = notebook[FUNCTION]
    found = {}
    for name, content in files.items():
        with tempfile.TemporaryDirectory() as folder:
            write_folder(folder, {name: content})
            dataset = make(folder, 1)
            items = [_array(dataset[0]) for _ in range(times)]
            steady = all(np.array_equal(item, items[0]) for item in items[1:])
            found[name] = {"first": items[0], "steady": steady}
    return found


def _array(item: Any) -> np.ndarray | str:
    """Return an image as an array; a text that says what came where one image was to come."""
    return type(item).__name__ if isinstance(item, (type(None), tuple, list, dict)) else np.array(item)


@probe
def dataset_length(notebook: Notebook, *, files: Mapping[str, bytes], num_samples: int) -> int:
    """Return len(CalibrationDataset(folder of `files`, num_samples)); the folder held the first one alone before."""
    make = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, dict(list(files.items())[:1]))
        len(make(folder, 1))
        write_folder(folder, files)
        return len(make(folder, num_samples))


@probe
def dataset_shades(notebook: Notebook, *, files: Mapping[str, bytes], num_samples: int) -> Shades:
    """Return the mean of each image, in order: `shades`, and `anew` from a copy listed otherwise, in a new kernel."""
    make = notebook[FUNCTION]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as copy:
        write_folder(folder, files)
        write_folder(copy, files)  # at another path: what the order of a set tells of the path's hash
        shades = _shades(make(folder, num_samples), len(files))
        make = in_new_session({FUNCTION: make})[FUNCTION]
        make(folder, num_samples)  # what a generator gives next differs from its first
        with reversed_listings():
            anew = make(copy, num_samples)
        return {"shades": shades, "anew": _shades(anew, len(files))}


def _shades(dataset: Any, most: int) -> list[float | str]:
    held = [dataset[index] for index in range(min(len(dataset), most))]  # at once, as a DataLoader's batch
    images = map(_array, held)
    return [image if isinstance(image, str) else float(np.mean(image)) for image in images]


def read(case: Case, files: Mapping[str, bytes], times: int = 1) -> dict[str, tuple[np.ndarray, bool]]:
    """Return what `read_images` answers, every image an array of numbers, and whether it was the same each time."""
    found = case.call(read_images, files=files, times=times).require(FUNCTION)
    if found.keys() != files.keys():
        raise Missed(f"an image of each of {len(files)} files", f"{len(found)}", "restart the kernel, run all cells")
    _returned(_kind(each["first"]) for each in found.values())
    return {name: (found[name]["first"], found[name]["steady"]) for name in files}


def _kind(image: np.ndarray | str) -> np.ndarray | str:
    """Return an image of numbers as it is; else its type's name."""
    return f"value of type {image.dtype}" if isinstance(image, np.ndarray) and image.dtype.kind not in "iuf" else image


def _returned(images: Iterable[Any]) -> None:
    for kind in (image for image in images if isinstance(image, str)):
        none = kind == type(None).__name__
        advice = "does __getitem__ end with a return?" if none else "return the image alone, with no class beside it"
        raise Missed("an image from dataset[0], an array or a tensor", "None" if none else f"a {kind}", advice)


def photos(case: Case) -> dict[str, bytes]:
    """Return noise in pictures of several sizes, files by name, the case's own."""
    seed = case.number("dataset.photos")
    kinds = {(width, height): "JPEG" if width > 1000 else "PNG" for width, height in _SIZES}
    return {  # Pillow goes by the content; which endings count is asked elsewhere
        f"class/{width}x{height}.png": noise_image(seed + width, width, height, kind=kind)
        for (width, height), kind in kinds.items()
    }


def _shaped(case: Case, files: Mapping[str, bytes]) -> Images:
    images = {name: image for name, (image, _) in read(case, files).items()}
    wrong = sorted({image.shape for image in images.values()} - {SHAPE})
    if wrong:
        found = ", ".join(map(str, wrong))
        raise Missed(f"every image of shape {SHAPE}", found, "cut out 224×224; channels first: transpose(2, 0, 1)")
    return images


@point("An image is float32 of shape (3, 224, 224)")
def tensor(case: Case) -> str:
    images = _shaped(case, photos(case))
    types = sorted({str(image.dtype) for image in images.values()})
    if types != ["float32"]:
        advice = "TensorRT reads raw memory: convert, and keep mean and deviation in float32"
        raise Missed("float32", ", ".join(types), advice)
    return f"{len(images)} images of float32 {SHAPE}"


@point("Colours are normalised, in the order red, green, blue")
def colours(case: Case) -> str:
    files = {f"class/{index}.png": plain_png(colour) for index, colour in enumerate(_COLOURS)}
    for (colour, expected), image in zip(_COLOURS.items(), _shaped(case, files).values(), strict=True):
        found = image.astype(np.float64).mean(axis=(1, 2))
        if not np.abs(image - np.array(expected)[:, None, None]).max() <= _COLOUR_OFF:
            raise Missed(f"plain {colour} to become {_figures(expected)}", _figures(found), _cause(found, expected))
    return f"{len(_COLOURS)} plain colours within {_COLOUR_OFF:g}"


def _figures(values: Any) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _cause(found: np.ndarray, expected: tuple[float, ...]) -> str:
    """Return advice for what a plain colour became: the known mistakes each leave a trace of their own."""
    if np.abs(found).max() > 10:
        return "divide by 255 before anything else"
    if found.min() >= 0 and found.max() <= 1:
        return "these are pixels from 0 to 1: subtract MEAN, then divide by STD"
    if found[0] < found[2]:
        return "red and blue have changed places: Pillow gives red, green, blue, and so it must stay"
    return "divide by 255, then subtract MEAN, then divide by STD, each by channel"


@point("The middle of a wide or tall image is cut out, nothing is squeezed")
def cropped(case: Case) -> str:
    files = {f"class/{width}x{height}.png": framed_png(width, height) for width, height in ((640, 320), (320, 640))}
    expected = np.ones((EDGE, EDGE), bool)
    expected[EDGE // 4 : -EDGE // 4, EDGE // 4 : -EDGE // 4] = False
    expected[EDGE // 4 : EDGE // 2, EDGE // 2 : -EDGE // 4] = True
    for name, image in _shaped(case, files).items():
        light = image[0] > (float(image[0].min()) + float(image[0].max())) / 2
        misplaced = float(np.mean(light != expected))
        if misplaced > _MISPLACED:
            size = name[len("class/") : -len(".png")]
            raise Missed(
                f"the middle of a {size} picture, its shorter side made 256, neither turned nor mirrored",
                f"{misplaced:.0%} of the pixels are of another place",
                "keep the ratio; Image.size is (width, height), crop(left, top, right, bottom), transpose(2, 0, 1)",
            )
    _exactly_256(case)
    return f"640×320 and 320×640 → 224×224; {_SMALL}×{_SMALL} by way of {_SHORTER}×{_SHORTER}"


def _exactly_256(case: Case) -> None:
    """Raise Missed where a square image becomes another than when resized beforehand; nothing is rounded there."""
    small = noise_image(case.number("dataset.small"), _SMALL, _SMALL)
    image, expected = _shaped(case, {"a/1.png": small, "b/1.png": resized_png(small, _SHORTER)}).values()
    if not _equal(image, expected):
        what = (
            f"{_SMALL}×{_SMALL} to become what it does when Pillow's bilinear filter has made it {_SHORTER}×{_SHORTER}"
        )
        found = f"values that differ by up to {np.abs(image - expected).max():.2f}"
        advice = "the shorter side is exactly 256: int() makes 255 of 255.99; give resize the bilinear filter"
        raise Missed(what, found, advice)


@point("An image is the same each time it is read")
def steady(case: Case) -> str:
    found = read(case, photos(case), _READS)
    if not all(same for _, same in found.values()):
        advice = "no random crop or flip, and nothing changed in place that is kept"
        raise Missed("the same values at each reading", f"others within {_READS} readings", advice)
    return f"{_READS} readings of {len(found)} images"


@point("Greyscale and palette files become RGB")
def converted(case: Case) -> str:
    steady(case)  # what changes from reading to reading cannot be compared
    seed = case.number("dataset.grey")
    modes = {"a/grey.png": "L", "b/palette.png": "P", "c/rgba.png": "RGBA"}
    files = {name: noise_image(seed + index, 350, 280, mode) for index, (name, mode) in enumerate(modes.items())}
    expected = read(case, {name: as_rgb(content) for name, content in files.items()})
    reply = case.call(read_images, files=files, times=1)
    advice = 'convert("RGB") comes first, before the image is resized'
    if reply.error is not None:
        said = f"{reply.error['type']}: {reply.error['message']}"
        raise Missed("greyscale, palette and RGBA files to be read", said[:200], advice)
    for name, (image, _) in read(case, files).items():
        if not _equal(image, expected[name][0]):
            raise Missed(f"{name[2:]} to become what the same picture in RGB does", "other values", advice)
    first, second, _ = (image for image, _ in expected.values())
    if _equal(first, second):
        raise Missed("other values for another picture", "the same ones", "read the file that the index stands for")
    return "as the same pictures in RGB"


def _equal(image: np.ndarray, other: np.ndarray) -> bool:
    return image.shape == other.shape and bool(np.allclose(image, other, rtol=0, atol=TOLERANCE))


@point("num_samples is respected")
def number(case: Case) -> str:
    even, uneven, mixed = _classes(case, (10,) * 4), _classes(case, _UNEVEN), _mixed()
    advice = "look at __len__; each object lists its folder itself; classes may be of other sizes"
    asked = [(even, 8), (even, 10), (even, 40), (even, 1000), (uneven, 11), (uneven, 22), (uneven, 1000)]
    for files, most in asked:
        _check_length(case, files, most, min(most, len(files)), advice)
    kinds = ", ".join(name.partition("/")[2] for name in mixed)
    _check_length(case, mixed, 1000, 3, f"of {kinds} take the files that end in .png, .jpg or .jpeg")
    return f"{len(asked)} lengths of even and uneven folders; 3 of {len(mixed)} files of many kinds"


def _check_length(case: Case, files: dict[str, bytes], most: int, expected: int, advice: str) -> None:
    found = case.call(dataset_length, files=files, num_samples=most).require(FUNCTION)
    if found != expected:
        raise Missed(f"a length of {expected} for {len(files)} files and num_samples={most}", f"{found}", advice)


@point("The images are spread over the classes, always the same ones")
def spread(case: Case) -> str:
    files = _classes(case, (10,) * 4)
    shades = np.sort(_listed(case, files, len(files)))
    if len(shades) != len(files):
        raise Missed(f"all {len(files)} images", f"{len(shades)}", "use every image where num_samples allows it")
    _each_once(_listed(case, _classes(case, _UNEVEN), sum(_UNEVEN)))
    return "of 40 images " + "; ".join(_evenly(_listed(case, files, part), shades, part) for part in _PARTS)


def _each_once(found: list[float]) -> None:
    if len(set(found)) != len(found):
        expected = f"each file at most once, also where classes have {', '.join(map(str, _UNEVEN))} files"
        said = f"{len(found)} images, {len(set(found))} different ones"
        raise Missed(expected, said, "leave a class out once it is used up")


def _listed(case: Case, files: dict[str, bytes], part: int) -> list[float]:
    found = case.call(dataset_shades, files=files, num_samples=part).require(FUNCTION)
    _returned(found["shades"])
    if found["anew"] != found["shades"]:
        what = "the same images in the same order in a new kernel, and from a copy of the folder, however it is listed"
        raise Missed(what, "others", "sort the files; choose nothing by chance, by hash() or in the order of a set")
    return found["shades"]


def _evenly(found: list[float], shades: np.ndarray, part: int) -> str:
    """Return evidence that `found` are `part` different ones of the sorted `shades`, ten a class, evenly."""
    ranks = {int(np.argmin(np.abs(shades - shade))) for shade in found}
    if len(ranks) != part or len(found) != part:
        raise Missed(
            f"{part} different images",
            f"{len(ranks)} different ones",
            "take each file at most once; an image is an array of its own",
        )
    counts = np.bincount([rank // 10 for rank in ranks], minlength=4)
    said = ", ".join(map(str, counts))
    if counts.max() - counts.min() > 1:
        each = " or ".join(map(str, sorted({part // 4, -(-part // 4)})))
        expected = f"{part} images of four classes of ten, {each} of each"
        advice = (
            "take files at equal steps over all of the sorted list, or the classes in turns; leave nothing to chance"
        )
        raise Missed(expected, said, advice)
    return f"{part}: {said}"


def _classes(case: Case, sizes: tuple[int, ...]) -> dict[str, bytes]:
    """Return plain images, each class lighter than the one before, every image of its own shade."""
    names = [f"class{number}" for number in case.random("dataset.names").permutation(100)[: len(sizes)]]
    return {
        f"{name}/{index}.png": plain_png([40 + 50 * rank + 3 * index] * 3)
        for rank, (name, size) in enumerate(zip(names, sizes, strict=True))
        for index in range(size)
    }


def _mixed() -> dict[str, bytes]:
    """Return files of every ending that counts, and three of others."""
    jpeg = plain_image([90, 120, 30], 256, 256, "JPEG")
    gif = plain_image([20, 90, 60], 256, 256, "GIF")
    files = {"a/one.png": plain_png([9, 9, 9]), "a/two.jpg": jpeg, "b/three.jpeg": jpeg}
    return {**files, "b/three.jpeg.txt": b"three: b\n", "b/Thumbs.db": b"\0", "b/moving.gif": gif}
