"""Data sets that lie in image folders, one folder a class."""

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from helpers.downloads import atomic_folder, cannot_write
from helpers.errors import DataError, InputError

__all__ = ["SPLITS", "DataSet", "FolderDataSet", "Item", "folder_dataset", "mixed"]

SPLITS = ("train", "calibration", "validation")
SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".webp"}
CALIBRATION_IMAGES = 512
Item = tuple[Path, int]


@dataclass(frozen=True)
class DataSet:
    """Labelled images in three splits: train, calibration and validation; no image is in both of the last two."""

    name: str
    classes: list[str]

    @property
    def num_outputs(self) -> int:
        """How many outputs a model for these labels has (1,000 for ImageNet labels, however few classes are there)."""
        return len(self.classes)

    def split(self, split: str) -> Path:
        """Return the complete folder of a split, with one folder a class below it."""
        raise NotImplementedError

    def images(self, split: str, limit: int | None = None, seed: int = 0) -> list[Item]:
        """Return up to `limit` (file, label) pairs in an order fixed by `seed`; classes take turns, so that each prefix
        holds as many of every class as it can. The label is the index of the model's output.

        Raises:
            InputError: no such split, or a limit below 1.
            DataError: the images could not be made or read.
        """
        check_split(split)
        if limit is not None and limit < 1:
            raise InputError(f"cannot take {limit} images of {self.name}: ask for 1 or more")
        return self._images(split, limit, seed)

    def copy(self, split: str, target: str | Path, limit: int) -> Path:
        """Copy the first `limit` images of a split below `target`, one folder a class, and return `target`.

        Raises:
            InputError, DataError: as from `images`; DataError also where `target` cannot be written.
        """
        for path, _ in self.images(split, limit=limit):
            folder = Path(target, path.parent.name)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / path.name)
            except OSError as error:
                raise cannot_write(Path(target), error) from error
        return Path(target)

    def _images(self, split: str, limit: int | None, seed: int) -> list[Item]:
        raise NotImplementedError


def check_split(split: str) -> None:
    """Raise InputError unless `split` is one of the three."""
    if split not in SPLITS:
        raise InputError(f"no split named {split!r}; choose one of {', '.join(SPLITS)}")


@dataclass(frozen=True)
class FolderDataSet(DataSet):
    """A data set whose files are already there."""

    folders: dict[str, Path]
    label_of: Callable[[str], int | None]

    def split(self, split: str) -> Path:
        check_split(split)
        if split not in self.folders:
            raise InputError(f"{self.name} has no {split} split; it has {', '.join(self.folders)}")
        return self.folders[split]

    def _images(self, split: str, limit: int | None, seed: int) -> list[Item]:
        return mixed(_list_folder(self.split(split), self.label_of), seed)[:limit]


def mixed(by_class: Sequence[list[Item]], seed: int) -> list[Item]:
    """Shuffle each class's files by `seed`, then let the classes take turns."""
    rng = np.random.RandomState(seed)
    shuffled = [[items[i] for i in rng.permutation(len(items))] for items in by_class]
    return [item for item in chain.from_iterable(zip_longest(*shuffled)) if item is not None]


def _list_folder(folder: Path, label_of: Callable[[str], int | None]) -> list[list[Item]]:
    """Return the image files of each class folder, sorted by name.

    Raises:
        DataError: the folder is missing, a class folder's name is no known class, or there are no images.
    """
    try:
        classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"cannot read the image folder {folder}: {error.strerror or error}") from error
    unknown = [path.name for path in classes if label_of(path.name) is None]
    if unknown:
        raise DataError(
            f"{folder} has class folders that are not ImageNet's: {', '.join(unknown[:3])}; "
            "name them by synset (n01440764) or by label (0 to 999)"
        )
    by_class = [_list_class(path, label_of(path.name)) for path in classes]
    if not any(by_class):
        raise DataError(f"{folder} holds no images in class folders; expected files such as {folder}/n01440764/1.jpg")
    return by_class


def _list_class(folder: Path, label: int) -> list[Item]:
    return [(path, label) for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]


def folder_dataset(
    name: str, classes: Sequence[str], folder: Path, root: Path, label_of: Callable[[str], int | None]
) -> FolderDataSet:
    """Give the three splits of `folder`: class folders below train/ and val/, or validation images alone.

    The calibration split is made of links below `root`: training images, or, where there are none, images that are then
    left out of validation.
    """
    validation = next((folder / sub for sub in ("val", "validation") if (folder / sub).is_dir()), folder)
    has_train = validation != folder and (folder / "train").is_dir()
    source = folder / "train" if has_train else validation
    items = mixed(_list_folder(source, label_of), seed=0)
    count = min(CALIBRATION_IMAGES, max(1, len(items) // 5))
    views = root / f"views-{_fingerprint(items)}"
    folders = {"calibration": _link(items[:count], views / "calibration")}
    rest = {"train": source, "validation": validation} if has_train else {"validation": None}
    folders |= {split: path or _link(items[count:], views / "validation") for split, path in rest.items()}
    return FolderDataSet(name, list(classes), folders, label_of)


def _fingerprint(items: list[Item]) -> str:
    return hashlib.sha256("\n".join(str(path) for path, _ in items).encode()).hexdigest()[:16]


def _link(items: list[Item], folder: Path) -> Path:
    """Make a folder of links to `items` with the same class folders; copies where links cannot be made."""
    if not items:
        raise DataError(f"too few images for a {folder.name} split; add images")
    if not folder.is_dir():
        with atomic_folder(folder) as temporary:
            for path, _ in items:
                target = temporary / path.parent.name / path.name
                target.parent.mkdir(exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    _link_file(path.resolve(), target)
    return folder


def _link_file(path: Path, target: Path) -> None:
    try:
        target.symlink_to(path)
    except (NotImplementedError, PermissionError):  # Windows without developer mode
        shutil.copyfile(path, target)
