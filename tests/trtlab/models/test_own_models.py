"""Models of one's own: functions, state dicts, scripted modules and exported programs, and files that are none."""

from pathlib import Path

import pytest
import torch
import torchvision

from tests.trtlab.tiny_models import SIZE, TinyNet
from trtcpu.errors import InputError
from trtlab.models.export import export_onnx
from trtlab.models.own_models import load_own, program_inputs

CODE = """
from torch import nn
def make():
    return nn.Linear(4, 3)
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


def test_a_function_gives_the_model(folder: Path) -> None:
    model = load_own(f"{folder}/mine.py:make", None)
    assert isinstance(model, torch.nn.Linear) and not model.training


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
        ("{}/none.pth", None, "none.pth cannot be loaded as weights, .*No such file"),
        ("{}/text.pth", None, "text.pth cannot be loaded as weights, without running its code"),
        ("{}/text.pt2", None, "text.pt2 cannot be loaded as exported program"),
        ("{}/list.pth", None, "holds list, no state dict"),
        ("{}/w.pth", None, "holds weights; name what they are of: --arch"),
        ("{}/w.pth", "vgg11", "does not hold weights of vgg11"),
        ("resnet5", None, "no model named 'resnet5'.*resnet50"),
    ],
)
def test_what_is_no_model_is_one_line(folder: Path, model: str, arch: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_own(model.format(folder), arch)
    assert "\n" not in str(caught.value)
