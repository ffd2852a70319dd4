"""Networks of two inputs and of token ids, from the export to the profile, against PyTorch and from the outside."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from helpers.engine.backend import ENGINE
from helpers.tools.files import read_json
from tests.tools import own_models
from tests.trtlab.shell import fails, says
from trtcpu.errors import InputError, LabError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import InputSpec
from trtlab.timing.memory_probe import measure
from trtlab.timing.runners import RunnerSpec, load_runner

INPUTS = {
    "two_inputs": ("--input", "image:batch,3,height=32,width=32", "--input", "facts:batch,5"),
    "tokens": ("--input", "ids:batch,length:int64"),
}
SHAPES = {"two_inputs": "image:1x3x16x16:2x3x32x32:4x3x48x40", "tokens": "ids:1x2:2x8:4x12"}
FACTORY = f"{own_models.__file__}:two_inputs"
IMAGE = np.random.default_rng(3).standard_normal((16, 3, 24, 40)).astype(np.float32)
FACTS = np.random.default_rng(4).standard_normal((16, 5)).astype(np.float32)
IDS = np.random.default_rng(0).integers(0, 1000, (6, 12))


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the processes in which bench measures memory: they take seconds each."""
    monkeypatch.setattr("trtlab.timing.memory_probe.peak_memory", lambda runner, batches: {})


@pytest.fixture
def model(trtlab, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The model of two inputs, or the one that the test names."""
    function = getattr(request, "param", "two_inputs")
    path = tmp_path / f"{function}.onnx"
    says(trtlab("export", "--model", f"{own_models.__file__}:{function}", *INPUTS[function], "--out", path))
    return path


@pytest.fixture
def engine(model: Path, tmp_path: Path) -> Path:
    build_engine(model, tmp_path / "e.engine", BuildOptions(shapes=(SHAPES[model.stem],)))
    return tmp_path / "e.engine"


@pytest.mark.parametrize(
    "model, feeds, described",
    [
        (
            "two_inputs",
            {"image": IMAGE, "facts": FACTS},
            ["image float32 [1–4, 3, 16–48, 16–40]", "facts float32 [1–4, 5]"],
        ),
        *(("tokens", {"ids": IDS[:, :length]}, ["ids int64 [1–4, 2–12]"]) for length in (3, 8, 12)),
    ],
    indirect=["model"],
)
def test_inputs_of_any_shape_compute_what_pytorch_computes(
    model: Path, engine: Path, feeds: dict[str, np.ndarray], described: list[str]
) -> None:
    network = getattr(own_models, model.stem)()
    with InferenceEngine(engine) as loaded, torch.no_grad():
        assert [spec.described() for spec in loaded.inputs.values()] == described
        expected = network(*map(torch.from_numpy, feeds.values()))
        np.testing.assert_allclose(loaded.predict_all(feeds)["output"], expected, rtol=1e-4, atol=1e-5)
        loaded.bind(4)
        assert loaded.execute_ms() > 0


@pytest.mark.slow
def test_an_int8_engine_of_named_inputs_is_built_timed_profiled_and_compared(
    model: Path, trtlab, tmp_path: Path
) -> None:
    np.savez(tmp_path / "s.npz", image=IMAGE, facts=FACTS)
    fp32, int8, samples = tmp_path / "fp32.engine", tmp_path / "int8.engine", tmp_path / "s.npz"
    says(trtlab("build", "--onnx", model, "--engine", fp32, "--shapes", SHAPES["two_inputs"]))
    given = ("--int8", "--calib_npy", samples, "--minShapes=image:1x3x16x16")
    given += ("--opt-shapes", "image:2x3x32x32", "--max-shapes", "image:4x3x48x40")
    assert "entropy, 16 images" in says(trtlab("build", "--onnx", model, "--engine", int8, *given))
    assert read_json(f"{int8}.json")["layer_precisions"]["int8"] >= 1
    assert read_json(f"{int8}.json")["inputs"] == read_json(f"{fp32}.json")["inputs"]
    found = says(trtlab("compare", "--a", fp32, "--b", int8, "--calib-npy", samples))
    assert "top-1 agreement" in found and "16 images" in found
    assert "seeded noise" in says(trtlab("compare", "--a", fp32, "--b", int8, "--n", "4"))
    timed = ("--iterations", "3", "--warmup", "0", "--batch-sizes", "1", "4", "--output", tmp_path / "b.json")
    says(trtlab("bench", "--engine", fp32, int8, "--ort", model, *timed))
    assert len(json.loads((tmp_path / "b.json").read_text())["rows"]) == 6
    assert "two_inputs.onnx" in says(trtlab("profile", "--engine", int8, "--iterations", "2", "--top", "1"))


@pytest.mark.parametrize(
    "model, samples, said",
    [
        ("two_inputs", {"image": IMAGE}, "holds image, but no facts"),
        (
            "two_inputs",
            {"image": IMAGE, "facts": FACTS[:3]},
            r"another number of samples for each input \(image 16, facts 3\)",
        ),
        (
            "two_inputs",
            {"image": IMAGE, "facts": FACTS[:, :4]},
            r"holds facts float32 \[16, 4\]; needed is float32 \[n, 5\]",
        ),
        ("two_inputs", {"image": IMAGE, "facts": FACTS.astype(int)}, r"holds facts int64 \[16, 5\]"),
        ("two_inputs", {"image": IMAGE[:, :, :9], "facts": FACTS}, r"needed is float32 \[n, 3, 16–48, 16–40\]"),
        ("tokens", {"ids": np.full((6, 8), 1000)}, "holds ids up to 1000; the model's table has 1000 rows"),
    ],
    indirect=["model"],
)
def test_samples_that_do_not_fit_are_named(model: Path, tmp_path: Path, samples: dict, said: str) -> None:
    np.savez(tmp_path / "s.npz", **samples)
    options = BuildOptions("int8", shapes=(SHAPES[model.stem],), calib_npy=tmp_path / "s.npz")
    with pytest.raises(InputError, match=said):
        build_engine(model, tmp_path / "e.engine", options)


def test_an_engine_of_two_inputs_says_what_it_takes(engine: Path) -> None:
    calls = [
        (lambda: loaded.infer(IMAGE[:2]), "engine e takes image, facts; give every input by name"),
        (lambda: loaded.run({"image": IMAGE[:2]}), "engine e takes image, facts, not image"),
        (lambda: loaded.run({"image": IMAGE[:2, :, :8], "facts": FACTS[:2]}), r"16–48, 16–40\], not \[2, 3, 8, 40\]"),
    ]
    with InferenceEngine(engine) as loaded:
        for call, said in calls:
            with pytest.raises(InputError, match=said):
                call()


def test_a_network_that_cannot_run_at_its_largest_shape_says_at_which_and_why(tmp_path: Path) -> None:
    fold = helper.make_graph(
        [helper.make_node("Reshape", ["x", "sizes"], ["y"], name="fold")],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("sizes", TensorProto.INT64, [2], [7, -1])],
    )
    model = helper.make_model(fold, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    with pytest.raises(LabError, match=r"cannot run on x \[3, 8\]" if ENGINE == "cpu" else "") as caught:
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions(shapes=("x:1x7:2x7:3x8",)))
        InferenceEngine(tmp_path / "e.engine")  # TensorRT refuses to build it
    assert "\n" not in str(caught.value)


def test_a_trace_that_keeps_a_size_names_the_other_exporter(trtlab, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * torch.ones(int(x.shape[1]))\n"
    )
    given = ("--input", "x:batch,length", "--out", tmp_path / "m.onnx")
    fails(trtlab("export", "--model", f"{tmp_path}/m.py:M", *given), "fails at batch 1, length 32", "--opset 21")
    assert not (tmp_path / "m.onnx").exists()


def test_engine_pytorch_and_onnx_runtime_are_measured_at_the_same_shapes(
    trtlab, engine: Path, model: Path, tmp_path: Path
) -> None:
    what = ("--engine", engine, "--pytorch", FACTORY, "--ort", model, "--shapes", "image:4x3x48x40")
    says(trtlab("bench", *what, "--iterations", 3, "--warmup", 0, "--limit", 1, "--output", tmp_path / "b.json"))
    rows = {row["name"]: row["batch"] for row in json.loads((tmp_path / "b.json").read_text())["rows"]}
    assert rows == {"e": 4, "pytorch-fp32": 4, "onnxruntime-fp32": 4}


@pytest.mark.slow
def test_a_larger_image_costs_more_operations_in_the_profile(trtlab, engine: Path, tmp_path: Path) -> None:
    flops = []
    for size in (16, 32):
        call = ("profile", "--engine", engine, "--shapes", f"image:2x3x{size}x{size}", "--iterations", 2)
        assert "e.engine at batch 2 on" in says(trtlab(*call, "--output", tmp_path / "p.json"))
        layers = json.loads((tmp_path / "p.json").read_text())["layers"]
        flops.append(max(layer["flops"] or 0 for layer in layers))
    outputs = [((size - 3) // 2 + 1) ** 2 for size in (16, 32)]  # of the convolution, which has the most operations
    assert flops[1] / flops[0] == pytest.approx(outputs[1] / outputs[0], rel=0.1)


@pytest.mark.parametrize(
    "options, said",
    [
        (
            ("build", "--onnx", "{model}", "--engine", "{model}.engine", "--shapes", "{shapes}", "--max-batch", "8"),
            "--shapes sets the batch of image; drop --min-batch",
        ),
        (
            ("bench", "--engine", "{engine}", "--shapes", "image:9x3x32x32"),
            "image:9x3x32x32 is outside the engine's profile",
        ),
        (("bench", "--engine", "{engine}", "--shapes", "image:1x3x16x16", "--batch-sizes", "1"), "drop --batch-sizes"),
        (("bench", "--pytorch", FACTORY, "--shapes", "image:1x3x16x16"), "--shapes is for engines"),
        (("bench", "--pytorch", FACTORY, "--batch-sizes", "1"), "two_inputs does not run on [1, 3, 224, 224]"),
        (("bench", "--pytorch", "none.py:make"), "cannot read none.py"),
        (("profile", "--engine", "{engine}", "--shapes", "image:1x3x99x99"), "outside the engine's profile"),
        (("profile", "--engine", "{engine}", "--shapes", "image:1x3x16x16", "--batch-size", "1"), "drop --batch-size"),
    ],
)
def test_what_contradicts_the_inputs_is_one_line_and_writes_nothing(
    trtlab, model: Path, engine: Path, tmp_path: Path, options: tuple, said: str
) -> None:
    before = set(tmp_path.iterdir())
    places = {"model": model, "engine": engine, "shapes": SHAPES["two_inputs"]}
    fails(trtlab(*(option.format(**places) for option in options)), said)
    assert set(tmp_path.iterdir()) == before


def test_a_state_dict_runs_as_its_architecture_also_where_memory_is_measured(tmp_path: Path) -> None:
    weights = own_models.tokens().state_dict()
    torch.save(weights, tmp_path / "tokens.pth")
    ids = InputSpec("ids", np.dtype("int64"), (1, 4), (2, 8), (4, 16), limit=1000)
    spec = RunnerSpec(
        "pytorch", str(tmp_path / "tokens.pth"), arch=f"{own_models.__file__}:tokens", inputs={"ids": ids}
    )
    runner = load_runner(spec)
    runner.bind(3)
    (fed,) = runner._feeds
    assert fed.shape == (3, 8) and fed.dtype == torch.int64 and 0 <= int(fed.min()) <= int(fed.max()) < 1000
    assert runner.size_bytes == sum(tensor.nbytes for tensor in weights.values())
    assert measure(spec, [2])[2] > 10**7
