"""Image folders of one's own: torchvision's ImageFolder is the oracle, and nothing is written into them."""

from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from helpers.data.datasets import load_dataset
from tests.helpers.data.test_datasets import _state, image_bytes, make_folder
from trtcpu.errors import DataError, InputError


def _load(folder: Path, tmp_path: Path):
    return load_dataset(f"folder:{folder}", tmp_path / "root", progress=False)


def test_labels_are_those_of_torchvision_and_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    make_folder(tmp_path / "pets" / "val", ["dog", "Cat", "zebra"], 4)
    make_folder(tmp_path / "pets" / "train", ["dog", "Cat", "zebra"], 10)
    (tmp_path / "pets" / "val" / "dog" / "deeper").mkdir()
    (tmp_path / "pets" / "val" / "dog" / "deeper" / "0.jpg").write_bytes(image_bytes(7))
    (tmp_path / "pets" / "val" / "dog" / "notes.txt").write_text("no image")
    before = _state(tmp_path / "pets")
    data, expected = _load(tmp_path / "pets", tmp_path), ImageFolder(tmp_path / "pets" / "val")
    assert data.classes == expected.classes == ["Cat", "dog", "zebra"] and data.num_outputs == 3
    assert sorted((str(path), label) for path, label in data.images("validation")) == sorted(expected.samples)
    assert [len(data.images(split)) for split in ("train", "calibration")] == [30, 6]
    assert _state(tmp_path / "pets") == before


def test_class_folders_alone_are_validation_and_some_are_held_out_to_calibrate(tmp_path: Path) -> None:
    make_folder(tmp_path / "pets", ["cat", "dog"], 10)
    for hidden in (".ipynb_checkpoints", ".git"):
        make_folder(tmp_path / "pets", [hidden], 1)
    data = _load(tmp_path / "pets", tmp_path)
    calibration, validation = ({p.resolve() for p, _ in data.images(split)} for split in ("calibration", "validation"))
    assert len(calibration) == 4 and len(validation) == 16 and not calibration & validation
    assert ImageFolder(data.split("calibration")).classes == data.classes == ["cat", "dog"]


def test_images_of_one_name_in_two_folders_of_a_class_are_both_there(tmp_path: Path) -> None:
    make_folder(tmp_path / "pets" / "cat", ["indoors", "outdoors"], 5)
    make_folder(tmp_path / "pets", ["dog"], 10)
    data = _load(tmp_path / "pets", tmp_path)
    found = [path.resolve() for split in ("calibration", "validation") for path, _ in data.images(split)]
    assert len(set(found)) == 20
    assert len(list(data.copy("validation", tmp_path / "copies", limit=16).glob("*/*"))) == 16


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    make_folder(tmp_path / "vehicles", ["bus", "train"], 2)
    assert _load(tmp_path / "vehicles", tmp_path).classes == ["bus", "train"]


def test_validation_may_lack_classes_of_training_but_have_no_others(tmp_path: Path) -> None:
    make_folder(tmp_path / "pets" / "train", ["ant", "cat", "dog"], 2)
    make_folder(tmp_path / "pets" / "validation", ["dog"], 2)
    assert {label for _, label in _load(tmp_path / "pets", tmp_path).images("validation")} == {2}
    make_folder(tmp_path / "pets" / "validation", ["emu"], 2)
    with pytest.raises(DataError, match="no known class: emu; the classes are those of .*train"):
        _load(tmp_path / "pets", tmp_path).images("validation")


def test_what_is_no_folder_of_classes_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    make_folder(tmp_path / "empty class", ["cat", "dog"], 1)
    (tmp_path / "empty class" / "bird").mkdir()
    make_folder(tmp_path / "loose", ["cat"], 1)
    (tmp_path / "loose" / "7.png").write_bytes(image_bytes(7))
    (tmp_path / "empty").mkdir()
    make_folder(tmp_path / "untested" / "train", ["cat"], 1)
    (tmp_path / "file").write_text("x")
    for name, said in (
        ("empty class", "no images in bird; fill or remove"),
        ("loose", "1 images that are in no class folder, such as 7.png"),
        ("empty", "holds no class folders; expected one folder a class"),
        ("missing", "cannot read the image folder .*No such file"),
        ("x" * 300, "cannot read the image folder .*File name too long"),
        ("file", "cannot read the image folder .*Not a directory"),
        ("untested", "train/ but no class folders in val/"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            _load(tmp_path / name, tmp_path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no data set named 'folder:'"):
        load_dataset("folder:")
