"""The lab's small checkpoints: convolution weights masked to a seeded random tenth, only the kept values stored.

The mask of every convolution but the first (which stays dense) comes from `np.random.RandomState(seed)`, whose stream
NumPy has frozen, so it is drawn again on loading. Kept values are float16; everything else (batch norm, classifier) is
float32. The file is a plain .npz without pickles.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from helpers.data.storage import one_line
from helpers.tools.files import atomic_path
from trtcpu.errors import DataError

DENSITY = 0.1
_KEPT, _OTHER, _SEED = "kept/", "other/", "seed"


def convolution_masks(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Draw the masks, by parameter name, as bool tensors of the weights' shapes (first convolution: all True)."""
    rng = np.random.RandomState(seed)
    masks = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            density = DENSITY if masks else 1.0
            masks[f"{name}.weight"] = torch.from_numpy(rng.random_sample(tuple(module.weight.shape)) < density)
    return masks


def save_checkpoint(model: nn.Module, path: str | Path, seed: int) -> int:
    """Write the model's kept values; return how many convolution weights are kept."""
    masks = convolution_masks(model, seed)
    arrays = {_SEED: np.array(seed, dtype=np.int64)}
    for name, value in model.state_dict().items():
        value = value.detach().cpu()
        if name in masks:
            arrays[_KEPT + name] = value[masks[name]].to(torch.float16).numpy()
        elif value.is_floating_point():
            arrays[_OTHER + name] = value.float().numpy()
    with atomic_path(path) as temporary:
        np.savez(temporary, **arrays)
    return sum(int(mask.sum()) for mask in masks.values())


def load_checkpoint(model: nn.Module, path: str | Path) -> nn.Module:
    """Fill `model` from a checkpoint and return it in evaluation mode.

    Raises:
        DataError: the file is missing, damaged or of another model.
    """
    try:
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            state = _state(model, dict(file))
        model.load_state_dict(state)
    except FileNotFoundError as error:
        raise DataError(f"no weights at {path}; restore the file (git checkout) or train them again") from error
    except Exception as error:  # zipfile, zlib, NumPy and torch each raise their own classes on a damaged file
        raise DataError(f"{path} does not hold weights of this model: {one_line(error)}; restore the file") from error
    return model.eval()


def _state(model: nn.Module, arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    masks = convolution_masks(model, int(arrays[_SEED]))
    state = model.state_dict()
    for name, value in state.items():
        if name in masks:
            state[name] = _expand(masks[name], arrays[_KEPT + name])
        elif value.is_floating_point():
            state[name] = torch.from_numpy(arrays[_OTHER + name])
    return state


def _expand(mask: torch.Tensor, kept: np.ndarray) -> torch.Tensor:
    if kept.size != int(mask.sum()):
        raise ValueError(f"{kept.size} kept values for a mask of {int(mask.sum())}")
    weight = torch.zeros(mask.shape)
    weight[mask] = torch.from_numpy(kept.astype(np.float32))
    return weight
