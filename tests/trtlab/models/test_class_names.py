"""Class names: every spelling that people have, and labels that follow the model's outputs by name."""

import json
from pathlib import Path

import pytest

from helpers.data.datasets import load_dataset
from helpers.data.imagenet import class_names
from tests.helpers.data.test_datasets import make_folder
from trtcpu.errors import InputError
from trtlab.models.class_names import ClassNames, fit_labels, names_beside, number_of_classes, read_classes

PETS = ["zebra", "ant", "guinea pig"]


@pytest.fixture
def pets(tmp_path: Path):
    folder = make_folder(tmp_path / "pets", ["ant", "guinea_pig", "zebra"], 10)
    return load_dataset(f"folder:{folder}", tmp_path / "root", progress=False)


@pytest.mark.parametrize(
    "content",
    [
        "zebra\nant\r\nguinea pig\n\n",
        "\ufeffzebra\nant\nguinea pig",
        json.dumps(PETS),
        json.dumps({"0": "zebra", "2": "guinea pig", "1": "ant"}),
        json.dumps({"0": ["n1", "zebra"], "1": ["n2", "ant"], "2": ["n3", "guinea pig"]}),
        json.dumps({"ant": 1, "guinea pig": 2, "zebra": 0}),
    ],
)
def test_names_are_read_in_the_order_of_the_outputs(tmp_path: Path, content: str) -> None:
    (tmp_path / "classes").write_text(content, encoding="utf-8", newline="")
    assert read_classes(tmp_path / "classes").names == PETS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no names"),
        (b"[]", "holds no names"),
        (b"ant\n\nbee\n", "an empty name at index 1"),
        (b'{"0": "ant", "2": "bee"}', "2 entries but none for index 1"),
        (b'["ant", 3]', "other things than names"),
        (b'{"ant": {"x": 1}}', "none for index 0"),
        (b'["ant", ', "no JSON of class names"),
        (b"\xff\xfe\x00", "cannot read the class names"),
        (None, "cannot read the class names .*No such file"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "classes").write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        read_classes(tmp_path / "classes")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("names", [PETS, ["newt", *PETS]])
def test_folders_are_matched_with_the_outputs_by_name(pets, names: list[str]) -> None:
    fitted = fit_labels(pets, len(names), ClassNames(names, "names.txt"), "m")
    assert fitted.classes == names and fitted.split("validation") == pets.split("validation")
    labels = {path.parent.name.replace("_", " "): label for path, label in fitted.images("validation", seed=3)}
    assert labels == {name: names.index(name) for name in PETS}


@pytest.mark.parametrize(
    ("outputs", "names", "said"),
    [
        (9, None, r"m has 9 outputs, .* 3 classes \(ant, guinea_pig, zebra\): labels cannot match; give the --data"),
        (2, None, "m has 2 outputs"),
        (3, PETS[:2], "n names 2 classes, but m has 3 outputs"),
        (3, ["ant", "bee", "zebra"], "guinea_pig of the data is not among them"),
        (4, ["ant", "Ant", "guinea pig", "guinea-pig"], "guinea_pig, zebra of the data are not"),
        (10, list("0123456789"), r"10 classes \(0, 1, 2, 3, …\) by n, .*: ant, guinea_pig, zebra of"),
    ],
)
def test_labels_that_cannot_match_say_what_both_have_and_what_to_do(pets, outputs: int, names, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        fit_labels(pets, outputs, names and ClassNames(names, "n"), "m")
    assert "\n" not in str(caught.value)


def test_imagenets_classes_are_in_one_order_however_they_are_spelled(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "val", ["n01440764", "n01443537"], 4)
    data, wrong = (
        load_dataset(f"{kind}:{folder}", tmp_path / "root", progress=False) for kind in ("imagenet", "folder")
    )
    spelled = ClassNames([f"{name}, or so" for name in class_names()], "labels.txt")
    assert fit_labels(data, 1000, spelled, "m") is data
    with pytest.raises(InputError, match="m has 1001 outputs"):
        fit_labels(data, 1001, None, "m")
    for names in (None, spelled):
        with pytest.raises(InputError, match=f"ImageNet's synsets: .* --data imagenet:{folder}$"):
            fit_labels(wrong, 1000, names, "m")


@pytest.mark.parametrize("metadata", [{}, {"classes": "no JSON"}, {"classes": "{}"}, {"classes": "[1]"}, [], None])
def test_a_record_without_names_gives_none(tmp_path: Path, metadata: object) -> None:
    (tmp_path / "e.engine.json").write_text(json.dumps({"metadata": metadata}))
    assert names_beside(tmp_path / "e.engine") is None and names_beside(tmp_path / "none") is None


@pytest.mark.parametrize("shape", [(), (1,), (10, 7, 7)])
def test_outputs_that_are_no_scores_have_no_labels(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="classes need one score each"):
        number_of_classes(shape, "m")
