"""What `trtlab export` takes and writes: models, inputs and class names, and ONNX that agrees with PyTorch."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torchvision
from torch import nn

from helpers.data.datasets import load_dataset
from helpers.data.imagenet import class_names
from helpers.tools.outputs import onnx_outputs
from tests.helpers.data.test_datasets import make_folder
from tests.trtlab.tiny_models import SIZE, TinyNet
from trtcpu.errors import InputError
from trtlab.models.class_names import ClassNames, fit_labels, names_beside, number_of_classes, read_classes
from trtlab.models.export import export_onnx
from trtlab.models.lookups import Lookups
from trtlab.models.own_models import (
    image_input,
    load_own,
    parse_inputs,
    program_inputs,
    sizes_to_try,
)


@pytest.mark.parametrize(
    "options, batch, checked",
    [
        ({}, "batch", (1, 2, 5)),
        ({"simplify": True}, "batch", (1, 2, 5)),
        ({"dynamic_batch": False, "batch_size": 3}, 3, (3,)),
    ],
)
def test_only_the_batch_axis_is_symbolic_and_the_model_is_exported_in_eval_mode_and_left_in_training(
    tmp_path: Path, options: dict, batch: int | str, checked: tuple[int, ...]
) -> None:
    model = TinyNet()
    record = export_onnx(model, tmp_path / "m.onnx", input_size=SIZE, **options)
    operators = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert model.training and "BatchNormalization" not in operators
    assert (record.inputs, record.outputs) == ({"input": (batch, 3, SIZE, SIZE)}, {"output": (batch, 10)})
    assert record.input_shape == (batch, 3, SIZE, SIZE) and record.checked_batches == checked


@pytest.mark.parametrize("opset", [11, 17, 18, 21])
def test_the_export_computes_what_pytorch_computes(tmp_path: Path, opset: int) -> None:
    model = TinyNet().eval()
    record = export_onnx(model, tmp_path / "m.onnx", opset=opset, input_size=SIZE)
    images = torch.rand(7, 3, SIZE, SIZE)
    found = onnx_outputs((tmp_path / "m.onnx").read_bytes(), images.numpy())
    np.testing.assert_allclose(found, model(images).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert onnx.load(tmp_path / "m.onnx").opset_import[0].version == opset == record.opset
    assert record.relative_error < 1e-5


class Of(nn.Module):
    """A model of one function."""

    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.forward = function


def test_what_is_none_of_several_outputs_is_left_out(tmp_path: Path) -> None:
    record = export_onnx(Of(lambda images: (images.mean(dim=(2, 3)), None)), tmp_path / "m.onnx", input_size=SIZE)
    assert list(record.outputs) == ["output"] and record.relative_error < 1e-4


@pytest.mark.parametrize(
    "model, options, said",
    [
        (
            Of(lambda x: x.mean(dim=(2, 3)) * (1.0 if x.sum() > 0 else -1.0)),
            {},
            "differs from PyTorch: .*control flow that depends on the data",
        ),
        (Of(lambda x: x.flatten(1)[:, :10] * len(x)), {}, "differs from PyTorch"),
        (Of(lambda x: 0 / x.mean(dim=(2, 3)).relu().floor()), {}, "PyTorch's own output is NaN or infinite in 3 of 3"),
        (Of(lambda x: "images"), {}, "the model gives str; only tensors"),
        (
            Of(lambda x: x.mean(dim=(2, 3)) + torch.randn(len(x), 3)),
            {},
            "two answers for one input: it draws random numbers",
        ),
        (nn.Conv2d(3, 4, 2 * SIZE), {}, rf"cannot run on inputs of shape \[1, 3, {SIZE}, {SIZE}\]"),
        (TinyNet(), {"opset": 5}, "the exported model is not valid ONNX"),
        (TinyNet(), {"batch_size": 0}, "input input cannot be 0x3x32x32; sizes are 1 or more"),
    ],
)
def test_a_model_that_cannot_be_exported_is_one_line_and_keeps_the_previous_file(
    tmp_path: Path, model: nn.Module, options: dict, said: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"previous")
    with pytest.raises(InputError, match=said) as caught:
        export_onnx(model, tmp_path / "m.onnx", input_size=SIZE, **options)
    assert "\n" not in str(caught.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"previous"]


class Masked(nn.Module):
    """Attention over the ids that a mask of 0 and 1 leaves; one of its tables has `kinds` rows."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.words, self.places, self.sides, self.kinds = (nn.Embedding(rows, 8) for rows in (1000, 128, 300, kinds))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, sides: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        features = self.words(ids.long()) + self.places(torch.arange(ids.shape[1]))
        features = features + self.sides(sides.t()).transpose(0, 1) + self.kinds(kinds)
        scores = features @ features.transpose(1, 2) + (1 - mask.float())[:, None, :] * -3.4e38
        return scores.softmax(-1) @ features


MASKED = {"ids": "int32", "mask": "int64", "sides": "int64", "kinds": "int64"}


@pytest.mark.parametrize("kinds", [1, 40])
def test_a_mask_is_0_and_1_beside_the_ids_of_large_and_small_tables(tmp_path: Path, kinds: int) -> None:
    inputs = parse_inputs([f"{name}:batch,length:{dtype}" for name, dtype in MASKED.items()], batch=1, size=224)
    record = export_onnx(Masked(kinds), tmp_path / "m.onnx", inputs=inputs)
    assert list(record.inputs) == [*MASKED] and record.relative_error < 1e-5


@pytest.mark.filterwarnings("ignore:.torch.jit.(trace|script). is deprecated")
@pytest.mark.parametrize("form", ["module", "scripted", "program"])
def test_the_table_that_an_input_looks_up_is_found_in_every_form_of_a_model(form: str) -> None:
    values = {name: torch.zeros(2, 3, dtype=getattr(torch, dtype)) for name, dtype in MASKED.items()}
    model = Masked(kinds=1).eval()
    if form == "scripted":
        model = torch.jit.script(model)
    elif form == "program":
        model = torch.export.export(model, tuple(values.values())).module()
    with torch.no_grad(), Lookups(values) as lookups:
        model(*values.values())
    assert lookups.rows == {"ids": 1000, "sides": 300, "kinds": 1}


IDS = "ids:batch,length:int64"


def test_an_axis_is_a_size_or_a_name_with_the_size_to_trace_with() -> None:
    image, ids, fixed = parse_inputs(["image:batch,3,height=48,width", IDS, "x:1x3x224x224"], batch=2, size=224)
    assert (image.axes, image.dtype) == (("batch", 3, "height", "width"), torch.float32)
    assert image.traced == {"batch": 2, "height": 48, "width": 224}
    assert (ids.axes, ids.dtype, ids.traced) == (("batch", "length"), torch.int64, {"batch": 2, "length": 16})
    assert ids.dynamic() == {0: "batch", 1: "length"}
    assert (fixed.axes, fixed.traced) == ((1, 3, 224, 224), {})


def test_every_batch_and_every_other_dynamic_axis_is_tried() -> None:
    sizes = sizes_to_try(parse_inputs([IDS], batch=1, size=224))
    assert [(each["batch"], each["length"]) for each in sizes] == [(1, 16), (2, 16), (5, 16), (1, 32)]
    assert sizes_to_try([image_input("input", 3, False, 3, 8)]) == [{}]


@pytest.mark.parametrize(
    "texts, said",
    [
        (["image"], "'image' is not name:shape:dtype"),
        (["image:"], "is not name:shape:dtype"),
        (["image:batch,3:float64"], "'image:batch,3:float64' is not .*, the type one of float32"),
        (["image:batch,-3"], "an axis is a size from 1 on or a name"),
        (["image:batch,²"], "an axis is a size from 1 on or a name"),
        ([""], "'' is not name:shape:dtype"),
        (["image:,"], "an axis is a size from 1 on or a name"),
        (["image:0,3"], "image cannot be 0x3; sizes are 1 or more"),
        (["image:batch,3,height=0"], "image cannot be 1x3x0; sizes are 1 or more"),
        (["image:100000,100000"], "image cannot be 100000x100000; .*2,147,483,647 elements at most"),
        (["image:" + "9" * 5000], "an axis is a size from 1 on or a name"),
        (["a:1,2", "a:1,2"], "names a, a; give every input its own name"),
    ],
)
def test_a_wrong_input_is_one_line(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_inputs(texts, 1, 224)


CODE = """
from torch import nn
def make():
    return nn.Linear(4, 3)
def wide():
    return nn.Linear(5, 3)
def wrong():
    return "no module"
def broken():
    raise ValueError("two\\nlines")
"""
IMAGES = torch.rand(2, 3, SIZE, SIZE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Code, weights, and files that are neither."""
    (tmp_path / "mine.py").write_text(CODE)
    for name in ("text.pth", "text.pt2"):
        (tmp_path / name).write_text("no model")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"weight": torch.zeros(3, 4), "bias": torch.zeros(3)}, tmp_path / "w.pth")
    return tmp_path


@pytest.mark.parametrize("key, prefix", [("", ""), ("state_dict", ""), ("", "module.")])
def test_a_state_dict_computes_what_the_model_did(tmp_path: Path, key: str, prefix: str) -> None:
    expected = torchvision.models.resnet18(num_classes=7).eval()
    state = {prefix + name: value for name, value in expected.state_dict().items()}
    torch.save({key: state} if key else state, tmp_path / "w.pth")
    with torch.no_grad():
        torch.testing.assert_close(load_own(str(tmp_path / "w.pth"), "resnet18")(IMAGES), expected(IMAGES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_scripted_module_and_an_exported_program_are_exported(tmp_path: Path) -> None:
    model, scripted, program = TinyNet().eval(), str(tmp_path / "s.pt"), str(tmp_path / "p.pt2")
    torch.jit.script(model).save(scripted)
    exported = torch.export.export(model, (IMAGES,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(exported, program)
    for path, inputs in ((scripted, None), (program, program_inputs(program))):
        found = export_onnx(load_own(path, None), tmp_path / "m.onnx", inputs=inputs, input_size=SIZE)
        assert found.input_shape == ("batch", 3, SIZE, SIZE) and found.relative_error < 1e-5


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (load_own("squeezenet1_1", None).state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "model, arch, said",
    [
        ("{}/mine.py", None, "names no function"),
        ("{}/mine.py:other", None, "mine.py:other failed: AttributeError: .* 'other'"),
        ("{}/mine.py:wrong", None, "gives str; it must return a torch.nn.Module"),
        ("{}/mine.py:broken", None, "ValueError: two"),
        ("{}/none.py:make", None, "cannot read .*none.py: no such file"),
        ("{}/none.pth", "vgg11", "cannot read .*none.pth: No such file or directory; give the path of"),
        ("{}/none.pt", None, "cannot read .*none.pt: No such file"),
        ("{}/none.pt2", None, "cannot read .*none.pt2: No such file"),
        ("{}/text.pth", None, "text.pth cannot be loaded as weights, without running its code"),
        ("{}/text.pt2", None, "text.pt2 cannot be loaded as exported program"),
        ("{}/list.pth", None, "holds list, no state dict"),
        ("{}/w.pth", None, "holds weights; name what they are of: --arch"),
        (
            "{}/w.pth",
            "vgg11",
            r"does not hold weights of vgg11: 22 missing \(features.0.weight, features.0.bias, features.3.weight, …\), "
            r"2 unexpected \(weight, bias\); --arch must be the model that they were saved from",
        ),
        ("{}/w.pth", "{}/mine.py:wide", r"1 of another shape \(weight \[3, 4\] for \[3, 5\]\); --arch"),
        ("resnet5", None, "no model named 'resnet5'.*resnet50"),
    ],
)
def test_what_is_no_model_is_one_line(folder: Path, model: str, arch: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_own(model.format(folder), arch and arch.format(folder))
    assert "\n" not in str(caught.value)


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
