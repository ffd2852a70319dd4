"""Visible checks of step 4: the calibration images, the calibrator, and the engine that is built with it."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import ENGINE
from helpers.feedback.checklist import Checklist, visible_check
from helpers.lab import PROFILE_BATCHES, artifact, artifact_path
from helpers.missed import Missed
from helpers.probes.builds import plan_facts, recorded_builds
from helpers.probes.calibration import CalibrationRun, ImageList, play_tensorrt, read_scales
from helpers.probes.capture import captured
from helpers.probes.image_folders import noise_png, plain_png, write_folder
from helpers.probes.networks import EDGE, tiny_onnx

__all__ = ["check_calibration_dataset", "check_calibrator", "check_int8_calibration", "check_int8_engine"]

_IMAGE = (3, EDGE, EDGE)
_COLOURS = {"red": (255, 0, 0), "orange": (250, 120, 10), "blue": (0, 0, 255)}
_NORMALISED = {"red": (2.2489, -2.0357, -1.8044), "orange": (2.1633, 0.0651, -1.6302), "blue": (-2.1179, -2.0357, 2.64)}
"""The plain colours after ImageNet's mean and standard deviation, by channel: red, green, blue."""

_BATCH, _IMAGES = 2, 5
_CACHE = b"TRT-8600-EntropyCalibration2\ninput: 3c010a14\noutput: 3d189ef9\n"
_LARGEST_INPUT = 2.64
"""No normalised pixel is above this: white in the blue channel."""

_MOST_BYTES = 0.45
"""Share of the ONNX file's size that an INT8 engine may take; FP16 needs half of it."""


@visible_check("04_int8", "Calibration images")
def check_calibration_dataset(check: Checklist, CalibrationDataset: Callable[[str, int], Any]) -> None:
    """Check length, type, normalisation, colour order, resize and crop on images whose result is known."""
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{name}/{name}.png": plain_png(colour) for name, colour in _COLOURS.items()}
        write_folder(folder, {**files, "red/wide.png": _framed(640, 320), "blue/grey.png": noise_png(1, 300, 260, "L")})
        read = _named("CalibrationDataset", lambda number: _items(CalibrationDataset(folder, number)))
        images = check.call("it reads a folder of five images", read, 1000)
        few = check.call("it reads two of them", read, 2)
    check.verify("num_samples limits the images", lambda: _number(len(images), len(few)))
    check.require("an image is float32 (3, 224, 224)", lambda: _tensor(images))
    check.verify("colours are normalised, in the order red, green, blue", lambda: _colours(images))
    check.verify("the middle of a wide image is cut out, nothing is squeezed", lambda: _cropped(images))


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give `function` the name of what the student writes, for the messages about it."""
    function.__name__ = name
    return function


def _items(dataset: Any) -> list[np.ndarray]:
    return [np.asarray(dataset[index]) for index in range(len(dataset))]


def _framed(width: int, height: int) -> bytes:
    """Return an image whose middle, the part that is kept, is white and the rest black."""
    import io

    from PIL import Image

    side = round(EDGE * height / 256)
    pixels = np.zeros((height, width, 3), np.uint8)
    top, left = (height - side) // 2, (width - side) // 2
    pixels[top : top + side, left : left + side] = 255
    with io.BytesIO() as stream:
        Image.fromarray(pixels).save(stream, format="PNG")
        return stream.getvalue()


def _number(most: int, few: int) -> str:
    if (most, few) != (5, 2):
        raise Missed("5 images for num_samples=1000 and 2 for 2", f"{most} and {few}", "look at __len__")
    return "5 of 5, 2 of 5"


def _tensor(images: list[np.ndarray]) -> str:
    found = sorted({f"{image.dtype} {image.shape}" for image in images})
    if found != [f"float32 {_IMAGE}"]:
        raise Missed(f"float32 {_IMAGE}", ", ".join(found), "convert to float32 last, channels first: transpose")
    return found[0]


def _colours(images: list[np.ndarray]) -> str:
    means = [image.mean(axis=(1, 2)) for image in images]
    for name, expected in _NORMALISED.items():
        nearest = min(means, key=lambda mean: float(np.abs(mean - expected).max()))
        if np.abs(nearest - expected).max() > 1e-3:
            said = ", ".join(f"{value:.3f}" for value in nearest)
            wanted = ", ".join(f"{value:.3f}" for value in expected)
            raise Missed(f"plain {name} to become {wanted}", f"at best {said}", "divide by 255, then mean, then std")
    return f"{', '.join(_NORMALISED)} within 1e-3"


def _cropped(images: list[np.ndarray]) -> str:
    lightest = max(images, key=lambda image: float(image.mean()))
    inner = float(lightest[:, 4:-4, 4:-4].min())
    if inner < 2:
        found = f"a darkest value of {inner:.2f} in it (white is above 2.2)"
        raise Missed("the white middle of a 640×320 image alone", found, "shorter side to 256, then the middle 224×224")
    return "640×320 → 224×224"


@visible_check("04_int8", "Calibrator")
def check_calibrator(check: Checklist, Int8EntropyCalibrator: Callable[[Any, str], Any]) -> None:
    """Play TensorRT's part: ask for batches, read the device memory, hand over a cache, ask again."""
    from torch.utils.data import DataLoader

    images = np.random.default_rng(4).standard_normal((_IMAGES, *_IMAGE), dtype=np.float32)
    loader = DataLoader(ImageList(images), batch_size=_BATCH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.cache"
        calibrator = check.call("it takes a loader and a file name", Int8EntropyCalibrator, loader, str(path))
        play = _named("Int8EntropyCalibrator", _play)
        first = check.call("it answers TensorRT's calls", play, calibrator)
        check.require("each batch can be read at its address", lambda: _usable(first))
        check.verify("batches arrive as float32, in order", lambda: _batches(first, images))
        check.verify("the short last batch is left out or filled up", lambda: _last(first, images))
        check.verify("then comes None", lambda: _ended(first))
        check.verify("the cache is written as it was handed over", lambda: _written(path))
        path.write_bytes(_CACHE)
        later = check.call("a new one finds the cache", lambda: _play(Int8EntropyCalibrator(loader, str(path))))
        check.verify("the cache is read", lambda: _read_back(later))
        path.unlink()
        again = check.call("the first one starts again", play, calibrator)
    check.verify("a second build gets the same batches", lambda: _again(first, again))


def _play(calibrator: Any) -> CalibrationRun:
    return play_tensorrt(calibrator, _IMAGE, -(-_IMAGES // _BATCH), _CACHE)


def _usable(run: CalibrationRun) -> str:
    if run.fault or run.cache:
        found = run.fault or "a cache, though there is no file"
        raise Missed("batches at device addresses", found, "keep the device memory in an attribute, return [int(…)]")
    return f"{len(run.batches)} batches of {run.batch_size}"


def _batches(run: CalibrationRun, images: np.ndarray) -> str:
    whole = _IMAGES // _BATCH
    expected = images[: whole * _BATCH].reshape(whole, _BATCH, *_IMAGE)
    equal = sum(np.array_equal(given, batch) for given, batch in zip(run.batches, expected, strict=False))
    if equal < whole:
        raise Missed(f"{whole} whole batches, bit for bit", f"{equal}", "copy a contiguous float32 array, all of it")
    return f"{whole} batches, bit for bit"


def _last(run: CalibrationRun, images: np.ndarray) -> str:
    whole = _IMAGES // _BATCH
    if len(run.batches) <= whole:
        return "left out"
    if not all(np.array_equal(row, images[-1]) for row in run.batches[whole]):
        found = "something else beside the last image, such as what was there before"
        raise Missed("the last image alone, repeated, or no such batch", found, "TensorRT always reads whole batches")
    return "filled up with its own images"


def _ended(run: CalibrationRun) -> str:
    if not run.ended or not _IMAGES // _BATCH <= len(run.batches) <= -(-_IMAGES // _BATCH):
        found = f"{len(run.batches)} batches" + ("" if run.ended else " and no end")
        raise Missed(
            f"None after {_IMAGES // _BATCH} or {-(-_IMAGES // _BATCH)} batches", found, "return None at the end"
        )
    return f"after {len(run.batches)} batches"


def _written(path: Path) -> str:
    found = path.read_bytes() if path.is_file() else None
    if found != _CACHE:
        said = "no file" if found is None else f"{len(found)} other bytes"
        raise Missed(f"{len(_CACHE)} bytes in cache_file", said, "write the bytes in binary mode")
    return f"{len(_CACHE)} bytes"


def _read_back(run: CalibrationRun) -> str:
    if run.cache != _CACHE:
        found = run.fault or ("nothing" if not run.cache else "other bytes")
        raise Missed("the bytes of cache_file", found, "read the file when read_calibration_cache is called")
    return f"{len(_CACHE)} bytes, and no batch"


def _again(first: CalibrationRun, again: CalibrationRun) -> str:
    equal = len(first.batches) == len(again.batches) and all(map(np.array_equal, first.batches, again.batches))
    if again.fault or not equal:
        found = again.fault or f"{len(again.batches)} batches after {len(first.batches)}, or other ones"
        raise Missed("the same batches again", found, "an iterator that is used up stays empty")
    return f"{len(again.batches)} batches"


@visible_check("04_int8", "INT8 engine")
def check_int8_engine(check: Checklist, build_engine_int8: Callable[..., Any], calibrator: Callable[..., Any]) -> None:
    """Build small networks with the student's calibrator: once, again, and another model after it."""
    from torch.utils.data import DataLoader

    with tempfile.TemporaryDirectory() as name:
        folder, asked = Path(name), []
        for seed in (1, 2):
            (folder / f"{seed}.onnx").write_bytes(tiny_onnx(seed))

        def build_network(seed: int) -> Any:
            images = np.random.default_rng(seed).standard_normal((8, *_IMAGE), dtype=np.float32)
            made = _counting(calibrator, asked)(DataLoader(ImageList(images), batch_size=8), str(folder / "cache"))
            return build_engine_int8(str(folder / f"{seed}.onnx"), str(folder / "engine"), made)

        build = _named("build_engine_int8", build_network)
        with recorded_builds():
            returned = check.call("build_engine_int8 builds a small network", build, 1)
            check.require("it returns a serialized engine in INT8", lambda: _in_int8(returned))
            check.verify("the profile is (1, 8, 32)", lambda: _profile(bytes(returned)))
            check.verify("the file holds the same bytes", lambda: _same_file(folder / "engine", bytes(returned)))
            check.require("the calibrator was asked for batches", lambda: _asked(asked, True))
            asked.clear()
            check.call("it builds a second time", build, 1)
            check.verify("the second build uses the cache", lambda: _asked(asked, False))
            asked.clear()
            check.call("it builds another model with the same cache file", build, 2)
            check.verify("another model's cache is not used", lambda: _asked(asked, True))


def _counting(make: Any, asked: list[int]) -> Any:
    """Return the calibrator class with its calls of get_batch counted."""

    def get_batch(self: Any, *args: Any) -> Any:
        asked.append(1)
        return make.get_batch(self, *args)

    return type(make.__name__, (make,), {"get_batch": get_batch})


def _in_int8(returned: Any) -> str:
    facts = plan_facts(bytes(returned)) if returned is not None else None
    if facts is None:
        found = f"a {type(returned).__name__}"
        raise Missed("the serialized network", found, "None is a failed build: its log says why; raise then")
    if not facts["precisions"].get("int8") and ENGINE != "tensorrt":
        raise Missed("layers in INT8", str(facts["precisions"]), "set the flag that allows INT8, and the calibrator")
    return f"layers by precision: {facts['precisions']}"


def _profile(plan: bytes) -> str:
    expected = [[batch, *_IMAGE] for batch in PROFILE_BATCHES]
    found = [profile.get("input") for profile in (plan_facts(plan) or {}).get("profiles", [])]
    if expected not in found:
        raise Missed(str(expected), str(found), "set one profile as in step 3, and add it to the configuration")
    return f"batches {', '.join(map(str, PROFILE_BATCHES))}"


def _same_file(path: Path, plan: bytes) -> str:
    if not path.is_file() or path.read_bytes() != plan:
        raise Missed("the engine at engine_path", "no file or other bytes", "write exactly what you return")
    return f"{len(plan):,} bytes"


def _asked(asked: list[int], wanted: bool) -> str:
    if bool(asked) != wanted:
        expected = "a new calibration" if wanted else "no batch, since the cache is of this very ONNX file"
        try_this = "a cache belongs to one ONNX file's content: remember which one, and compare"
        raise Missed(expected, f"{len(asked)} calls of get_batch", try_this)
    return f"{len(asked)} calls of get_batch"


@visible_check("04_int8", "Calibrated engine")
def check_int8_calibration(check: Checklist) -> None:
    """Check that the engine and the cache of the lab's model are there, and that the scales are plausible."""
    plan, cache = artifact_path("resnet50_int8.engine"), artifact_path("resnet50_calib.cache")
    check.require("resnet50_int8.engine and resnet50_calib.cache are there", lambda: _there(plan, cache))
    with captured():
        facts = plan_facts(plan.read_bytes())
    check.require("the engine can be loaded", lambda: _loaded(facts))
    check.verify("most of its weights take one byte", lambda: _small(plan))
    check.verify("the input's range fits normalised images", lambda: _range(cache.read_bytes()))


def _there(*paths: Path) -> str:
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise Missed("both files", f"no {' and no '.join(missing)}", "run the calibration cell above")
    return ", ".join(f"{path.stat().st_size:,} bytes" for path in paths)


def _loaded(facts: dict[str, Any] | None) -> str:
    if facts is None:
        raise Missed("an engine of this TensorRT", "a file that it cannot load", "build it again on this machine")
    return f"{facts['layers']} layers"


def _small(plan: Path) -> str:
    share = plan.stat().st_size / artifact("resnet50_simplified.onnx").stat().st_size
    if share > _MOST_BYTES:
        expected = f"less than {_MOST_BYTES:.0%} of the ONNX file's size"
        raise Missed(expected, f"{share:.0%}", "allow INT8; was the cache of another network read?")
    return f"{share:.0%} of the ONNX file's size"


def _range(cache: bytes) -> str:
    scale = read_scales(cache).get("input")
    if scale is None:
        raise Missed("a scale for the tensor 'input'", "none", "write the cache's bytes unchanged")
    if not 0.5 * _LARGEST_INPUT < 127 * scale < 1.1 * _LARGEST_INPUT:
        found = f"±{127 * scale:.2f}"
        raise Missed(f"a range of about ±{_LARGEST_INPUT}", found, "calibrate on images preprocessed as for inference")
    return f"±{127 * scale:.2f}"
