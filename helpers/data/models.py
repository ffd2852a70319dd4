"""The models of the lab, ready to be optimised: `load_model("resnet50")` works offline, with trained weights.

With the lab's own data the weights are the lab's own (10 outputs, datasets/weights/). With ImageNet-labelled data they
are torchvision's IMAGENET1K_V1 (1,000 outputs), downloaded once with a progress bar and a checksum.
"""

import difflib
import re
from pathlib import Path

import torch
from torch import nn

from helpers.data.checkpoint import load_checkpoint
from helpers.data.downloads import Source, fetch
from helpers.data.imagenet import CIFAR10_GROUPS
from helpers.data.storage import data_root, one_line
from helpers.tools.term import MODELS
from trtcpu.errors import DataError, InputError

WEIGHTS = Path(__file__).resolve().parents[2] / "datasets" / "weights"
_OLD_DENSENET_KEY = re.compile(r"^(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.\w+)$")
_HASH_IN_NAME = re.compile(r"-([0-9a-f]{8,})\.pth$")


def load_model(
    name: str = "resnet50",
    data: str = "digits",
    *,
    root: str | Path | None = None,
    progress: bool = True,
    source: Source | None = None,
) -> nn.Module:
    """Return a classifier in evaluation mode, float32, on the CPU; it takes float32 [N, 3, 224, 224].

    Args:
        name: "resnet50", "resnet18", or with ImageNet's labels any other torchvision classifier.
        data: the data set whose labels the outputs follow, as in `helpers.data.datasets.load_dataset`.
        root: where downloads are kept; else the environment variable TRT_LAB_DATA, else datasets/cache.
        source: another place to download the ImageNet weights from.

    Raises:
        InputError: no such model, or none with weights for these labels.
        DataError: weights that are missing, damaged or cannot be downloaded.
    """
    check_model(name, data)
    if data == "digits":
        return load_checkpoint(_build(name, 10), WEIGHTS / f"{name}.npz")
    model = _load_imagenet(name, fetch(source or _imagenet_source(name), data_root(root) / "weights", progress))
    return _regroup(model, name, list(CIFAR10_GROUPS.values())) if data.partition(":")[0] == "cifar10" else model


def check_model(name: str, data: str) -> None:
    """Say whether there is a model with weights for this data, before anything is rendered or downloaded.

    Raises:
        InputError: no such model, or none with weights for these labels.
    """
    if data.startswith("folder:"):
        raise InputError(
            f"there are no weights for the classes of {data}; bring a model of yours: trtlab run --onnx M, or trtlab "
            "export --model weights.pth --arch ARCH"
        )
    if name in MODELS:
        return
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=3) or MODELS
        raise InputError(f"no model named {name!r}; any torchvision classifier works, such as {', '.join(close)}")
    if data == "digits":
        raise InputError(
            f"{name} has no weights for the lab's digits; {' and '.join(MODELS)} have. For ImageNet's weights, which "
            "are downloaded, give --data imagenette, imagenet:FOLDER or cifar10; for random ones, trtlab export "
            "--weights none"
        )


def _build(name: str, outputs: int = 1000) -> nn.Module:
    """Build the network without weights; two old ones are built as their published weights expect."""
    old = {"init_weights": False, "transform_input": True, "aux_logits": True}
    extra = old if name in ("googlenet", "inception_v3") else {}
    from torchvision import models  # takes a second, and who only asks for a name needs it not

    return models.get_model(name, weights=None, num_classes=outputs, **extra).eval()


def _imagenet_source(name: str) -> Source:
    """Return torchvision's own address; its file names carry the first digits of their SHA-256."""
    from torchvision import models

    weights = models.get_model_weights(name)
    url = getattr(weights, "IMAGENET1K_V1", weights.DEFAULT).url
    return Source(url, f"sha256:{_HASH_IN_NAME.search(url).group(1)}")


def _load_imagenet(name: str, path: Path) -> nn.Module:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        model = _build(name)
        model.load_state_dict({_OLD_DENSENET_KEY.sub(r"\1\2", key): value for key, value in state.items()})
    except Exception as error:  # torch raises many classes on a file that is not a checkpoint of this model
        path.unlink(missing_ok=True)
        reason = one_line(error)
        raise DataError(f"{path} does not hold weights of {name}: {reason}; it was removed, run again") from error
    return model.eval()


def _regroup(model: nn.Module, name: str, groups: list[list[int]]) -> nn.Module:
    """Turn 1,000 ImageNet outputs into one output a group: its classes' mean logit, folded into the last layer."""
    layers = [(path, layer) for path, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not layers or layers[-1][1].out_features != 1000:
        raise InputError(f"{name} has no linear classifier to adapt to CIFAR-10; choose another, such as resnet50")
    path, layer = layers[-1]
    head = nn.Linear(layer.in_features, len(groups))
    with torch.no_grad():
        head.weight.copy_(torch.stack([layer.weight[group].mean(0) for group in groups]))
        head.bias.copy_(torch.stack([layer.bias[group].mean(0) for group in groups]))
    model.set_submodule(path, head)
    return model.eval()
