"""Where the images are: renders or downloads a data set on first use, gives its folders, splits and class names.

data = load_dataset("digits")                       # offline; also "imagenette", "cifar10", "folder:/photos", …
folder = data.split("calibration")                  # a folder with one folder a class
pairs = data.images("validation", limit=1000)       # [(file, label), …]; the label is the model's output index

`python -m helpers.data.datasets [NAME …]` makes all that the notebooks read at once, in the folder that TRT_LAB_DATA
names. After that nothing is written there, so many people can share the folder without write access.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from helpers.data import cifar10, digits
from helpers.data.downloads import Source, atomic_folder, extract, fetch
from helpers.data.image_folders import DataSet, class_folders, folder_dataset, labels_by_name, layout
from helpers.data.imagenet_folders import imagenet_dataset
from helpers.data.rendered_digits import RenderedDigits
from helpers.data.storage import data_root
from helpers.tools.signals import clean_ends
from trtcpu.errors import InputError, LabError

DATA_SETS = ("digits", "imagenette", "imagenet:FOLDER[,labels=FILE]", "cifar10[:FOLDER]", "folder:FOLDER")
SOURCES = {
    "imagenette": Source(
        "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz", "md5:3df6f0d01a2c9592104656642f5e78a3"
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"
    ),
}
SHARED_SPLITS = ("calibration", "validation")  # the notebooks train nothing
_LABELS = ",labels="


def load_dataset(
    name: str = "digits", root: str | Path | None = None, progress: bool = True, source: Source | None = None
) -> DataSet:
    """Return a data set by name, downloading it first if that is needed (digits are rendered as they are asked for).

    Args:
        name: "digits", "imagenette" or "cifar10"; with a place, "imagenet:" and a folder in one of ImageNet's layouts
            (see imagenet_folders.py), "cifar10:" and a copy of its binary version, "folder:" and a folder with one
            folder a class, alone or below train/ and val/: label N is the N-th class folder by name.
        root: where images are kept; else the environment variable TRT_LAB_DATA, else datasets/cache.
        progress: show a progress bar on stderr.
        source: another place to download the archive from.

    Raises:
        InputError: no such data set.
        DataError: it could not be downloaded, verified, unpacked or read.
    """
    root = data_root(root)
    kind, _, place = name.partition(":")
    if name == "digits":
        return RenderedDigits(name, list(digits.CLASSES), root / f"digits-v{digits.VERSION}", progress)
    if name == "imagenette":
        unpacked = _unpacked(source or SOURCES[name], root, progress)
        return imagenet_dataset(name, unpacked / "imagenette2-320", None, root)
    if name == "cifar10":
        return cifar10.from_download(_cifar10(source or SOURCES[name], root, progress), root, progress)
    if not place or kind not in ("imagenet", "cifar10", "folder"):
        raise InputError(f"no data set named {name!r}; choose one of {', '.join(DATA_SETS)}")
    if kind == "imagenet":
        place, _, labels = place.partition(_LABELS)
        return imagenet_dataset(name, _absolute(place), _absolute(labels) if labels else None, root)
    if kind == "cifar10":
        return cifar10.from_copy(name, _absolute(place), root, progress)
    return _classes_by_name(name, _absolute(place), root)


def _absolute(place: str) -> Path:
    return Path(place).expanduser().absolute()


def _classes_by_name(name: str, folder: Path, root: Path) -> DataSet:
    """Return the data set whose classes are the names of its class folders: those of train/ if there is one."""
    train, validation = layout(folder)
    names = [path.name for path in class_folders(train or validation)]
    labels = labels_by_name(names, f"the classes are those of {train or validation}")
    return folder_dataset(name, names, (train, validation), root, labels)


def prepare(name: str, root: str | Path | None = None) -> Path:
    """Make the calibration and validation images of a data set, and fetch the ImageNet weights that its labels need.

    Returns:
        The folder that holds all of it.

    Raises:
        InputError, DataError: as from `load_dataset`; DataError also if the folder cannot be written.
    """
    from helpers.data.models import MODELS, load_model

    data = load_dataset(name, root)
    for split in SHARED_SPLITS:
        data.images(split)
    for model in MODELS:
        load_model(model, data=name, root=root)
    return data_root(root)


def _unpacked(source: Source, root: Path, progress: bool) -> Path:
    """Return the folder that holds the archive's content; the archive is removed once it is unpacked."""
    folder = root / source.filename.split(".")[0]
    if not folder.is_dir():
        archive = fetch(source, root / "downloads", progress)
        with atomic_folder(folder) as temporary:
            extract(archive, temporary, progress)
        archive.unlink(missing_ok=True)
    return folder


def _cifar10(source: Source, root: Path, progress: bool) -> Path:
    """Return where the binary version is unpacked, which, unlike the Python one, needs no unpickling."""
    if (root / "cifar10-png").is_dir():
        return root
    return _unpacked(source, root, progress)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(DATA_SETS)}; digits if none")] = None,
) -> None:
    """Make all that the notebooks read in the folder that TRT_LAB_DATA names, else in datasets/cache."""
    for name in names or ["digits"]:
        try:
            print(f"{name}: {prepare(name)}")
        except LabError as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    with clean_ends():
        typer.run(main)
