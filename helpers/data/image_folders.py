"""Data sets that lie in image folders, one folder a class, as torchvision's ImageFolder reads them."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from helpers.data.downloads import atomic_folder, cannot_write
from trtcpu.errors import DataError, InputError

SPLITS = ("train", "calibration", "validation")
SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
VALIDATION_FOLDERS = ("val", "validation", "test")
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

    def place(self, split: str) -> Path:
        """Return the folder of a split, whether or not all images are in it yet; the class folders lie below it."""
        raise NotImplementedError

    def split(self, split: str) -> Path:
        """Return the complete folder of a split, with one folder a class below it."""
        return self.place(split)

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
            InputError, DataError: as from `images`; DataError also if `target` cannot be written.
        """
        for path, _ in self.images(split, limit=limit):
            folder = Path(target, path.relative_to(self.place(split)).parts[0])
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
class FolderLabels:
    """The label of each class folder by its name (None for others), and what to say of a name that has none."""

    of: Callable[[str], int | None]
    unknown: str
    advice: str


@dataclass(frozen=True)
class FolderDataSet(DataSet):
    """A data set whose files are already there."""

    folders: dict[str, Path]
    labels: FolderLabels

    def place(self, split: str) -> Path:
        check_split(split)
        if split not in self.folders:
            raise InputError(f"{self.name} has no {split} split; it has {', '.join(self.folders)}")
        return self.folders[split]

    def _images(self, split: str, limit: int | None, seed: int) -> list[Item]:
        return mixed(_list_folder(self.place(split), self.labels), seed)[:limit]


def mixed(by_class: Sequence[list[Item]], seed: int) -> list[Item]:
    """Shuffle each class's files by `seed`, then let the classes take turns."""
    rng = np.random.RandomState(seed)
    shuffled = [[items[i] for i in rng.permutation(len(items))] for items in by_class]
    return [item for item in chain.from_iterable(zip_longest(*shuffled)) if item is not None]


def class_folders(folder: Path) -> list[Path]:
    """Return the class folders of an image folder, sorted by name; hidden ones are none.

    Raises:
        DataError: the folder is missing, has no class folder, or has images that are in none.
    """
    try:
        classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        loose = loose_images(folder)
    except OSError as error:
        raise DataError(f"cannot read the image folder {folder}: {error.strerror or error}") from error
    if loose:
        raise DataError(
            f"{folder} holds {len(loose)} images that are in no class folder, such as {loose[0].name}; put each into "
            "a folder named after its class"
        )
    if not classes:
        raise DataError(f"{folder} holds no class folders; expected one folder a class, such as {folder}/cat/1.jpg")
    return classes


def loose_images(folder: Path) -> list[Path]:
    """Return the images that lie in the folder itself, sorted."""
    return sorted(path for path in folder.iterdir() if _is_image(path.name) and path.is_file())


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def _list_folder(folder: Path, labels: FolderLabels) -> list[list[Item]]:
    """Return the image files of each class folder, sorted by path.

    Raises:
        DataError: as `class_folders`, and where a class folder's name is no known class or holds no images.
    """
    classes = class_folders(folder)
    unknown = [path.name for path in classes if labels.of(path.name) is None]
    if unknown:
        raise DataError(f"{folder} has class folders that are {labels.unknown}: {_listed(unknown)}; {labels.advice}")
    by_class = [_list_class(path, labels.of(path.name)) for path in classes]
    empty = [path.name for path, items in zip(classes, by_class, strict=True) if not items]
    if empty:
        raise DataError(f"{folder} holds no images in {_listed(empty)}; fill or remove the class folder")
    return by_class


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _list_class(folder: Path, label: int) -> list[Item]:
    """Return the images below a class folder, at any depth."""
    found = []
    for place, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        found += [Path(place, name) for name in files if _is_image(name)]
    return [(path, label) for path in sorted(found)]


def is_split(folder: Path) -> bool:
    """Say whether a folder has class folders: train/ may also be the class of images of trains."""
    with contextlib.suppress(OSError):
        return any(path.is_dir() and not path.name.startswith(".") for path in folder.iterdir())
    return False


def layout(folder: Path) -> tuple[Path | None, Path]:
    """Return the training and the validation folder: train/ (or none) and val/, validation/ or test/, else the folder.

    Raises:
        DataError: there are training images alone.
    """
    train = folder / "train" if is_split(folder / "train") else None
    validation = next((folder / name for name in VALIDATION_FOLDERS if is_split(folder / name)), None)
    if train and not validation:
        raise DataError(f"{folder} has train/ but no class folders in val/, validation/ or test/; add one of them")
    return (train if validation else None), validation or folder


def labels_by_name(names: Sequence[str], advice: str) -> FolderLabels:
    """Give each class folder the place of its name among `names`."""
    return FolderLabels({name: label for label, name in enumerate(names)}.get, "no known class", advice)


def folder_dataset(
    name: str,
    classes: Sequence[str],
    folders: tuple[Path | None, Path],
    root: Path,
    labels: FolderLabels,
) -> FolderDataSet:
    """Give the three splits of a training folder (or none) and a validation folder, as `layout` finds them.

    The calibration split is made of links below `root`: training images, or, if there are none, images that are then
    left out of validation.
    """
    train, validation = folders
    source = train or validation
    items = mixed(_list_folder(source, labels), seed=0)
    count = min(CALIBRATION_IMAGES, max(1, len(items) // 5))
    places = [(path, _below(path, source)) for path, _ in items]
    views = root / f"views-{_fingerprint(places)}"
    found = {"calibration": _link(places[:count], views / "calibration")}
    rest = {"train": train, "validation": validation} if train else {"validation": None}
    found |= {split: path or _link(places[count:], views / "validation") for split, path in rest.items()}
    return FolderDataSet(name, list(classes), found, labels)


def _below(path: Path, folder: Path) -> Path:
    """Return where a link to an image goes: its class folder, in which what is deeper has a name of its own."""
    first, *rest = path.relative_to(folder).parts
    return Path(first, "-".join(rest))


def arranged(images: Sequence[tuple[Path, str]], root: Path) -> Path:
    """Return a folder of links below `root` to (image, name of its class folder)."""
    places = [(path, Path(name, path.name)) for path, name in images]
    return _link(places, root / f"views-{_fingerprint(places)}" / "classes")


def _fingerprint(places: Sequence[tuple[Path, Path]]) -> str:
    return hashlib.sha256("\n".join(f"{path}\t{place}" for path, place in places).encode()).hexdigest()[:16]


def _link(places: Sequence[tuple[Path, Path]], folder: Path) -> Path:
    """Make a folder of links to images at the places given; copies if links cannot be made."""
    if not places:
        raise DataError(f"too few images for a {folder.name} split; add images")
    if not folder.is_dir():
        with atomic_folder(folder) as temporary:
            for path, place in places:
                target = temporary / place
                target.parent.mkdir(exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    _link_file(path.resolve(), target)
    return folder


def _link_file(path: Path, target: Path) -> None:
    try:
        target.symlink_to(path)
    except (NotImplementedError, PermissionError):  # Windows without developer mode
        shutil.copyfile(path, target)
