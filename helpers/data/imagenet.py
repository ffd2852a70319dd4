"""ImageNet's labels: which output of an ImageNet model a folder of images belongs to."""

import functools
from itertools import chain
from pathlib import Path

SYNSETS_FILE = Path(__file__).resolve().parents[2] / "datasets" / "imagenet_synsets.txt"

IMAGENETTE = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}

# The ImageNet classes that show each CIFAR-10 class, in CIFAR-10's order. ImageNet has no deer: antelopes stand in.
CIFAR10_GROUPS: dict[str, list[int]] = {
    "airplane": [404, 895],
    "automobile": [436, 468, 511, 609, 627, 656, 751, 817],
    "bird": list(chain(range(7, 25), range(80, 101), range(127, 147))),
    "cat": list(range(281, 286)),
    "deer": [351, 352, 353],
    "dog": list(range(151, 269)),
    "frog": [30, 31, 32],
    "horse": [339],
    "ship": [403, 510, 554, 628, 724, 780, 814, 914],
    "truck": [555, 569, 675, 864, 867],
}


@functools.cache
def synsets() -> dict[str, int]:
    """Return the label, 0–999, of each of ImageNet's 1,000 synsets: their place in sorted order."""
    return {synset: label for label, synset in enumerate(SYNSETS_FILE.read_text().split())}


@functools.cache
def class_names() -> tuple[str, ...]:
    """Return the 1,000 class names in the order of the model's outputs."""
    from torchvision.models import ResNet50_Weights

    return tuple(ResNet50_Weights.IMAGENET1K_V1.meta["categories"])


def label_of_folder(folder: str) -> int | None:
    """Return the label of a class folder named by synset ("n01440764") or by output ("0" to "999"); None for others."""
    if folder.isdecimal() and int(folder) < len(synsets()):
        return int(folder)
    return synsets().get(folder)
