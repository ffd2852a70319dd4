"""Models of one's own: functions, state dicts, scripted modules and exported programs, and files that are none."""

from pathlib import Path

import pytest
import torch
import torchvision

from tests.trtlab.tiny_models import SIZE, TinyNet
from trtcpu.errors import InputError
from trtlab.models.export import export_onnx
from trtlab.models.own_models import is_own, load_own, program_inputs

CODE = """
from torch import nn
WIDTH = 3
def make():
    return nn.Linear(4, WIDTH)
def wrong():
    return "no module"
def broken():
    raise ValueError("two\\nlines")
"""
IMAGES = torch.rand(2, 3, SIZE, SIZE)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def _weights(path: Path, **around: str) -> torch.nn.Module:
    model = torchvision.models.resnet18(num_classes=7).eval()
    state = {around.get("prefix", "") + key: value for key, value in model.state_dict().items()}
    torch.save({around["key"]: state} if "key" in around else state, path)
    return model


def test_the_labs_own_models_are_loaded_otherwise() -> None:
    assert not is_own("resnet50", "auto") and is_own("resnet50", "none")
    assert all(is_own(text, "auto") for text in ("a.py:f", "w.pth", "s.pt", "p.pt2"))


def test_a_function_gives_the_model(code: Path) -> None:
    model = load_own(f"{code}:make", None, "auto")
    assert isinstance(model, torch.nn.Linear) and not model.training


@pytest.mark.parametrize("around", [{}, {"key": "state_dict"}, {"prefix": "module."}])
def test_a_state_dict_computes_what_the_model_did(tmp_path: Path, around: dict[str, str]) -> None:
    expected = _weights(tmp_path / "w.pth", **around)
    found = load_own(str(tmp_path / "w.pth"), "resnet18", "auto")
    with torch.no_grad():
        torch.testing.assert_close(found(IMAGES), expected(IMAGES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_scripted_module_and_an_exported_program_are_exported(tmp_path: Path) -> None:
    model = TinyNet().eval()
    torch.jit.script(model).save(str(tmp_path / "s.pt"))
    dynamic = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(model, (IMAGES,), dynamic_shapes=dynamic), str(tmp_path / "p.pt2"))
    scripted = export_onnx(load_own(str(tmp_path / "s.pt"), None, "auto"), tmp_path / "s.onnx", input_size=SIZE)
    inputs = program_inputs(str(tmp_path / "p.pt2"))
    program = export_onnx(load_own(str(tmp_path / "p.pt2"), None, "auto"), tmp_path / "p.onnx", inputs=inputs)
    assert scripted.input_shape == program.input_shape == ("batch", 3, SIZE, SIZE)
    assert program.relative_error < 1e-5


def test_random_weights_are_the_same_each_time_and_leave_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (load_own("squeezenet1_1", None, "none").state_dict() for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "model, said",
    [
        ("{}/mine.py", "names no function"),
        ("{}/mine.py:other", "has no other; it defines make, wrong, broken"),
        ("{}/mine.py:wrong", "gives str; it must return a torch.nn.Module"),
        ("{}/mine.py:broken", "ValueError: two"),
        ("{}/none.py:make", "no such file"),
        ("{}/none.pth", "no such file"),
        ("{}/text.pth", "holds no state dict that can be loaded without running its code"),
        ("{}/text.pt2", "cannot be loaded as exported program"),
        ("{}/list.pth", "holds list, no state dict"),
        ("{}/w.pth", "holds weights; name what they are of: --arch"),
        ("resnet5", "no architecture named 'resnet5'.*resnet50"),
    ],
)
def test_what_is_no_model_is_one_line(code: Path, tmp_path: Path, model: str, said: str) -> None:
    for name in ("text.pth", "text.pt2"):
        (tmp_path / name).write_text("no model")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"weight": torch.zeros(3, 4), "bias": torch.zeros(3)}, tmp_path / "w.pth")
    with pytest.raises(InputError, match=said) as caught:
        load_own(model.format(tmp_path), None, "auto")
    assert "\n" not in str(caught.value)


def test_weights_of_another_architecture_are_refused(tmp_path: Path, code: Path) -> None:
    _weights(tmp_path / "w.pth")
    for arch in ("vgg11", f"{code}:make"):
        with pytest.raises(InputError, match="does not hold weights of"):
            load_own(str(tmp_path / "w.pth"), arch, "auto")
