"""How the preprocessing travels: ONNX metadata → ENGINE.json, and FILE.json beside calibration tensors and caches.

What is asked for (options), what is recorded and what the model takes must agree; a contradiction is an error that
names both sides. Only where nothing is recorded may options decide, and where they are silent too the usual one is
taken, which is said in a note.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cyclopts import Parameter

from helpers.tools.files import read_json, sha256, write_json
from trtcpu.errors import InputError
from trtlab.engines.tensors import InputSpec
from trtlab.images.preprocessing import MOST_PIXELS, Preprocessing, numbers
from trtlab.options import Count, Numbers, Pixels, Size

if TYPE_CHECKING:
    from trtlab.engines.inference import InferenceEngine
    from trtlab.models.model_inputs import ModelInput

KEY = "preprocessing"
ONNX_KEY = f"trtlab.{KEY}"
"""In a file's metadata, where others may have an entry of the shorter name."""
_USUAL_SIZE = 224


@Parameter(name="*")
@dataclass(frozen=True)
class Asked:
    """What the options say of the preprocessing; None where they say nothing. `crop` is height and width."""

    mean: Numbers | None = None
    """Subtracted from pixels of 0 to 1, one value a channel: 0.5 0.5 0.5; as recorded if left out."""
    std: Numbers | None = None
    """Then divided by, one value a channel; as recorded if left out."""
    resize: Count | None = None
    """Pixels of an image's shorter side before the crop; as recorded if left out."""
    crop: Size | None = None
    """What is cut from the centre: 224, or 224x160 (height x width); as recorded if left out."""
    channels: Pixels | None = None
    """3 for RGB, 1 for grey; as recorded if left out."""

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())

    def completed(self, channels: int, height: int, width: int) -> Preprocessing:
        """Return the whole record for images of this shape, the usual values where nothing was asked for.

        Raises:
            InputError: mean without std, or values that are impossible.
        """
        if (self.mean is None) != (self.std is None):
            given, other = ("--mean", "--std") if self.std is None else ("--std", "--mean")
            raise InputError(f"{given} is given without {other}; give both")
        height, width = self.crop or (height, width)
        others = {"mean": self.mean, "std": self.std, "resize": self.resize}
        given = {name: value for name, value in others.items() if value is not None}
        return Preprocessing.usual(self.channels or channels, height, width, **given)

    def check(self, recorded: Preprocessing, where: str) -> None:
        """Raise InputError where an option contradicts the record of `where`."""
        has = {**vars(recorded), "crop": (recorded.height, recorded.width)}
        for name, value in vars(self).items():
            if value is not None and value != has[name]:
                raise InputError(
                    f"--{name} {_shown(name, value)} contradicts the preprocessing record of {where}, which has "
                    f"{name} {_shown(name, has[name])}; leave the option out, or export and build again with it"
                )


NOTHING = Asked()


def resolve(
    spec: InputSpec, where: str, recorded: Preprocessing | None, asked: Asked = NOTHING
) -> tuple[Preprocessing, str]:
    """Return the preprocessing for an input, and a note in one line where it had to be assumed (else "").

    Args:
        spec: what the input takes.
        where: the file that has the input, for errors and the note.
        recorded: the record that came with it, or None.

    Raises:
        InputError: options against the record, or either against the shapes that the input takes.
    """
    if not image_input(spec):
        raise InputError(f"{where} takes {spec.described()}, no grey or RGB images of [N, channels, height, width]")
    if recorded is not None:
        asked.check(recorded, where)
    found = recorded or asked.completed(*spec.best[1:])
    if not spec.takes((spec.best[0], *found.shape)):
        raise InputError(f"the preprocessing gives {list(found.shape)} ({found.described()}); {where} takes "
                         f"{spec.described()}; choose --crop, --channels or a profile that fit")  # fmt: skip
    assumed = recorded is None and not asked
    return found, f"{where} has no preprocessing record; taken is the usual: {found.described()}" if assumed else ""


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

    `weights` are a torchvision model's name and the data that they were trained for; None where nobody knows.

    Raises:
        InputError: options, and several inputs or one that takes no images of that shape.
    """
    if len(inputs) != 1:
        if asked:
            names = ", ".join(each.name for each in inputs)
            raise InputError(f"the model takes {names}; only a model of one image input has a preprocessing")
        return None
    dtype = np.dtype(str(inputs[0].dtype).removeprefix("torch."))
    spec = open_spec(inputs[0].name, dtype, inputs[0].axes, inputs[0].traced)
    fixed = not {2, 3} & inputs[0].dynamic().keys()
    if asked:
        return resolve(spec, "the model", None, asked)[0]
    if weights and fixed and image_input(spec):
        return resolve(spec, "the model", published(*weights, *spec.best[2:]))[0]
    return None


def of_build(
    inputs: Mapping[str, InputSpec],
    model: tuple[str, Mapping[str, str]],
    asked: Asked,
    data: str | Path | None,
    needed: bool,
) -> tuple[Preprocessing | None, str]:
    """Return the preprocessing of an engine to build, and a note where it had to be assumed.

    Args:
        inputs: what the engine takes.
        model: the ONNX file's name and metadata.
        data: the tensor or the cache that calibrates; the record beside it counts where the model has none.
        needed: whether images calibrate, so that it may not stay open.

    Raises:
        InputError: model, options, data and inputs contradict each other.
    """
    where, metadata = model
    recorded = of_metadata(metadata, where)
    beside = read_beside(data) if data else None
    check_same(recorded, where, beside, str(data))
    if not (asked or needed or recorded or beside):
        return None, ""
    if len(inputs) != 1:
        raise InputError(f"{where} takes {', '.join(inputs)}; only a model of one image input can be given images")
    spec = next(iter(inputs.values()))
    if recorded is None and beside is not None:
        asked.check(beside, str(data))
        return resolve(spec, where, beside)
    return resolve(spec, where, recorded, asked)


def image_input(spec: InputSpec) -> bool:
    """Say whether an input takes grey or RGB images: floats of [N, 1 or 3, height, width]."""
    return spec.dtype.kind == "f" and len(spec.best) == 4 and spec.best[1] in (1, 3)


def check_same(recorded: Preprocessing | None, where: str, other: Preprocessing | None, other_where: str) -> None:
    """Raise InputError where both have a record and the records differ; it names both."""
    if recorded is not None and other is not None and recorded != other:
        raise InputError(
            f"{where} is preprocessed by {recorded.described()}, {other_where} by {other.described()}; "
            "make one of them again with the other's"
        )


def of_engine(engine: "InferenceEngine", asked: Asked = NOTHING) -> tuple[Preprocessing, str]:
    """Return what an engine's images go through, and a note where it had to be assumed.

    Raises:
        InputError: the engine takes no images, its record is damaged, or options contradict it.
    """
    return common([engine], asked)


def common(engines: Sequence["InferenceEngine"], asked: Asked = NOTHING) -> tuple[Preprocessing, str]:
    """Return what the images of all engines go through; an engine without record goes by those that have one.

    Raises:
        InputError: as `of_engine`; two records that differ, or shapes that do.
    """
    records = {engine: _engine_record(engine) for engine in engines}
    known = [engine for engine, record in records.items() if record is not None]
    for engine in known[1:]:
        check_same(records[known[0]], _name(known[0]), records[engine], _name(engine))
    recorded = records[known[0]] if known else None
    without = ", ".join(_name(engine) for engine in engines if engine not in known)
    note = f"{without} without preprocessing record: taken is that of {_name(known[0])}" if known and without else ""
    for engine in [*known, *(engine for engine in engines if engine not in known)]:
        if len(engine.inputs) != 1:
            raise InputError(f"{_name(engine)} takes {', '.join(engine.inputs)}; only an engine of one image input can")
        found, said = resolve(engine.inputs[engine.input_name], _name(engine), recorded, asked)
        recorded, note = found, note or said
    return recorded, note


def check_tensor(engines: Sequence["InferenceEngine"], path: str | Path) -> None:
    """Raise InputError where the record beside a tensor and that of an engine it is fed to differ."""
    beside = read_beside(path)
    for engine in engines if beside else ():
        check_same(_engine_record(engine), _name(engine), beside, str(path))


def _name(engine: "InferenceEngine") -> str:
    return f"engine {engine.path.name if engine.path else engine.name}"


def _engine_record(engine: "InferenceEngine") -> Preprocessing | None:
    """Return the record in ENGINE.json; None where there is no such file, or an older one without it."""
    path = Path(f"{engine.path}.json")
    if engine.path is None or not path.is_file():
        return None
    content = read_json(path, "record of an engine")
    return _of_content(content, str(path))


def _of_content(content: Any, source: str) -> Preprocessing | None:
    found = content.get(KEY) if isinstance(content, dict) else None
    return None if found is None else Preprocessing.from_dict(found, source)


def encoded(preprocessing: Preprocessing | None) -> dict[str, str]:
    """Return the record as an entry of an ONNX file's metadata; empty where there is none."""
    return {} if preprocessing is None else {ONNX_KEY: json.dumps(preprocessing.to_dict())}


def of_metadata(metadata: Mapping[str, str], source: str) -> Preprocessing | None:
    """Return the record among an ONNX file's metadata, or None.

    Raises:
        InputError: it is damaged.
    """
    if ONNX_KEY not in metadata:
        return None
    try:
        content = json.loads(metadata[ONNX_KEY])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the preprocessing record of {source} is no JSON: {error}; export it again") from error
    return Preprocessing.from_dict(content, source)


def of_onnx(path: Path, asked: Asked = NOTHING) -> tuple[Preprocessing, str]:
    """Return what the images of an ONNX model go through, and a note where it had to be assumed.

    Raises:
        InputError: no ONNX model, no single image input, or options that contradict its record.
    """
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise InputError(f"cannot read the ONNX model {path}: {error.strerror or error}") from error
    except Exception as error:  # protobuf's DecodeError, whose module depends on its version
        raise InputError(f"{path} is no ONNX model, or is truncated; export it again with trtlab export") from error
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        raise InputError(f"{path} takes {names or 'nothing'}; only a model of one image input can be given images")
    tensor = inputs[0].type.tensor_type
    axes = [dim.dim_value or dim.dim_param or "?" for dim in tensor.shape.dim]
    recorded = of_metadata({entry.key: entry.value for entry in model.metadata_props}, str(path))
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type or 1))
    return resolve(open_spec(inputs[0].name, dtype, axes), str(path), recorded, asked)


def open_spec(
    name: str, dtype: np.dtype, axes: Sequence[int | str], usual: Mapping[str, int] | None = None
) -> InputSpec:
    """Return an input whose named axes may have any size; the best is the `usual`, of an image's side else 224."""
    least = tuple(1 if isinstance(axis, str) else axis for axis in axes)
    most = tuple(MOST_PIXELS if isinstance(axis, str) else axis for axis in axes)
    sides = (1, 3, _USUAL_SIZE, _USUAL_SIZE, *axes[4:])
    named = {axis: sides[place] for place, axis in enumerate(axes)} | dict(usual or {})
    best = tuple(named[axis] if isinstance(axis, str) else axis for axis in axes)
    return InputSpec(name, dtype, least, best, most)


def write_beside(path: str | Path, preprocessing: Preprocessing, *, content: str | Path | None = None) -> None:
    """Write FILE.json: what the images of FILE went through; until FILE is there, `content` has its bytes."""
    write_json(f"{path}.json", {"sha256": sha256(content or path), KEY: preprocessing.to_dict()})


def read_beside(path: str | Path) -> Preprocessing | None:
    """Return what FILE.json says of FILE; None without one, or where FILE has been written anew since.

    Raises:
        InputError: FILE.json is damaged.
    """
    beside = Path(f"{path}.json")
    if not beside.is_file() or not Path(path).is_file():
        return None
    content = read_json(beside, "record of calibration data")
    if not isinstance(content, dict) or content.get("sha256") != sha256(path):
        return None
    return _of_content(content, str(beside))


def _shown(name: str, value: Any) -> str:
    if name in ("mean", "std"):
        return numbers(value)
    return f"{value[0]}x{value[1]}" if name == "crop" else str(value)
