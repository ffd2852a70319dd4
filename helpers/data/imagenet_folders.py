"""ImageNet as people have it on disk: class folders, or the flat validation folder with its label file.

    FOLDER/n01440764/….JPEG                   class folders, also below train/ and val/
    FOLDER/ILSVRC2012_val_00000001.JPEG       flat, as ImageNet and Kaggle pack it (FOLDER/ILSVRC/Data/CLS-LOC/val too)

The label file of a flat folder is one of `LABEL_FILES`, found in the folder, beside it, or at the top of Kaggle's tree.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from helpers.data import imagenet
from helpers.data.image_folders import (
    FolderDataSet,
    FolderLabels,
    arranged,
    folder_dataset,
    is_split,
    layout,
    loose_images,
)
from helpers.data.storage import one_line
from trtcpu.errors import DataError

LABEL_FILES = (
    "LOC_val_solution.csv",  # Kaggle: image, then synset and box
    "val_map.txt",  # MLPerf: image and label, 0 to 999
    "val.txt",  # Caffe: the same
    "synset_labels.txt",  # TensorFlow: a synset a line, in the images' order
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",  # the devkit: its own ids, 1 to 1000, in the images' order
)
_KAGGLE = ("", "ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")
_DEVKIT = "ILSVRC2012_devkit_t12/data"
_NUMBERED = "ILSVRC2012_val_{:08d}"
_CLASSES = 1000
_LABELS = FolderLabels(
    imagenet.label_of_folder, "not ImageNet's", "name them by synset (n01440764) or by label (0 to 999)"
)


def imagenet_dataset(name: str, folder: Path, label_file: Path | None, root: Path) -> FolderDataSet:
    """Return the data set of an ImageNet folder in one of its layouts; nothing is written into it.

    Raises:
        DataError: no such folder, no images, classes that are not ImageNet's, or labels that do not fit the images.
    """
    base = next((place for sub in _KAGGLE[::-1] if os.path.isdir(place := folder / sub)), folder)
    flat = next((place for sub in ("val", "validation", "") if _is_flat(place := base / sub)), None)
    if flat is None:
        if label_file:
            raise DataError(f"{folder} has class folders, which name the labels already; leave labels={label_file} out")
        return folder_dataset(name, imagenet.class_names(), layout(base), root, _LABELS)
    file = label_file or _label_file(folder, flat)
    synsets = list(imagenet.synsets())
    images = [(path, synsets[label]) for path, label in _labelled(flat, file)]
    train = base / "train" if is_split(base / "train") else None
    return folder_dataset(name, imagenet.class_names(), (train, arranged(images, root)), root, _LABELS)


def _is_flat(folder: Path) -> bool:
    return os.path.isdir(folder) and os.access(folder, os.R_OK) and not is_split(folder) and bool(loose_images(folder))


def _label_file(folder: Path, flat: Path) -> Path:
    """Return the first of the known label files that is near the images."""
    near = [folder, flat, flat.parent]
    if "ILSVRC" in flat.parts:
        near += [parent for parent in flat.parents if "ILSVRC" in parent.parts] + [_above_ilsvrc(flat)]
    places = [place / sub for place in near for sub in ("", _DEVKIT)]
    found = next((place / name for place in places for name in LABEL_FILES if os.path.isfile(place / name)), None)
    if found is None:
        raise DataError(
            f"{flat} is a flat folder without its labels; put one of {', '.join(LABEL_FILES)} beside it, or name the "
            f"file: imagenet:{folder},labels=FILE"
        )
    return found


def _above_ilsvrc(path: Path) -> Path:
    return next(parent.parent for parent in (path, *path.parents) if parent.name == "ILSVRC")


def _labelled(folder: Path, file: Path) -> list[tuple[Path, int]]:
    labels = labels_of_images(file)
    images = loose_images(folder)
    missing = [path.name for path in images if path.stem not in labels]
    if missing:
        raise DataError(
            f"{file} labels {len(labels)} images, but not {len(missing)} of the {len(images)} in {folder}, such as "
            f"{missing[0]}; give the file that belongs to them"
        )
    return [(path, labels[path.stem]) for path in images]


def labels_of_images(file: Path) -> dict[str, int]:
    """Return the label, 0 to 999 in the order of the synsets, of each image by its name without suffix.

    Raises:
        DataError: the file cannot be read, is empty, or has a label that is none of ImageNet's.
    """
    rows = list(_rows(file))
    if not rows:
        raise DataError(f"{file} is empty; expected one of the label files {', '.join(LABEL_FILES)}")
    numbered = all(len(words) == 1 for _, words in rows)
    by_word, expected = dict(imagenet.synsets()), "a synset such as n01440764"
    if not numbered:
        by_word |= {str(label): label for label in range(_CLASSES)}
        expected += f" or a label, 0 to {_CLASSES - 1}"
    elif rows[0][1][0].isdecimal():
        by_word, expected = _devkit_labels(file), f"one of the devkit's ids, 1 to {_CLASSES}"
    labels = {}
    for place, (line, words) in enumerate(rows, start=1):
        name, word = (_NUMBERED.format(place), words[0]) if numbered else (Path(words[0]).stem, words[-1])
        if word not in by_word:
            raise DataError(f"{file}, line {line}: {word!r} is no ImageNet label; expected {expected}")
        labels[name] = by_word[word]
    return labels


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the first one or two words of every line that holds any; a header is none."""
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise DataError(f"cannot read the labels {file}: {error.strerror or error}") from error
    for line, content in enumerate(text.splitlines(), start=1):
        words = re.split(r"[\s,;]+", content.strip())[:2]
        if words[0] and words[0].lower() != "imageid":
            yield line, words


def _devkit_labels(file: Path) -> dict[str, int]:
    """Return the label of each of the devkit's ids, whose order is not that of a model's outputs."""
    for name, read in (("meta.mat", _from_meta), ("map_clsloc.txt", _from_map)):
        if (path := file.with_name(name)).is_file():
            try:
                synset_of = read(path)
                return {str(number): imagenet.synsets()[synset_of[number]] for number in range(1, _CLASSES + 1)}
            except Exception as error:  # what SciPy raises for a damaged file, and KeyErrors of another content
                raise DataError(f"{path} does not map the devkit's ids to synsets ({one_line(error)})") from error
    raise DataError(
        f"{file} has the devkit's own ids, 1 to 1000, which are not in the order of a model's outputs; put the "
        "devkit's meta.mat (or map_clsloc.txt) beside it, or give one of " + ", ".join(LABEL_FILES[:4])
    )


def _from_meta(path: Path) -> dict[int, str]:
    from scipy.io import loadmat

    return {int(row[0]): str(row[1]) for row in loadmat(path, squeeze_me=True)["synsets"]}


def _from_map(path: Path) -> dict[int, str]:
    return {int(words[1]): words[0] for _, words in _rows(path)}
