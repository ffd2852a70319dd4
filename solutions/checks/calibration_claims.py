"""Claims of step 4 on its first two parts: the images that calibrate, and the calibrator that hands them over."""

import math
from itertools import product
from typing import Any

import numpy as np
from PIL import Image

from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.image_folders import noise_png, plain_image, plain_png
from helpers.probes.networks import EDGE
from helpers.probes.student import Student
from solutions.checks.core.claim import claim
from solutions.checks.operations.calibration import random_images, sampled_order

DATASET, CALIBRATOR = "CalibrationDataset", "Int8EntropyCalibrator"
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
TOLERANCE = 1e-5
SIZES = ((300, 400), (333, 257), (256, 256), (641, 320), (200, 181))
BATCH, IMAGES = 3, 20
"""Six whole batches of the calibrator's loader, and a seventh one that is an image short."""

PARTS = (8, 10, 13, 26)
"""Of forty images in four classes."""


def _items(student: Student, files: dict[str, bytes], number: int) -> list[np.ndarray]:
    return student.call("dataset_items", files=files, num_samples=number).require(DATASET)["items"]


def references(png: bytes) -> list[np.ndarray]:
    """Return what [3, 224, 224] an image may become: Pillow's resize and crop, with every way of rounding sizes."""
    import io

    image = Image.open(io.BytesIO(png)).convert("RGB")
    ratio = 256 / min(image.size)
    found = []
    for whole, half in product((int, round, math.ceil), repeat=2):
        width, height = (256 if edge == min(image.size) else whole(edge * ratio) for edge in image.size)
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = half((width - EDGE) / 2), half((height - EDGE) / 2)
        pixels = np.asarray(resized.crop((left, top, left + EDGE, top + EDGE)), np.float32) / 255
        found.append(((pixels - MEAN) / STD).transpose(2, 0, 1))
    return found


def _compare(items: list[np.ndarray], pngs: list[bytes]) -> str:
    """Return evidence that the items are these images in any order; each image must be met by one item."""
    worst = 0.0
    for png in pngs:
        expected = references(png)
        fitting = [item for item in items if item.shape == expected[0].shape]
        if not fitting:
            found = f"{len(items)} items, of shapes {sorted({item.shape for item in items})}"
            raise Missed("an item of shape (3, 224, 224) for every image", found, "check the shape of dataset[0]")
        error = min(float(np.abs(item - right).max()) for item in fitting for right in expected)
        worst = max(worst, error)
    if not worst <= TOLERANCE:
        raise Missed(
            f"every pixel within {TOLERANCE:g} of the reference preprocessing",
            f"a difference of {worst:.3g} (normalised values run from about -2.1 to 2.6)",
            "compare one image step by step: RGB, shorter side to 256, centre 224×224, divide by 255, mean, deviation",
        )
    return f"largest difference {worst:.1e} on {len(pngs)} images"


def _photos(case: Case) -> dict[str, bytes]:
    seed = case.number("dataset.photos")
    return {f"{'ab'[i % 2]}/{i}.png": noise_png(seed + i, *size) for i, size in enumerate(SIZES)}


@claim("dataset.tensor", cell="calibration_dataset", points=0.5, title="An item is float32 of shape (3, 224, 224)")
def tensor(student: Student, case: Case) -> str:
    items = _items(student, _photos(case), len(SIZES))
    found = {(str(item.dtype), item.shape) for item in items}
    if found != {("float32", (3, EDGE, EDGE))}:
        said = ", ".join(f"{dtype} {shape}" for dtype, shape in sorted(found)) or "no item"
        raise Missed("float32 (3, 224, 224)", said, "channels first, and float32: TensorRT reads raw memory")
    return f"{len(items)} items of float32 (3, 224, 224)"


@claim("dataset.pixels", cell="calibration_dataset", points=2, title="Preprocessing equals the reference to 1e-5")
def pixels(student: Student, case: Case) -> str:
    files = _photos(case)
    return _compare(_items(student, files, len(files)), list(files.values()))


@claim("dataset.greyscale", cell="calibration_dataset", points=0.5, title="Greyscale and palette files become RGB")
def greyscale(student: Student, case: Case) -> str:
    seed = case.number("dataset.grey")
    grey, palette = noise_png(seed, 280, 350, mode="L"), noise_png(seed + 1, 350, 280, mode="P")
    return _compare(_items(student, {"a/grey.png": grey, "b/palette.png": palette}, 2), [grey, palette])


@claim("dataset.number", cell="calibration_dataset", points=0.5, title="num_samples is respected")
def number(student: Student, case: Case) -> str:
    files = _plain(case)
    lengths = {
        asked: student.call("dataset_items", files=files, num_samples=asked).require(DATASET)["length"]
        for asked in (8, len(files), 1000)
    }
    expected = {asked: min(asked, len(files)) for asked in lengths}
    if lengths != expected:
        said = ", ".join(f"{length} for num_samples={asked}" for asked, length in lengths.items())
        raise Missed(
            f"at most num_samples of the {len(files)} images", f"lengths {said}", "look at __len__ and at the list"
        )
    mixed = _mixed()
    found = student.call("dataset_items", files=mixed, num_samples=1000).require(DATASET)["length"]
    if found != 3:
        kinds = ", ".join(name.partition("/")[2] for name in mixed)
        raise Missed(f"3 images among {kinds}", f"{found}", "take the files that end in .png, .jpg or .jpeg")
    return f"lengths by num_samples: {lengths}; 3 of {len(mixed)} files of many kinds"


def _mixed() -> dict[str, bytes]:
    """Return files of every ending that counts, and two that are no images."""
    jpeg = plain_image([90, 120, 30], 256, 256, "JPEG")
    files = {"a/one.png": plain_png([9, 9, 9]), "a/two.jpg": jpeg, "b/three.jpeg": jpeg}
    return {**files, "b/labels.txt": b"three: b\n", "b/Thumbs.db": b"\0"}


@claim("dataset.spread", cell="calibration_dataset", points=0.5, title="A part of the images holds all classes evenly")
def spread(student: Student, case: Case) -> str:
    files = _plain(case)
    shades = sorted(float(np.mean(item)) for item in _items(student, files, len(files)))
    if len(shades) != len(files):
        raise Missed(f"all {len(files)} images", f"{len(shades)}", "use every image where num_samples allows it")
    said = [_check_part(student, files, np.array(shades), part) for part in PARTS]
    return f"of 40 images {'; '.join(said)} by class"


def _check_part(student: Student, files: dict[str, bytes], shades: np.ndarray, part: int) -> str:
    reply = student.call("dataset_items", files=files, num_samples=part).require(DATASET)
    ranks = [int(np.argmin(np.abs(shades - float(np.mean(item))))) for item in reply["items"]]
    if len(set(ranks)) != len(ranks) or len(ranks) != part:
        raise Missed(f"{part} different images", f"{len(set(ranks))} different ones", "take each file at most once")
    counts = np.bincount([rank // 10 for rank in ranks], minlength=4)
    if counts.max() - counts.min() > 1:
        found = f"{', '.join(map(str, counts))} of the four classes"
        expected = f"{part} images of four classes of ten, {part // 4} or {-(-part // 4)} of each"
        raise Missed(expected, found, "do not take the first files of a sorted list")
    first = reply["items"][: len(reply["once_more"])]
    for others, found, advice in (
        (reply["once_more"], "other values when an item is read again", "don't change in place what you keep"),
        (reply["listed_otherwise"], "another order where the folder lists its files in another", "sort the files"),
    ):
        if len(others) != len(first) or not all(np.array_equal(a, b) for a, b in zip(first, others, strict=True)):
            raise Missed("the same images in the same order, always", found, advice)
    return f"{part}: {', '.join(map(str, counts))}"


def _plain(case: Case) -> dict[str, bytes]:
    """Return 40 plain images in four classes, each class darker than the next, every image of its own shade."""
    names = [f"class{number}" for number in case.random("dataset.names").permutation(100)[:4]]
    return {
        f"{name}/{index}.png": plain_png([40 + 50 * rank + 3 * index] * 3)
        for rank, name in enumerate(names)
        for index in range(10)
    }


def _cache(case: Case) -> bytes:
    scale = f"{case.number('calibrator.cache'):08x}"
    return f"TRT-8600-EntropyCalibration2\ninput: 3c8b{scale[4:]}\noutput: 3d18{scale[:4]}\n".encode()


def _runs(student: Student, case: Case) -> dict[str, Any]:
    seed = case.number("calibrator.images")
    call = student.call("calibrator_runs", seed=seed, number=IMAGES, batch=BATCH, cache=_cache(case))
    return call.require(CALIBRATOR)


def _given(student: Student, case: Case) -> list[np.ndarray]:
    """Return the batches of the first run; raise Missed where TensorRT could not have used one."""
    run = _runs(student, case)["first"]
    if run["fault"]:
        raise Missed("batches that TensorRT can use", run["fault"], "call get_batch in a cell of your own and look")
    if run["cache"]:
        raise Missed("no cache to read before the first build", f"{len(run['cache'])} bytes", "read cache_file only")
    return run["batches"]


def _sampled_images(case: Case) -> np.ndarray:
    """Return the images in the order in which the loader gives them."""
    seed = case.number("calibrator.images")
    return random_images(seed, IMAGES)[sampled_order(seed, IMAGES)]


@claim("calibrator.batches", cell="calibrator", points=1.25, title="The batches reach the device unchanged")
def batches(student: Student, case: Case) -> str:
    given, images = _given(student, case), _sampled_images(case)
    whole = IMAGES // BATCH
    for index in range(whole):
        expected = images[index * BATCH : (index + 1) * BATCH]
        if index >= len(given) or not np.array_equal(given[index], expected):
            found = "no batch" if index >= len(given) else _difference(given[index], expected)
            raise Missed(
                f"batch {index + 1} of {whole} at the address, float32 [{BATCH}, 3, 224, 224] in C order",
                found,
                "copy a contiguous float32 array to memory that lives as long as the calibrator",
            )
    return f"{whole} batches of float32 [{BATCH}, 3, 224, 224], bit for bit"


def _difference(given: np.ndarray, expected: np.ndarray) -> str:
    if given.shape != expected.shape:
        return f"a batch size of {len(given)}"
    return f"{np.mean(given != expected):.0%} of the values differ"


@claim("calibrator.last_batch", cell="calibrator", points=0.75, title="A short last batch is left out or filled up")
def last_batch(student: Student, case: Case) -> str:
    given, images = _given(student, case), _sampled_images(case)
    short = IMAGES // BATCH * BATCH
    if len(given) < short // BATCH:
        raise Missed("every whole batch first", f"{len(given)} batches", "ask the loader for the next batch each time")
    if len(given) == short // BATCH:
        return f"the last {IMAGES - short} images are left out"
    rows = given[short // BATCH]
    known = [int(any(np.array_equal(row, image) for image in images[short:])) for row in rows]
    if sum(known) < len(rows) or len({row.tobytes() for row in rows}) < IMAGES - short:
        raise Missed(
            f"only the last {IMAGES - short} images in the last batch, repeated to fill it, or no such batch",
            f"{len(rows) - sum(known)} of {len(rows)} places hold something else, such as images of an earlier batch",
            "TensorRT always reads a whole batch from the address: leave a short one out or fill it up",
        )
    return f"the last {IMAGES - short} images are repeated to fill {len(rows)} places"


@claim("calibrator.end", cell="calibrator", points=0.5, title="After the last batch comes None")
def end(student: Student, case: Case) -> str:
    run, most = _runs(student, case)["first"], -(-IMAGES // BATCH)
    if run["fault"] or not run["ended"] or not IMAGES // BATCH <= len(run["batches"]) <= most:
        found = run["fault"] or f"{len(run['batches'])} batches" + ("" if run["ended"] else " and still no end")
        raise Missed(f"{most - 1} or {most} batches, then None", found, "return None where the loader has no more")
    return f"None after {len(run['batches'])} batches"


@claim("calibrator.again", cell="calibrator", points=0.5, title="The same calibrator serves another build")
def again(student: Student, case: Case) -> str:
    runs = _runs(student, case)
    first, second = runs["first"], runs["again"]
    if not first["batches"] or second["fault"] or len(second["batches"]) != len(first["batches"]):
        found = second["fault"] or f"{len(second['batches'])} batches, {len(first['batches'])} the first time"
        raise Missed("the same batches for a second build", found, "a used-up iterator stays empty: make a new one")
    return f"{len(second['batches'])} batches again"


@claim("calibrator.cache_written", cell="calibrator", points=0.5, title="The cache on disk is what TensorRT gave")
def cache_written(student: Student, case: Case) -> str:
    runs, expected = _runs(student, case), _cache(case)
    if runs["file"] != expected:
        found = "no file" if runs["file"] is None else f"{len(runs['file'])} bytes: {runs['file'][:40]!r}"
        if runs["file"] is None and runs["first"]["fault"]:
            found += f" ({runs['first']['fault']})"
        raise Missed(f"the {len(expected)} bytes that were handed over", found, "write the bytes as they are")
    return f"{len(expected)} bytes"


@claim("calibrator.cache_read", cell="calibrator", points=0.5, title="A cache that is there is read, bytes for bytes")
def cache_read(student: Student, case: Case) -> str:
    runs = _runs(student, case)
    if runs["first"]["cache"]:
        raise Missed("None where there is no cache file", "something", "test whether the file exists")
    if runs["later"]["cache"] != _cache(case):
        found = runs["later"]["fault"] or "nothing" if not runs["later"]["cache"] else "other bytes"
        raise Missed("the bytes of cache_file", found, "return the file's bytes from read_calibration_cache")
    return "read by the next build, which then asks for no batch"
