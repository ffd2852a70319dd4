"""What `trtlab export` takes: a model of your own, and the inputs of any model.

A model is weights, a function, a scripted or an exported module. An input is `--input name:shape:dtype`, each axis a
size or the name of a dynamic axis.
"""

import contextlib
import importlib.util
import math
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torchvision
from torch import nn

from helpers.data.models import check_model
from helpers.data.storage import one_line
from trtcpu.errors import InputError

DTYPES = {
    "float32": torch.float32, "float16": torch.float16, "int64": torch.int64, "int32": torch.int32,
    "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
_AXIS = re.compile(r"(?P<size>\d{1,10})|(?P<name>[A-Za-z_]\w*)(?:=(?P<traced>\d{1,10}))?")
_TRACED_LENGTH = 16
_BATCHES = (1, 2, 5)
_LARGEST = 2**31 - 1
_SUFFIXES = (".pth", ".pt", ".pt2", ".bin", ".ckpt")
_SHOWN = 3
_NESTED = ("state_dict", "model_state_dict", "model")


@dataclass(frozen=True)
class ModelInput:
    """An input: each axis a size or a name; `traced` gives the size of every named axis to trace with.

    `limit` is the number of rows of the table that an integer input looks up; None if it is not known.
    """

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype
    traced: dict[str, int]
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise InputError if an axis is empty, or if what is traced has more elements than an engine's input."""
        sizes = self.shape(self.traced)
        if not all(size >= 1 for size in sizes) or math.prod(sizes) > _LARGEST:
            raise InputError(
                f"input {self.name} cannot be {'x'.join(map(str, sizes))}; sizes are 1 or more, {_LARGEST:,} elements "
                "at most"
            )

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape with the sizes of the named axes."""
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in self.axes)

    def dynamic(self) -> dict[int, str]:
        """Return the names of the dynamic axes by their place."""
        return {place: axis for place, axis in enumerate(self.axes) if isinstance(axis, str)}

    def values(self, sizes: Mapping[str, int], seed: int) -> torch.Tensor:
        """Return seeded noise, or integers below `limit`; without one 0 and 1, which masks are made of."""
        generator = torch.Generator().manual_seed(seed)
        if self.dtype.is_floating_point:
            return torch.randn(self.shape(sizes), generator=generator).to(self.dtype)
        return torch.randint(0, self.limit or 2, self.shape(sizes), generator=generator).to(self.dtype)


def image_input(
    name: str, batch: int, dynamic: bool, channels: int, height: int, width: int | None = None
) -> ModelInput:
    """Return the input of an image classifier: float32 [batch, channels, height, width]; a square without `width`."""
    axes = ("batch" if dynamic else batch, channels, height, width or height)
    return ModelInput(name, axes, torch.float32, {"batch": batch} if dynamic else {})


def parse_inputs(texts: Sequence[str], batch: int, size: int) -> list[ModelInput]:
    """Return the inputs that `--input` gave: "image:batch,3,height=224,width=224", "tokens:batch,sequence:int64".

    A named axis is traced with the size behind "=", else with `batch` on axis 0, the images' `size` on axes 2 and 3 of
    four, and 16.

    Raises:
        InputError: a text that is no input, or two inputs of one name.
    """
    inputs = [_parsed(text, batch, size) for text in texts]
    if len({each.name for each in inputs}) < len(inputs):
        raise InputError(f"--input names {', '.join(each.name for each in inputs)}; give every input its own name")
    return inputs


def _parsed(text: str, batch: int, size: int) -> ModelInput:
    name, _, rest = text.partition(":")
    shape, _, dtype = rest.partition(":")
    words = shape.replace("x", ",").split(",") if re.fullmatch(r"[\dx]+", shape) else shape.split(",")
    found = [match for match in map(_AXIS.fullmatch, map(str.strip, words)) if match]
    if not name or len(found) < len(words) or (dtype or "float32") not in DTYPES:
        raise InputError(
            f"--input {text!r} is not name:shape:dtype, as tokens:batch,sequence:int64 is; an axis is a size from 1 on "
            f"or a name, the type one of {', '.join(DTYPES)}"
        )
    usual = {0: batch, 2: size, 3: size} if len(found) == 4 else {0: batch}
    named = [(place, axis) for place, axis in enumerate(found) if axis["name"]]
    traced = {axis["name"]: int(axis["traced"] or usual.get(place, _TRACED_LENGTH)) for place, axis in named}
    axes = tuple(axis["name"] or int(axis["size"]) for axis in found)
    return ModelInput(name, axes, DTYPES[dtype or "float32"], traced)


def sizes_to_try(inputs: Sequence[ModelInput]) -> list[dict[str, int]]:
    """Return the sizes of the named axes to compare with PyTorch at.

    The batch is the name of the first input's axis 0: it is tried at 1, 2 and 5; every other name also at twice the
    size that was traced, at which networks that halve their input several times still run.
    """
    traced = {name: size for each in inputs for name, size in each.traced.items()}
    batch = inputs[0].dynamic().get(0)
    tried = [{**traced, batch: size} for size in _BATCHES] if batch else [traced]
    return [*tried, *({**tried[0], name: 2 * traced[name]} for name in traced if name != batch)]


def is_own(model: str) -> bool:
    """Say whether a model is not one of the lab's: a file or a function."""
    return _is_function(model) or model.endswith(_SUFFIXES)


def load_own(model: str, arch: str | None) -> nn.Module:
    """Return the model on the CPU, in evaluation mode. Nothing is downloaded.

    Args:
        model: "module.py:factory", a state dict (.pth), a scripted module (.pt), an exported program (.pt2), or a
            torchvision name, whose weights are then random.
        arch: what a state dict's weights belong to: a torchvision name, or "module.py:factory".

    Raises:
        InputError: no such file, function or architecture, or weights of another one.
    """
    if _is_function(model):
        return _from_function(model)
    if not model.endswith(_SUFFIXES):
        return _with_random_weights(model, 1000)
    if model.endswith(".pt2"):
        return _program(model)
    if _is_scripted(model):
        with _loading(model, "scripted module"):
            return torch.jit.load(model, map_location="cpu").eval()
    return _with_weights(model, arch)


def program_inputs(model: str) -> list[ModelInput] | None:
    """Return the inputs that an exported program (.pt2) was made for; None for any other model, which does not tell."""
    if not model.endswith(".pt2"):
        return None
    program = _exported(model)
    names = program.graph_signature.user_inputs
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return [_program_input(name, values[name], values[names[0]]) for name in names]


def _program_input(name: str, value: torch.Tensor, first: torch.Tensor) -> ModelInput:
    """Return one input; its dynamic axes are named as torch.export did (s31), the `first` input's batch as "batch"."""
    if not isinstance(value, torch.Tensor) or value.dtype not in DTYPES.values():
        raise InputError(f"input {name} of the exported program is {getattr(value, 'dtype', type(value).__name__)}")
    dynamic = {str(size): size for size in value.shape if not isinstance(size, int)}
    batch = str(first.shape[0]) if first.ndim else ""
    names = {symbol: "batch" if symbol == batch else symbol for symbol in dynamic}
    axes = tuple(names.get(str(size), size) for size in value.shape)
    return ModelInput(name, axes, value.dtype, {names[key]: size.node.hint or 2 for key, size in dynamic.items()})


@contextlib.contextmanager
def _loading(path: str, kind: str) -> Iterator[None]:
    """Turn what torch, with many classes of errors, says of a file that it cannot load into one line."""
    try:
        with open(path, "rb"), warnings.catch_warnings():  # opened first: torch.export prints what it cannot read
            warnings.simplefilter("ignore")  # torch.jit's advice is for who wrote the file
            yield
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; give the path of a model's file") from error
    except Exception as error:
        raise InputError(
            f"{path} cannot be loaded as {kind} ({one_line(error)[:160]}); save it again, or give module.py:factory"
        ) from error


def _program(path: str) -> nn.Module:
    """Return an exported program as a module; its mode is fixed, but exporters set one and would be refused."""
    module = _exported(path).module(check_guards=False)
    module.training = False
    module.train, module.eval = (lambda mode=True: module), (lambda: module)
    return module


def _exported(path: str) -> torch.export.ExportedProgram:
    with _loading(path, "exported program"):
        return torch.export.load(path)


def _is_scripted(path: str) -> bool:
    """Tell a scripted module from weights by the code in the archive."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _is_function(text: str) -> bool:
    return ".py:" in text or text.endswith(".py")


def _from_function(text: str) -> nn.Module:
    """Import the file and call its function; its folder is importable while that runs."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py"):
        raise InputError(f"{text} names no function; write {text}:FACTORY, a function that returns the model")
    if not Path(file).is_file():
        raise InputError(f"cannot read {file}: no such file; --model takes module.py:factory")
    folder, spec = str(Path(file).parent.resolve()), importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        made = getattr(module, name)()
    except Exception as error:  # the user's own code, which may raise anything
        raise InputError(f"{text} failed: {type(error).__name__}: {one_line(error)}") from error
    finally:
        sys.path.remove(folder)
    if not isinstance(made, nn.Module):
        raise InputError(f"{text} gives {type(made).__name__}; it must return a torch.nn.Module")
    return made.eval()


def _with_random_weights(name: str, classes: int) -> nn.Module:
    check_model(name, "imagenet")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torchvision.models.get_model(name, weights=None, num_classes=classes).eval()


def _with_weights(path: str, arch: str | None) -> nn.Module:
    state = _state(path)
    if arch is None:
        raise InputError(f"{path} holds weights; name what they are of: --arch resnet50, or --arch module.py:factory")
    last = list(state.values())[-1]  # the classifier's bias in every torchvision model
    model = _from_function(arch) if _is_function(arch) else _with_random_weights(arch, len(last) if last.ndim else 1000)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        found = _misfit(model.state_dict(), state) or one_line(error)
        raise InputError(
            f"{path} does not hold weights of {arch}: {found}; --arch must be the model that they were saved from"
        ) from error
    return model.eval()


def _misfit(wanted: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> str:
    """Return what keeps weights out of a model: the first keys that only one of them has, or of another shape."""
    both = [key for key in wanted if key in given and wanted[key].shape != given[key].shape]
    keys = {
        # PyTorch counts from 0 where a batch normalisation's number of batches is missing
        "missing": [key for key in wanted if key not in given and not key.endswith("num_batches_tracked")],
        "unexpected": [key for key in given if key not in wanted],
        "of another shape": [f"{key} {[*given[key].shape]} for {[*wanted[key].shape]}" for key in both],
    }
    return ", ".join(
        f"{len(found)} {what} ({', '.join(found[:_SHOWN])}{', …' * (len(found) > _SHOWN)})"
        for what, found in keys.items()
        if found
    )


def _state(path: str) -> dict[str, torch.Tensor]:
    """Return the state dict, also out of a checkpoint, and of a model that was trained on several GPUs."""
    with _loading(path, "weights, without running its code"):
        found = torch.load(path, map_location="cpu", weights_only=True)
    found = next((found[key] for key in _NESTED if isinstance(found, Mapping) and key in found), found)
    tensors = isinstance(found, Mapping) and all(isinstance(value, torch.Tensor) for value in found.values())
    if not tensors or not found:
        raise InputError(f"{path} holds {type(found).__name__}, no state dict; save model.state_dict()")
    return {key.removeprefix("module."): value for key, value in found.items()}
