"""bench and profile at shapes beside the profile's best, with models of one's own as PyTorch baselines."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tools import own_models
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.shapes import chosen_inputs
from trtlab.engines.tensors import InputSpec
from trtlab.timing.memory_probe import measure
from trtlab.timing.runners import RunnerSpec, load_runner

IMAGE = InputSpec("image", np.dtype("float32"), (1, 3, 16, 16), (2, 3, 32, 32), (4, 3, 48, 40))
FACTS = InputSpec("facts", np.dtype("float32"), (1, 5), (2, 5), (4, 5))
TABLE = InputSpec("table", np.dtype("float32"), (7, 5), (7, 5), (7, 5))
INPUTS = {spec.name: spec for spec in (IMAGE, FACTS, TABLE)}
FACTORY = f"{own_models.__file__}:two_inputs"
QUICK = ("--iterations", 3, "--warmup", 0, "--limit", 1)


def test_the_inputs_that_are_not_named_have_the_batch_of_those_that_are() -> None:
    found = chosen_inputs(INPUTS, ["image:3x3x48x16"])
    assert {name: spec.best for name, spec in found.items()} == {
        "image": (3, 3, 48, 16),
        "facts": (3, 5),
        "table": (7, 5),
    }
    assert (found["image"].least, found["image"].most) == (IMAGE.least, IMAGE.most)
    assert chosen_inputs(INPUTS, []) == INPUTS


@pytest.mark.parametrize(
    "texts, said",
    [
        (
            ["image:3x3x49x16"],
            r"image:3x3x49x16 is outside the engine's profile: image float32 \[1–4, 3, 16–48, 16–40\]",
        ),
        (["image:3x3x48"], "outside the engine's profile"),
        (["image:1x3x16x16:2x3x16x16"], "image has 2 shapes; an engine runs one"),
        (["image:1x3x16x16", "facts:2x5"], "the batches 1 and 2; make them equal"),
        (["other:1x3"], "names 'other', which is no input; the model has image, facts, table"),
        (["image"], "'image' is no shape"),
    ],
)
def test_a_shape_that_the_engine_does_not_take_is_one_line(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen_inputs(INPUTS, texts)


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the processes in which bench measures memory: they take seconds each."""
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})


@pytest.fixture
def engine(trtlab, tmp_path: Path) -> Path:
    inputs = ("--input", "image:batch,3,height=32,width=32", "--input", "facts:batch,5")
    assert trtlab("export", "--model", FACTORY, *inputs, "--out", tmp_path / "m.onnx")[0] == 0
    shapes = ("image:1x3x16x16:2x3x32x32:4x3x48x40",)
    build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions(shapes=shapes))
    return tmp_path / "e.engine"


def test_engine_pytorch_and_onnx_runtime_are_measured_at_the_same_shapes(trtlab, engine: Path, tmp_path: Path) -> None:
    what = ("--engine", engine, "--pytorch", FACTORY, "--ort", tmp_path / "m.onnx")
    code, out, err = trtlab("bench", *what, "--shapes", "image:4x3x48x40", *QUICK, "--output", tmp_path / "b.json")
    assert code == 0, err
    rows = {row["name"]: row["batch"] for row in json.loads((tmp_path / "b.json").read_text())["rows"]}
    assert rows == {"e": 4, "pytorch-fp32": 4, "onnxruntime-fp32": 4}
    code, out, err = trtlab("profile", "--engine", engine, "--shapes", "image:1x3x16x16", "--iterations", 3)
    assert code == 0 and "e.engine at batch 1 on" in out, err


@pytest.mark.slow
def test_a_larger_image_costs_more_operations_in_the_profile(trtlab, engine: Path, tmp_path: Path) -> None:
    flops = []
    for size in (16, 32):
        call = ("profile", "--engine", engine, "--shapes", f"image:2x3x{size}x{size}", "--iterations", 2)
        assert trtlab(*call, "--output", tmp_path / "p.json")[0] == 0
        layers = json.loads((tmp_path / "p.json").read_text())["layers"]
        flops.append(max(layer["flops"] or 0 for layer in layers))
    outputs = [((size - 3) // 2 + 1) ** 2 for size in (16, 32)]  # of the convolution, which has the most operations
    assert flops[1] / flops[0] == pytest.approx(outputs[1] / outputs[0], rel=0.1)


@pytest.mark.parametrize(
    "options, said",
    [
        (
            ("bench", "--engine", "{e}", "--shapes", "image:9x3x32x32"),
            "image:9x3x32x32 is outside the engine's profile",
        ),
        (("bench", "--engine", "{e}", "--shapes", "image:1x3x16x16", "--batch-sizes", "1"), "drop --batch-sizes"),
        (("bench", "--pytorch", FACTORY, "--shapes", "image:1x3x16x16"), "--shapes is for engines"),
        (("bench", "--pytorch", FACTORY, "--batch-sizes", "1"), "two_inputs does not run on [1, 3, 224, 224]"),
        (("bench", "--pytorch", "none.py:make"), "cannot read none.py"),
        (("profile", "--engine", "{e}", "--shapes", "image:1x3x99x99"), "outside the engine's profile"),
        (("profile", "--engine", "{e}", "--shapes", "image:1x3x16x16", "--batch-size", "1"), "drop --batch-size"),
    ],
)
def test_what_cannot_be_measured_is_one_line(trtlab, engine: Path, tmp_path: Path, options: tuple, said: str) -> None:
    before = set(tmp_path.iterdir())
    code, _, err = trtlab(*(option.format(e=engine) for option in options))
    assert code == 2 and said in err and err.count("\n") == 1, err
    assert set(tmp_path.iterdir()) == before


def test_a_state_dict_runs_as_its_architecture_also_where_memory_is_measured(tmp_path: Path) -> None:
    torch.save(own_models.tokens().state_dict(), tmp_path / "tokens.pth")
    ids = InputSpec("ids", np.dtype("int64"), (1, 4), (2, 8), (4, 16), limit=1000)
    arch = f"{own_models.__file__}:tokens"
    spec = RunnerSpec("pytorch", str(tmp_path / "tokens.pth"), arch=arch, inputs={"ids": ids})
    runner = load_runner(spec)
    runner.bind(3)
    (fed,) = runner._feeds
    assert fed.shape == (3, 8) and fed.dtype == torch.int64 and 0 <= int(fed.min()) <= int(fed.max()) < 1000
    assert runner.size_bytes == sum(tensor.nbytes for tensor in own_models.tokens().state_dict().values())
    assert measure(spec, [2])[2] > 10**7
