"""Where the images are: renders or downloads a data set on first use, gives its folders, splits and class names.

data = load_dataset("digits")                       # offline; also "imagenette", "imagenet:/folder", "cifar10"
folder = data.split("calibration")                  # a folder with one folder a class
pairs = data.images("validation", limit=1000)       # [(file, label), …]; the label is the model's output index

`python -m helpers.data [NAME …]` makes all that the notebooks read at once, in the folder that TRT_LAB_DATA names.
After that nothing is written there, so that many people can share the folder and none needs the right to write.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from helpers import digits, imagenet
from helpers.downloads import Source, atomic_folder, extract, fetch
from helpers.errors import DataError, InputError, LabError
from helpers.image_folders import DataSet, folder_dataset
from helpers.rendered_digits import RenderedDigits
from helpers.signals import clean_ends
from helpers.storage import data_root, progress_bar

__all__ = ["DATA_SETS", "SOURCES", "DataSet", "load_dataset", "prepare"]

DATA_SETS = ("digits", "imagenette", "imagenet:/folder", "cifar10")
SOURCES = {
    "imagenette": Source(
        "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz", "md5:3df6f0d01a2c9592104656642f5e78a3"
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"
    ),
}
_SHARED_SPLITS = ("calibration", "validation")  # the notebooks train nothing
_IMAGENET = "imagenet:"
_CIFAR_EDGE = 32
_CIFAR_RECORD = 1 + 3 * _CIFAR_EDGE**2  # label, then the red, green and blue planes


def load_dataset(
    name: str = "digits", root: str | Path | None = None, progress: bool = True, source: Source | None = None
) -> DataSet:
    """Return a data set by name, downloading it first where that is needed (digits are rendered as they are asked for).

    Args:
        name: "digits", "imagenette", "cifar10", or "imagenet:" and a folder (class folders named by synset or label).
        root: where images are kept; else the environment variable TRT_LAB_DATA, else datasets/cache.
        progress: show a progress bar on stderr.
        source: another place to download the archive from.

    Raises:
        InputError: no such data set.
        DataError: it could not be downloaded, verified, unpacked or read.
    """
    root = data_root(root)
    if name == "digits":
        return RenderedDigits(name, list(digits.CLASSES), root / f"digits-v{digits.VERSION}", progress)
    if name == "imagenette":
        folder = _unpacked(source or SOURCES[name], root, progress) / "imagenette2-320"
        return folder_dataset(name, imagenet.class_names(), folder, root, imagenet.label_of_folder)
    if name == "cifar10":
        return _cifar10(source or SOURCES[name], root, progress)
    if name.startswith(_IMAGENET) and name != _IMAGENET:
        folder = Path(name.removeprefix(_IMAGENET)).expanduser().absolute()
        return folder_dataset(name, imagenet.class_names(), folder, root, imagenet.label_of_folder)
    raise InputError(f"no data set named {name!r}; choose one of {', '.join(DATA_SETS)}")


def prepare(name: str, root: str | Path | None = None) -> Path:
    """Make the calibration and validation images of a data set, and fetch the ImageNet weights that its labels need.

    Returns:
        The folder that holds all of it.

    Raises:
        InputError, DataError: as from `load_dataset`; DataError also where the folder cannot be written.
    """
    from helpers.models import MODELS, load_model

    data = load_dataset(name, root)
    for split in _SHARED_SPLITS:
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


def _cifar10(source: Source, root: Path, progress: bool) -> DataSet:
    """CIFAR-10 from its binary version, which, unlike the Python one, needs no unpickling."""
    folder = root / "cifar10-png"
    if not folder.is_dir():
        binaries = _unpacked(source, root, progress) / "cifar-10-batches-bin"
        with atomic_folder(folder) as temporary:
            for sub, pattern in (("train", "data_batch_*.bin"), ("val", "test_batch.bin")):
                _write_cifar_split(sorted(binaries.glob(pattern)), temporary / sub, progress)
    names = list(imagenet.CIFAR10_GROUPS)
    return folder_dataset("cifar10", names, folder, root, {name: label for label, name in enumerate(names)}.get)


def _write_cifar_split(files: list[Path], folder: Path, progress: bool) -> None:
    from PIL import Image

    names = list(imagenet.CIFAR10_GROUPS)
    for name in names:
        (folder / name).mkdir(parents=True)
    records = progress_bar(_cifar_records(files), f"convert {folder.name}", " images", progress)
    for index, (label, pixels) in enumerate(records):
        Image.fromarray(pixels).save(folder / names[label] / f"{index:05d}.png")


def _cifar_records(files: list[Path]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (label, uint8 [32, 32, 3]) for every record of the binary files."""
    for file in files:
        content = np.frombuffer(file.read_bytes(), dtype=np.uint8)
        if not len(content) or len(content) % _CIFAR_RECORD or content[::_CIFAR_RECORD].max() > 9:
            raise DataError(f"{file} is no CIFAR-10 batch; remove {file.parent.parent} and run again")
        for record in content.reshape(-1, _CIFAR_RECORD):
            yield int(record[0]), record[1:].reshape(3, _CIFAR_EDGE, _CIFAR_EDGE).transpose(1, 2, 0).copy()


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
