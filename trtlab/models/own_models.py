"""The models of one's own that `trtlab export --model` takes: weights, a function, a scripted or an exported module."""

import difflib
import importlib.util
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import nn

from helpers.data.storage import one_line
from trtcpu.errors import InputError
from trtlab.models.model_inputs import DTYPES, ModelInput

_SUFFIXES = (".pth", ".pt", ".pt2", ".bin", ".ckpt")
_NESTED = ("state_dict", "model_state_dict", "model")
_SEED = 0


def is_own(model: str, weights: str) -> bool:
    """Say whether a model is not one of the lab's: a file, a function, or any architecture without weights."""
    return weights == "none" or ".py:" in model or model.endswith((*_SUFFIXES, ".py"))


def load_own(model: str, arch: str | None, weights: str) -> nn.Module:
    """Return the model on the CPU. Nothing is downloaded.

    Args:
        model: "module.py:factory", a state dict (.pth), a scripted module or an exported program (.pt2), or with
            `weights` "none" a torchvision name, whose weights are then random.
        arch: what a state dict's weights belong to: a torchvision name, or "module.py:factory".

    Raises:
        InputError: no such file, function or architecture, or weights of another one.
    """
    if ".py:" in model or model.endswith(".py"):
        return _from_function(model)
    if model.endswith(_SUFFIXES):
        return _from_file(Path(model), arch)
    return _named(model, 1000)


def _named(name: str, classes: int) -> nn.Module:
    """Return a torchvision classifier with seeded random weights."""
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        close = ", ".join(difflib.get_close_matches(name, known, n=3) or ["resnet50"])
        raise InputError(
            f"no architecture named {name!r}; give a torchvision classifier ({close}) or module.py:factory"
        )
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        model = torchvision.models.get_model(name, weights=None, num_classes=classes)
    return model.eval()


def _from_function(text: str) -> nn.Module:
    """Import the file and call its function; its folder is importable while that runs."""
    file, _, name = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(file)
    if not name:
        raise InputError(f"{text} names no function; write {text}:FACTORY, a function that returns the model")
    if not path.is_file():
        raise InputError(f"cannot read {path}: no such file; --model takes module.py:factory")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        factory: Callable[[], Any] | None = getattr(module, name, None)
        made = factory() if callable(factory) and not isinstance(factory, nn.Module) else factory
    except Exception as error:  # the user's own code, which may raise anything
        raise InputError(f"{text} failed: {type(error).__name__}: {one_line(error)}") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    if made is None and not hasattr(module, name):
        defined = [key for key, value in vars(module).items() if callable(value) and value.__module__ == path.stem]
        raise InputError(f"{path} has no {name}; it defines {', '.join(defined) or 'no function'}")
    if not isinstance(made, nn.Module):
        raise InputError(f"{text} gives {type(made).__name__}; it must return a torch.nn.Module")
    return made.eval()


def _from_file(path: Path, arch: str | None) -> nn.Module:
    if not path.is_file():
        raise InputError(f"cannot read {path}: no such file; --model takes weights, a scripted or an exported model")
    kind = _kind(path)
    if kind != "weights" and arch is not None:
        raise InputError(f"{path} is a {kind} and holds its own architecture; drop --arch {arch}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit's advice is for who wrote the file
            if kind == "scripted module":
                return torch.jit.load(str(path), map_location="cpu").eval()
            if kind == "exported program":
                return _program(path)
    except Exception as error:  # torch raises many classes on a file that it cannot load
        raise InputError(f"{path} cannot be loaded as {kind}: {one_line(error)}") from error
    return _with_weights(path, arch)


def _program(path: Path) -> nn.Module:
    """Return an exported program as a module; its mode is fixed, but exporters set one and would be refused."""
    module = torch.export.load(str(path)).module(check_guards=False)
    module.training = False
    module.train, module.eval = (lambda mode=True: module), (lambda: module)
    return module


def _kind(path: Path) -> str:
    """Tell a scripted module, an exported program and weights apart by the members of the archive."""
    if path.suffix == ".pt2":
        return "exported program"
    if not zipfile.is_zipfile(path):
        return "weights"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return "scripted module" if any("/code/" in name for name in names) else "weights"


def program_inputs(model: str) -> list[ModelInput] | None:
    """Return the inputs that an exported program (.pt2) was made for; None for any other model, which does not tell."""
    if not model.endswith(".pt2"):
        return None
    try:
        program = torch.export.load(model)
    except Exception as error:  # torch raises many classes on a file that it cannot load
        raise InputError(f"{model} cannot be loaded as an exported program: {one_line(error)}") from error
    names = program.graph_signature.user_inputs
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    first = values[names[0]].shape if names else ()
    batch = {str(first[0]): "batch"} if len(first) and not isinstance(first[0], int) else {}
    return [_program_input(name, values[name], batch) for name in names]


def _program_input(name: str, value: torch.Tensor, renamed: Mapping[str, str]) -> ModelInput:
    """Return one input; the names of its dynamic axes are torch.export's (s31), except those that `renamed` has."""
    if not isinstance(value, torch.Tensor) or value.dtype not in DTYPES.values():
        raise InputError(f"input {name} of the exported program is {getattr(value, 'dtype', type(value).__name__)}")
    axes = [size if isinstance(size, int) else renamed.get(str(size), str(size)) for size in value.shape]
    hints = (size.node.hint for size in value.shape if not isinstance(size, int))
    traced = {axis: hint or 2 for axis, hint in zip((a for a in axes if isinstance(a, str)), hints, strict=True)}
    return ModelInput(name, tuple(axes), value.dtype, traced)


def _with_weights(path: Path, arch: str | None) -> nn.Module:
    state = _state(path)
    if arch is None:
        raise InputError(f"{path} holds weights; name what they are of: --arch resnet50, or --arch module.py:factory")
    model = _from_function(arch) if ".py" in arch else _named(arch, _classes(state))
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"{path} does not hold weights of {arch}: {one_line(error)}") from error
    return model.eval()


def _state(path: Path) -> dict[str, torch.Tensor]:
    """Return the state dict, also out of a checkpoint, and of a model that was trained on several GPUs."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many classes on a file that is not a checkpoint
        raise InputError(
            f"{path} holds no state dict that can be loaded without running its code ({one_line(error)[:120]}); save "
            "model.state_dict(), or give module.py:factory"
        ) from error
    found = next((found[key] for key in _NESTED if isinstance(found, Mapping) and key in found), found)
    tensors = isinstance(found, Mapping) and all(isinstance(value, torch.Tensor) for value in found.values())
    if not tensors or not found:
        raise InputError(f"{path} holds {type(found).__name__}, no state dict; save model.state_dict()")
    return {key.removeprefix("module."): value for key, value in found.items()}


def _classes(state: Mapping[str, torch.Tensor]) -> int:
    """Return the number of outputs: the length of the last tensor, the classifier's bias in every torchvision model."""
    last = list(state.values())[-1]
    return len(last) if last.ndim else 1000
