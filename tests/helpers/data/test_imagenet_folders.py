"""ImageNet's layouts: the label of every image is the place of its synset in sorted order, whatever file says it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from helpers.data import imagenet
from helpers.data.datasets import DataSet, load_dataset
from helpers.data.imagenet_folders import labels_of_images
from tests.helpers.data.test_datasets import _state, image_bytes, make_folder
from trtcpu.errors import DataError

SYNSETS = sorted(imagenet.synsets())
LABELS = [65, 970, 0, 999, 65]


def _flat(folder: Path) -> Path:
    """Write five validation images, whose labels are LABELS."""
    folder.mkdir(parents=True)
    for index in range(len(LABELS)):
        (folder / f"{_name(index)}.JPEG").write_bytes(image_bytes(index))
    return folder


def _name(index: int) -> str:
    return f"ILSVRC2012_val_{index + 1:08d}"


def _load(folder: Path, tmp_path: Path, labels: str = "") -> DataSet:
    return load_dataset(f"imagenet:{folder}{labels}", tmp_path / "root", progress=False)


def _labels(data: DataSet) -> dict[str, int]:
    images = [item for split in ("calibration", "validation") for item in data.images(split)]
    return {path.stem: label for path, label in images}


EXPECTED = {_name(index): label for index, label in enumerate(LABELS)}
FILES = {
    "val.txt": "".join(f"{name}.JPEG {label}\n" for name, label in EXPECTED.items()),
    "val_map.txt": "".join(f"val/{name}.JPEG\t{label}\r\n" for name, label in reversed(EXPECTED.items())),
    "synset_labels.txt": "".join(f"{SYNSETS[label]}\n" for label in LABELS),
    "LOC_val_solution.csv": "ImageId,PredictionString\n"
    + "".join(f"{name},{SYNSETS[label]} 1 2 3 4 {SYNSETS[label]} 5 6 7 8\n" for name, label in EXPECTED.items()),
}


@pytest.mark.parametrize("name", FILES)
def test_a_flat_folder_is_labelled_by_the_file_beside_it_or_in_it(tmp_path: Path, name: str) -> None:
    folder = _flat(tmp_path / "images")
    for place in (tmp_path, folder):
        (place / name).write_text(FILES[name])
        before = _state(folder)
        data = _load(folder, tmp_path)
        assert _labels(data) == EXPECTED and data.num_outputs == 1000 and _state(folder) == before
        (place / name).unlink()


def test_a_label_file_elsewhere_is_named(tmp_path: Path) -> None:
    folder = _flat(tmp_path / "images")
    with pytest.raises(DataError, match="flat folder without its labels; put one of .*labels=FILE"):
        _load(folder, tmp_path)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mine.txt").write_text(FILES["val.txt"])
    assert _labels(_load(folder, tmp_path, f",labels={tmp_path / 'root' / 'mine.txt'}")) == EXPECTED


def _devkit_ids(folder: Path, kind: str) -> list[int]:
    """Write the devkit's table of ids in another order than the synsets'; return the ids of LABELS."""
    order = np.random.RandomState(0).permutation(1000)
    ids = {int(label): number for number, label in enumerate(order, start=1)}
    if kind == "map_clsloc.txt":
        rows = "".join(f"{SYNSETS[label]} {number} kit_fox\n" for label, number in ids.items())
        (folder / kind).write_text(rows)
    else:
        kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O")]
        rows = [(number, SYNSETS[label], "a kit fox") for label, number in ids.items()]
        rows += [(1001, "n00001740", "an inner node")]
        savemat(folder / kind, {"synsets": np.array(rows, dtype=kinds)[:, None]})
    return [ids[label] for label in LABELS]


@pytest.mark.parametrize("kind", ["meta.mat", "map_clsloc.txt"])
def test_the_devkits_ids_are_mapped_by_its_own_table(tmp_path: Path, kind: str) -> None:
    folder = _flat(tmp_path / "ILSVRC2012_img_val")
    devkit = tmp_path / "ILSVRC2012_devkit_t12" / "data"
    devkit.mkdir(parents=True)
    numbers = _devkit_ids(devkit, kind)
    (devkit / "ILSVRC2012_validation_ground_truth.txt").write_text("".join(f"{number}\n" for number in numbers))
    assert _labels(_load(folder, tmp_path)) == EXPECTED


def test_the_devkits_ids_alone_are_refused_and_so_is_a_table_of_something_else(tmp_path: Path) -> None:
    folder = _flat(tmp_path / "images")
    (tmp_path / "ILSVRC2012_validation_ground_truth.txt").write_text("490\n361\n171\n822\n297\n")
    with pytest.raises(DataError, match="own ids, 1 to 1000, which are not in the order .*meta.mat"):
        _load(folder, tmp_path)
    (tmp_path / "meta.mat").write_bytes(b"garbage")
    with pytest.raises(DataError, match="does not map the devkit's ids"):
        _load(folder, tmp_path)


@pytest.mark.parametrize("named", ["", "ILSVRC", "ILSVRC/Data/CLS-LOC", "ILSVRC/Data/CLS-LOC/val"])
def test_kaggles_tree_is_found_from_each_of_its_folders(tmp_path: Path, named: str) -> None:
    top = tmp_path / "kaggle"
    _flat(top / "ILSVRC" / "Data" / "CLS-LOC" / "val")
    make_folder(top / "ILSVRC" / "Data" / "CLS-LOC" / "train", SYNSETS[:2], 5)
    (top / "LOC_val_solution.csv").write_text(FILES["LOC_val_solution.csv"])
    data = _load(top / named, tmp_path)
    if named.endswith("val"):  # what is above the folder named is not looked at for training images
        assert _labels(data) == EXPECTED
        return
    assert {path.stem: label for path, label in data.images("validation")} == EXPECTED
    assert {label for _, label in data.images("calibration")} == {0, 1}


def test_labels_that_do_not_fit_are_one_line_with_the_counts(tmp_path: Path) -> None:
    folder, file = _flat(tmp_path / "images"), tmp_path / "val.txt"
    for content, said in (
        ("", "is empty"),
        (f"{_name(0)}.JPEG 1\n{_name(1)}.JPEG 1000\n", "line 2: '1000' is no ImageNet label; .*0 to 999"),
        ("n01440764\nn99999999\n", "line 2: 'n99999999' is no ImageNet label"),
        ("n01440764\n" * 3, "labels 3 images, but not 2 of the 5 in .*such as ILSVRC2012_val_00000004.JPEG"),
    ):
        file.write_text(content)
        with pytest.raises(DataError, match=said) as caught:
            _load(folder, tmp_path)
        assert "\n" not in str(caught.value)
    make_folder(tmp_path / "classes", SYNSETS[:2], 3)
    with pytest.raises(DataError, match="class folders, which name the labels already"):
        _load(tmp_path / "classes", tmp_path, f",labels={file}")
    with pytest.raises(DataError, match="cannot read the labels"):
        _load(folder, tmp_path, f",labels={tmp_path / 'none.txt'}")


def test_fifty_thousand_labels_are_read_by_line_number(tmp_path: Path) -> None:
    labels = np.random.RandomState(1).randint(0, 1000, 50_000)
    (tmp_path / "synset_labels.txt").write_text("\n".join(SYNSETS[label] for label in labels))
    found = labels_of_images(tmp_path / "synset_labels.txt")
    assert len(found) == 50_000 and found["ILSVRC2012_val_00050000"] == labels[-1]
