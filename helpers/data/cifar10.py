"""CIFAR-10 as image folders, from its binary version: downloaded, or a copy of one's own."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from helpers.data import imagenet
from helpers.data.downloads import atomic_folder, extract
from helpers.data.image_folders import FolderDataSet, folder_dataset, labels_by_name
from helpers.data.storage import progress_bar
from trtcpu.errors import DataError

_TRAIN, _TEST = tuple(f"data_batch_{index}.bin" for index in range(1, 6)), "test_batch.bin"
_EDGE = 32
_RECORD = 1 + 3 * _EDGE**2  # label, then the red, green and blue planes
_BINARY = "cifar-10-batches-bin"


def from_download(unpacked: Path, root: Path, progress: bool) -> FolderDataSet:
    """Return the data set of the unpacked archive, converted below `root` on first use."""
    return _dataset("cifar10", unpacked / _BINARY, root / "cifar10-png", root, progress)


def from_copy(name: str, place: Path, root: Path, progress: bool) -> FolderDataSet:
    """Return the data set of somebody's own folder or .tar.gz of the binary version; nothing is written there.

    Raises:
        DataError: missing, incomplete, damaged, or the Python version.
    """
    if not os.path.exists(place):
        raise DataError(f"{place} does not exist; expected the folder {_BINARY} or its .tar.gz")
    with _binaries(place, root, progress) as folder:
        _check_complete(place, folder)
        state = [(path.name, path.stat().st_size) for path in sorted(folder.glob("*.bin"))]
        stamp = hashlib.sha256(repr((str(place), place.stat().st_mtime_ns, state)).encode()).hexdigest()[:16]
        return _dataset(name, folder, root / f"cifar10-png-{stamp}", root, progress)


@contextlib.contextmanager
def _binaries(place: Path, root: Path, progress: bool) -> Iterator[Path]:
    """Give the folder of the batches; an archive is unpacked below `root` for as long as it is read."""
    if place.is_dir():
        yield place / _BINARY if (place / _BINARY).is_dir() else place
        return
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".cifar10-", dir=root) as temporary:
        extract(place, Path(temporary), progress, keep=True)
        yield next((path.parent for path in sorted(Path(temporary).rglob("*_batch*"))), Path(temporary))


def _check_complete(place: Path, folder: Path) -> None:
    missing = [name for name in (*_TRAIN, _TEST) if not (folder / name).is_file()]
    if missing and any((path / "test_batch").is_file() for path in (folder, folder / "cifar-10-batches-py")):
        raise DataError(
            f"{place} is the Python version of CIFAR-10, which only unpickling reads; give the binary version "
            "(cifar-10-binary.tar.gz)"
        )
    if missing:
        raise DataError(f"{place} has no {', '.join(missing)}; expected all six batches of {_BINARY}")


def _dataset(name: str, binaries: Path, folder: Path, root: Path, progress: bool) -> FolderDataSet:
    if not folder.is_dir():
        with atomic_folder(folder) as temporary:
            for split, files in (("train", _TRAIN), ("val", (_TEST,))):
                _write_split([binaries / file for file in files], temporary / split, progress)
    names = list(imagenet.CIFAR10_GROUPS)
    labels = labels_by_name(names, f"remove {folder} and run again")
    return folder_dataset(name, names, (folder / "train", folder / "val"), root, labels)


def _write_split(files: list[Path], folder: Path, progress: bool) -> None:
    from PIL import Image

    names = list(imagenet.CIFAR10_GROUPS)
    for name in names:
        (folder / name).mkdir(parents=True)
    records = progress_bar(_records(files), f"convert {folder.name}", " images", progress)
    for index, (label, pixels) in enumerate(records):
        Image.fromarray(pixels).save(folder / names[label] / f"{index:05d}.png")


def _records(files: list[Path]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (label, uint8 [32, 32, 3]) for every record of the binary files."""
    for file in files:
        content = np.frombuffer(file.read_bytes() if file.is_file() else b"", dtype=np.uint8)
        if not len(content) or len(content) % _RECORD or content[::_RECORD].max() > 9:
            raise DataError(f"{file} is no CIFAR-10 batch; remove {file.parent.parent} and run again")
        for record in content.reshape(-1, _RECORD):
            yield int(record[0]), record[1:].reshape(3, _EDGE, _EDGE).transpose(1, 2, 0).copy()
