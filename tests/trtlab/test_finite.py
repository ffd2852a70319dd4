"""NaN and infinity are found where they come from: in the model's weights, in the data, in an engine's outputs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.trtlab.tiny_models import SIZE, image_folder, images_npy, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.network import ParsedModel


def damaged(path: Path, value: float, name: str | None = None) -> Path:
    """Write a TinyNet of which one weight of an initializer, else of the first, is `value`."""
    model = onnx.load(tiny_onnx(path.parent))
    tensor = next(each for each in model.graph.initializer if name in (None, each.name))
    values = numpy_helper.to_array(tensor).copy()
    values.flat[0] = value
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, path)
    return path


def masked(path: Path, operator: str, constant: np.ndarray, kind: int = TensorProto.FLOAT, **where: bool) -> Path:
    """Write Relu(x `operator` constant) for x [N, 4], the constant as a node or, `outside`, in a file of its own."""
    tensor = helper.make_tensor("mask", kind, constant.shape, constant.ravel().tolist())
    nodes = [helper.make_node(operator, ["x", "mask"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
    if where.get("as_node"):
        nodes.insert(0, helper.make_node("Constant", [], ["mask"], value=tensor))
    ends = [helper.make_tensor_value_info(name, kind, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], [] if where.get("as_node") else [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if where.get("outside"):
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(constant, "mask"))
        onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    else:
        onnx.save(model, path)
    return path


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_build_names_the_weight_that_is_not_finite_and_writes_nothing(trtlab, tmp_path: Path, value: float) -> None:
    model, engine = damaged(tmp_path / "bad.onnx", value), tmp_path / "out" / "e.engine"
    name = onnx.load(model).graph.initializer[0].name
    code, _, err = trtlab("build", "--onnx", model, "--engine", engine)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert name in err and "1 of " in err and "NaN or infinite" in err and not engine.parent.exists()


EYE = np.eye(4, dtype=np.float32)
BAD = np.where(EYE == 1, np.nan, EYE)


@pytest.mark.parametrize(
    "operator, constant, options",
    [
        ("Add", BAD[0], {}),
        ("Add", BAD[0], {"as_node": True}),
        ("Add", BAD[0], {"kind": TensorProto.FLOAT16}),
        ("Add", BAD[0], {"kind": TensorProto.BFLOAT16}),
        ("MatMul", BAD, {"outside": True}),
        ("MatMul", np.where(EYE == 1, np.inf, EYE), {"as_node": True}),
    ],
)
def test_a_constant_is_found_wherever_and_in_whatever_type_it_is_kept(
    tmp_path: Path, operator: str, constant: np.ndarray, options: dict
) -> None:
    model = ParsedModel(
        path := masked(tmp_path / "m.onnx", operator, constant, **options),
        onnx.load(path, load_external_data=False),
        None,
        None,
        None,
        {},
        {},
    )
    with pytest.raises(InputError, match="mask are NaN or infinite"):
        model.check_weights()


def test_an_infinite_mask_is_no_damage(tmp_path: Path) -> None:
    mask = np.array([0, -np.inf, 0, -np.inf], np.float32)
    build_engine(masked(tmp_path / "m.onnx", "Add", mask), tmp_path / "e.engine", BuildOptions())
    assert (tmp_path / "e.engine").is_file()


@pytest.fixture
def nan_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine whose first score is NaN, as one is that was built elsewhere, without the check."""
    bias = next(each.name for each in onnx.load(tiny_onnx(tmp_path)).graph.initializer if list(each.dims) == [10])
    monkeypatch.setattr(ParsedModel, "check_weights", lambda self: None)
    build_engine(damaged(tmp_path / "bad.onnx", np.nan, bias), tmp_path / "nan.engine", BuildOptions(max_batch=8))
    return tmp_path / "nan.engine"


def test_no_command_shows_figures_of_an_engine_that_gives_nan(trtlab, nan_engine: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 2)
    calls = {
        "compare": ("--a", nan_engine, "--b", nan_engine, "--n", 5),
        "infer": ("--engine", nan_engine, "--input", images),
        "bench": ("--engine", nan_engine, "--end-to-end", images, "--iterations", 3, "--output", tmp_path / "e.json"),
    }
    for command, options in calls.items():
        code, out, err = trtlab(command, *options)
        assert code == 2 and out == "" and err.count("\n") == 1, (command, err)
        assert "output" in err and "is NaN or infinite in" in err and "samples" in err
    assert not (tmp_path / "e.json").exists()


def test_compare_does_not_make_more_noise_than_memory_holds(trtlab, tmp_path: Path) -> None:
    build_engine(tiny_onnx(tmp_path), tmp_path / "e.engine", BuildOptions())
    code, _, err = trtlab("compare", "--a", tmp_path / "e.engine", "--b", tmp_path / "e.engine", "--n", 10**9)
    assert code == 2 and "take 12,288 GB; give --n 349525 at most" in err and err.count("\n") == 1


def test_compare_names_the_data_that_is_not_finite(trtlab, tmp_path: Path) -> None:
    build_engine(tiny_onnx(tmp_path), tmp_path / "e.engine", BuildOptions())
    images = np.load(images_npy(tmp_path / "images.npy", 6))
    images[4, 0, SIZE // 2, 3] = np.nan
    np.save(tmp_path / "bad.npy", images)
    engines = ("--a", tmp_path / "e.engine", "--b", tmp_path / "e.engine", "--calib-npy", tmp_path / "bad.npy")
    code, _, err = trtlab("compare", *engines)
    assert code == 2 and "bad.npy is NaN or infinite in 1 of 6 samples" in err and err.count("\n") == 1
    assert trtlab("compare", *engines, "--n", 4)[0] == 0
