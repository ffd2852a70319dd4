"""How the preprocessing travels: ONNX metadata → ENGINE.json, and FILE.json beside calibration tensors and caches.

The options, the record and the model's input must agree; a contradiction is an error that names both sides. Without a
record the options decide. Without options too, the usual preprocessing is assumed, and a note says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cyclopts import Parameter

from helpers.tools.files import read_json, sha256, write_json
from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec, Shape, shape_text
from trtlab.images.preprocessing import IMAGENET, MOST_PIXELS, Preprocessing
from trtlab.options import Count, Numbers, Pixels, Size

if TYPE_CHECKING:
    from trtlab.engines.inference import InferenceEngine
    from trtlab.models.own_models import ModelInput

KEY = "preprocessing"
ONNX_KEY = f"trtlab.{KEY}"  # in a file's metadata others may have an entry of the shorter name


@Parameter(name="*")
@dataclass(frozen=True)
class Asked:
    """The preprocessing that the options ask for; None for what they leave out. `crop` is height and width.

    Attributes:
        mean: Mean to subtract from pixels in 0 to 1, one value per channel. Default: as recorded in the model.
        std: Standard deviation to divide by, one value per channel. Default: as recorded.
        resize: Length of the shorter side before the crop, in pixels. Default: as recorded.
        crop: Centre crop: 224, or 224x160 (height x width). Default: as recorded.
        channels: 3 for RGB, 1 for grey. Default: as recorded.
    """

    mean: Numbers | None = None
    std: Numbers | None = None
    resize: Count | None = None
    crop: Size | None = None
    channels: Pixels | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())

    def completed(self, channels: int, height: int, width: int) -> Preprocessing:
        """Return the whole record for images of this shape, the usual values if nothing was asked for.

        Raises:
            InputError: mean without std, or values that are impossible.
        """
        if (self.mean is None) != (self.std is None):
            given, other = ("--mean", "--std") if self.std is None else ("--std", "--mean")
            raise InputError(f"{given} is given without {other}; give both")
        given = {name: value for name, value in vars(self).items() if value is not None}
        return Preprocessing.usual(given.pop("channels", channels), *given.get("crop", (height, width)), **given)

    def agreed(self, where: str, recorded: Preprocessing) -> Preprocessing:
        """Return the record of `where`; raise InputError if an option contradicts it."""
        for name, value in vars(self).items():
            if value is not None and value != getattr(recorded, name):
                given = shape_text(value) if name == "crop" else " ".join(map(str, np.atleast_1d(value).tolist()))
                raise InputError(
                    f"--{name} {given} contradicts the preprocessing record of {where}: {recorded.described()}; "
                    "leave the option out, or export and build again with it"
                )
        return recorded


NOTHING = Asked()


def published(name: str, data: str, height: int, width: int) -> Preprocessing:
    """Return what a torchvision model's weights were evaluated with, at this crop; the lab's own take ImageNet's."""
    from torchvision import models

    if data == "digits" or name not in models.list_models(module=models):
        return Preprocessing.usual(3, height, width)
    weights = models.get_model_weights(name)
    found = getattr(weights, "IMAGENET1K_V1", weights.DEFAULT).transforms()
    values = {"mean": tuple(found.mean), "std": tuple(found.std), "interpolation": found.interpolation.value}
    if (height, width) == (found.crop_size[0], found.crop_size[0]):
        values["resize"] = found.resize_size[0]
    return Preprocessing.usual(3, height, width, **values)


def of_export(inputs: "Sequence[ModelInput]", asked: Asked, weights: tuple[str, str] | None) -> Preprocessing | None:
    """Return what to write into an ONNX file: what was asked for, else what is published for the `weights`.

    `weights` are a torchvision model's name and the data that they were trained for; None if nobody knows.

    Raises:
        InputError: options, and several inputs or one that takes no images of that shape.
    """
    specs = {
        each.name: _open_spec(
            each.name,
            str(each.dtype).removeprefix("torch."),
            each.shape(dict.fromkeys(each.traced, -1)),
            each.shape(each.traced),
        )
        for each in inputs
    }
    first = next(iter(specs.values()))
    if weights and not asked and len(specs) == 1 and _takes_images(first) and first.least[2:] == first.most[2:]:
        return published(*weights, *first.best[2:])
    return of_model(specs, ("the model", {}), asked, None, needed=False)[0]


def of_onnx(path: Path, asked: Asked = NOTHING) -> tuple[Preprocessing | None, str]:
    """Return what the images of an ONNX model go through, and a note if it had to be assumed.

    Raises:
        InputError: no ONNX model, no single image input, or options that contradict its record.
    """
    from trtlab.engines.network import parse_onnx  # here, since it starts the engine

    model = parse_onnx(path)
    specs = {
        name: _open_spec(name, model.dtypes[name], shape, (1, *IMAGENET.shape, *shape[4:]))
        for name, shape in model.inputs.items()
    }
    return of_model(specs, (str(path), model.metadata()), asked, None, needed=True)


def of_model(
    inputs: Mapping[str, InputSpec],
    model: tuple[str, Mapping[str, str]],
    asked: Asked,
    data: str | Path | None,
    needed: bool,
) -> tuple[Preprocessing | None, str]:
    """Return the preprocessing of a model, and a note if it had to be assumed.

    Args:
        inputs: what the model, or the engine to build of it, takes.
        model: the ONNX file's name and metadata.
        data: the tensor or the cache that calibrates; the record beside it counts if the model has none.
        needed: whether the model is given images, so that it may not stay open.

    Raises:
        InputError: model, options, data and inputs contradict each other.
    """
    where, metadata = model
    recorded = Preprocessing.from_dict(metadata[ONNX_KEY], where) if ONNX_KEY in metadata else None
    known = _agreed((where, recorded), (str(data), read_beside(data) if data else None))
    return _resolved(inputs, where, known, asked) if asked or needed or known else (None, "")


def common(engines: Sequence["InferenceEngine"], asked: Asked = NOTHING) -> tuple[Preprocessing, str]:
    """Return what the images of all engines go through, and a note if it had to be assumed.

    An engine without record goes by those that have one.

    Raises:
        InputError: an engine takes no images, its record is damaged, or two records, shapes or options contradict each
            other.
    """
    records = [_of_engine(engine) for engine in engines]
    known = _agreed(*records)
    without = ", ".join(where for where, record in records if record is None)
    note = f"{without} without preprocessing record: taken is that of {known[0]}" if known and without else ""
    for engine, (where, _) in zip(engines, records, strict=True):
        found, assumed = _resolved(engine.inputs, where, known, asked)
        known, note = known or (where, found), note or assumed
    return found, note


def check_tensor(engines: Sequence["InferenceEngine"], path: str | Path) -> None:
    """Raise InputError if the record beside a tensor and that of an engine it is fed to differ."""
    beside = str(path), read_beside(path)
    for engine in engines:
        _agreed(_of_engine(engine), beside)


def _of_engine(engine: "InferenceEngine") -> tuple[str, Preprocessing | None]:
    return f"engine {engine.path.name}", read_beside(engine.path)


def _agreed(*records: tuple[str, Preprocessing | None]) -> tuple[str, Preprocessing] | None:
    """Return the first that there is; raise InputError naming both if another one differs."""
    known = [(where, record) for where, record in records if record is not None]
    for where, record in known[1:]:
        if record != known[0][1]:
            raise InputError(
                f"{known[0][0]} is preprocessed by {known[0][1].described()}, {where} by {record.described()}; "
                "make one of them again with the other's"
            )
    return known[0] if known else None


def _resolved(
    inputs: Mapping[str, InputSpec], where: str, known: tuple[str, Preprocessing] | None, asked: Asked
) -> tuple[Preprocessing, str]:
    """Return the preprocessing of images for `inputs` of `where`: as is known, else as asked, and the note."""
    if len(inputs) != 1:
        raise InputError(f"{where} takes {', '.join(inputs)}; only a model of one image input can be given images")
    (spec,) = inputs.values()
    if not _takes_images(spec):
        raise InputError(f"{where} takes {spec.described()}, no grey or RGB images of [N, channels, height, width]")
    found = asked.agreed(*known) if known else asked.completed(*spec.best[1:])
    if not spec.takes((spec.best[0], *found.shape)):
        raise InputError(
            f"the preprocessing gives {list(found.shape)} ({found.described()}); {where} takes {spec.described()}; "
            "choose --crop, --channels or a profile that fit"
        )
    note = f"{where} has no preprocessing record; taken is the usual: {found.described()}"
    return found, "" if known or asked else note


def _takes_images(spec: InputSpec) -> bool:
    """Say whether an input takes grey or RGB images: floats of [N, 1 or 3, height, width]."""
    return spec.dtype.kind == "f" and len(spec.best) == 4 and spec.best[1] in (1, 3)


def _open_spec(name: str, dtype: str | np.dtype, shape: Shape, usual: Shape) -> InputSpec:
    """Return an input whose axes of -1 may have any size, at best that of the same axis in `usual`."""
    least = tuple(1 if size < 0 else size for size in shape)
    best = tuple(side if size < 0 else size for size, side in zip(shape, usual, strict=False))
    most = tuple(MOST_PIXELS if size < 0 else size for size in shape)
    return InputSpec(name, np.dtype(dtype), least, best, most)


def encoded(preprocessing: Preprocessing | None) -> dict[str, str]:
    """Return the record as an entry of an ONNX file's metadata; empty if there is none."""
    return {} if preprocessing is None else {ONNX_KEY: json.dumps(preprocessing.to_dict())}


def write_beside(path: str | Path, preprocessing: Preprocessing, *, content: str | Path | None = None) -> None:
    """Write FILE.json: what the images of FILE went through; until FILE is there, `content` has its bytes."""
    write_json(f"{path}.json", {"sha256": sha256(content or path), KEY: preprocessing.to_dict()})


def read_beside(path: str | Path) -> Preprocessing | None:
    """Return what FILE.json says of FILE; None without one, or if FILE has been written anew since.

    Raises:
        InputError: FILE.json is damaged.
    """
    beside = Path(f"{path}.json")
    if not beside.is_file() or not Path(path).is_file():
        return None
    content = read_json(beside, "record of an engine or of calibration data")
    found = content.get(KEY) if isinstance(content, dict) else None
    if found is None or ("sha256" in content and content["sha256"] != sha256(path)):
        return None
    return Preprocessing.from_dict(found, str(beside))
