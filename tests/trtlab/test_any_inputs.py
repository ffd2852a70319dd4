"""Networks of two inputs and of token ids, from the export to the comparison, against PyTorch and from the outside."""

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
from trtcpu.errors import InputError, LabError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine

TWO = ["image:batch,3,height=32,width=32", "facts:batch,5"]
TWO_SHAPES = ["image:1x3x16x16:2x3x32x32:4x3x48x40"]
IDS = ["ids:batch,length:int64"]


@pytest.fixture
def two(trtlab, tmp_path: Path) -> Path:
    return _exported(trtlab, tmp_path, "two_inputs", TWO)


@pytest.fixture
def ids(trtlab, tmp_path: Path) -> Path:
    return _exported(trtlab, tmp_path, "tokens", IDS)


def _exported(trtlab, folder: Path, function: str, inputs: list[str]) -> Path:
    model = folder / f"{function}.onnx"
    given = [argument for text in inputs for argument in ("--input", text)]
    code, _, err = trtlab("export", "--model", f"{own_models.__file__}:{function}", *given, "--out", model)
    assert code == 0, err
    return model


def _samples(number: int = 6) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    image, facts = random.standard_normal((number, 3, 24, 40)), random.standard_normal((number, 5))
    return {"image": image.astype(np.float32), "facts": facts.astype(np.float32)}


def _pytorch(model: torch.nn.Module, feeds: dict[str, np.ndarray]) -> np.ndarray:
    with torch.no_grad():
        return model(*(torch.from_numpy(array) for array in feeds.values())).numpy()


def test_two_inputs_of_dynamic_height_and_width_compute_what_pytorch_computes(two: Path, tmp_path: Path) -> None:
    build_engine(two, tmp_path / "e.engine", BuildOptions(shapes=tuple(TWO_SHAPES)))
    samples = _samples()
    with InferenceEngine(tmp_path / "e.engine") as engine:
        assert [spec.described() for spec in engine.inputs.values()] == [
            "image float32 [1–4, 3, 16–48, 16–40]",
            "facts float32 [1–4, 5]",
        ]
        found = engine.predict_all(samples)["output"]
    np.testing.assert_allclose(found, _pytorch(own_models.two_inputs(), samples), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [3, 8, 12])
def test_token_ids_of_any_length_compute_what_pytorch_computes(ids: Path, tmp_path: Path, length: int) -> None:
    record = build_engine(ids, tmp_path / "e.engine", BuildOptions(shapes=("ids:1x2:2x8:4x12",)))
    assert record.inputs[0]["limit"] == 1000
    feeds = {"ids": np.random.default_rng(0).integers(0, 1000, (3, length))}
    with InferenceEngine(tmp_path / "e.engine") as engine:
        found = engine.run(feeds)["output"]
        engine.bind(4)
        assert engine.execute_ms() > 0
    np.testing.assert_allclose(found, _pytorch(own_models.tokens(), feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_int8_engine_of_named_inputs_is_built_timed_profiled_and_compared(two: Path, trtlab, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", **_samples(16))
    fp32, int8, samples = tmp_path / "fp32.engine", tmp_path / "int8.engine", tmp_path / "s.npz"
    assert trtlab("build", "--onnx", two, "--engine", fp32, "--shapes", *TWO_SHAPES)[0] == 0
    given = ("--int8", "--calib_npy", samples, f"--minShapes={TWO_SHAPES[0].rpartition(':')[0].rpartition(':')[0]}")
    given += ("--opt-shapes", "image:2x3x32x32", "--max-shapes", "image:4x3x48x40")
    code, out, err = trtlab("build", "--onnx", two, "--engine", int8, *given)
    assert code == 0 and "entropy, 16 images" in out, err
    assert read_json(f"{int8}.json")["layer_precisions"]["int8"] >= 1
    assert read_json(f"{int8}.json")["inputs"] == read_json(f"{fp32}.json")["inputs"]
    code, out, err = trtlab("compare", "--a", fp32, "--b", int8, "--calib-npy", samples)
    assert code == 0 and "top-1 agreement" in out and "16 images" in out, err
    assert "seeded noise" in trtlab("compare", "--a", fp32, "--b", int8, "--n", "4")[1]
    timed = ("--iterations", "3", "--warmup", "0", "--batch-sizes", "1", "4", "--output", tmp_path / "b.json")
    code, out, err = trtlab("bench", "--engine", fp32, int8, "--ort", two, *timed)
    assert code == 0, err
    assert len(json.loads((tmp_path / "b.json").read_text())["rows"]) == 6
    code, out, err = trtlab("profile", "--engine", int8, "--iterations", "2", "--top", "1")
    assert code == 0 and "two_inputs.onnx" in out, err


@pytest.mark.parametrize(
    "change, said",
    [
        ({"facts": None}, "holds image, but no facts"),
        ({"facts": np.zeros((3, 5), np.float32)}, r"another number of samples for each input \(image 6, facts 3\)"),
        ({"facts": np.zeros((6, 4), np.float32)}, r"holds facts float32 \[6, 4\]; needed is float32 \[n, 5\]"),
        ({"facts": np.zeros((6, 5), np.int64)}, r"holds facts int64 \[6, 5\]"),
        ({"image": np.zeros((6, 3, 99, 9), np.float32)}, r"needed is float32 \[n, 3, 16–48, 16–40\]"),
    ],
)
def test_samples_that_do_not_fit_are_named(two: Path, tmp_path: Path, change: dict, said: str) -> None:
    samples = {name: array for name, array in {**_samples(), **change}.items() if array is not None}
    np.savez(tmp_path / "s.npz", **samples)
    options = BuildOptions("int8", shapes=tuple(TWO_SHAPES), calib_npy=tmp_path / "s.npz")
    with pytest.raises(InputError, match=said):
        build_engine(two, tmp_path / "e.engine", options)


def test_indices_beyond_the_table_are_an_error(ids: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", ids=np.full((6, 8), 1000))
    options = BuildOptions("int8", shapes=("ids:1x2:2x8:4x12",), calib_npy=tmp_path / "s.npz")
    with pytest.raises(InputError, match="holds ids up to 1000; the model's table has 1000 rows"):
        build_engine(ids, tmp_path / "e.engine", options)


def test_an_engine_of_two_inputs_says_what_it_takes(two: Path, tmp_path: Path) -> None:
    build_engine(two, tmp_path / "e.engine", BuildOptions(shapes=tuple(TWO_SHAPES)))
    samples = _samples(2)
    with InferenceEngine(tmp_path / "e.engine") as engine:
        for call in (lambda: engine.infer(samples["image"]), lambda: engine.run({"image": samples["image"]})):
            with pytest.raises(InputError, match="engine e takes image, facts"):
                call()
        with pytest.raises(InputError, match=r"takes image as a batch of shape \[N, 3, 16–48, 16–40\], not \[2, 3, 8"):
            engine.run({**samples, "image": samples["image"][:, :, :8]})


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
    with pytest.raises(LabError) as caught:  # TensorRT refuses to build it
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions(shapes=("x:1x7:2x7:3x8",)))
        InferenceEngine(tmp_path / "e.engine")
    assert "\n" not in str(caught.value)
    if ENGINE == "cpu":
        assert "cannot run on x [3, 8]" in str(caught.value)


def test_a_batch_beside_shapes_contradicts_them(two: Path, tmp_path: Path) -> None:
    options = BuildOptions(shapes=tuple(TWO_SHAPES), max_batch=8)
    with pytest.raises(InputError, match="--shapes sets the batch of image; drop --min-batch"):
        build_engine(two, tmp_path / "e.engine", options)


def test_a_trace_that_keeps_a_size_names_the_other_exporter(trtlab, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * torch.ones(int(x.shape[1]))\n"
    )
    given = ("--input", "x:batch,length", "--out", tmp_path / "m.onnx")
    code, _, err = trtlab("export", "--model", f"{tmp_path}/m.py:M", *given)
    assert code == 2 and err.count("\n") == 1 and not (tmp_path / "m.onnx").exists()
    assert "fails at batch 1, length 32" in err and "--opset 21" in err
