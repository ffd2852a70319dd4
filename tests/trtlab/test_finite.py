"""NaN and infinity are found where they come from: in the model's weights, in the data, in an engine's outputs."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.trtlab.shell import fails
from tests.trtlab.tiny_models import SIZE, image_folder, images_npy, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.network import ParsedModel

BIAS = "head.bias"


def damaged(path: Path, value: float) -> Path:
    """Write a TinyNet of which the first score's bias is `value`."""
    model = onnx.load(tiny_onnx(path.parent))
    tensor = next(each for each in model.graph.initializer if each.name == BIAS)
    tensor.CopyFrom(numpy_helper.from_array(np.array([value, *[0] * 9], np.float32), BIAS))
    onnx.save(model, path)
    return path


def masked(
    path: Path,
    operator: str,
    constant: np.ndarray,
    kind: int = TensorProto.FLOAT,
    as_node: bool = False,
    outside: bool = False,
) -> Path:
    """Write Relu(x `operator` constant) for x [N, 4], the constant as a node or, `outside`, in a file of its own."""
    tensor = numpy_helper.from_array(constant.astype(helper.tensor_dtype_to_np_dtype(kind)), "mask")
    held = [helper.make_node("Constant", [], ["mask"], value=tensor)] if as_node else []
    nodes = [*held, helper.make_node(operator, ["x", "mask"], ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
    x, y = ([helper.make_tensor_value_info(name, kind, ["batch", 4])] for name in "xy")
    graph = helper.make_graph(nodes, "graph", x, y, [] if as_node else [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=outside, location="weights", size_threshold=0)
    return path


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_build_names_the_weight_that_is_not_finite_and_writes_nothing(trtlab, tmp_path: Path, value: float) -> None:
    model, engine = damaged(tmp_path / "bad.onnx", value), tmp_path / "out" / "e.engine"
    fails(trtlab("build", "--onnx", model, "--engine", engine), BIAS, "1 of ", "NaN or infinite")
    assert not engine.parent.exists()


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
    path = masked(tmp_path / "m.onnx", operator, constant, **options)
    file = onnx.load(path, load_external_data=False)
    with pytest.raises(InputError, match="mask are NaN or infinite"):
        ParsedModel(path, file, None, None, None, {}, {}).check_weights()


def test_an_infinite_mask_is_no_damage(tmp_path: Path) -> None:
    build_engine(masked(tmp_path / "m.onnx", "Add", np.where(EYE[0] == 1, -np.inf, 0)), tmp_path / "e", BuildOptions())
    assert (tmp_path / "e").is_file()


def test_no_command_shows_figures_of_an_engine_that_gives_nan(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParsedModel, "check_weights", lambda self: None)  # as one that was built elsewhere
    engine, images = tmp_path / "nan.engine", image_folder(tmp_path / "images", 2)
    build_engine(damaged(tmp_path / "bad.onnx", np.nan), engine, BuildOptions(max_batch=8))
    for call in (
        ("compare", "--a", engine, "--b", engine, "--n", 5),
        ("infer", "--engine", engine, "--input", images),
        ("bench", "--engine", engine, "--end-to-end", images, "--iterations", 3, "--output", tmp_path / "e.json"),
    ):
        code, out, err = trtlab(*call)
        assert code == 2 and out == "" and re.fullmatch(r"error: .*output.* is NaN or infinite in .* samples.*\n", err)
    assert not (tmp_path / "e.json").exists()


@pytest.mark.parametrize(
    "data, said",
    [
        (("--n", 10**9), "take 12,288 GB; give --n 349525 at most"),
        (("--calib-npy", "bad.npy"), "bad.npy is NaN or infinite in 1 of 6 samples"),
        (("--calib-npy", "bad.npy", "--n", 4), ""),
    ],
)
def test_compare_refuses_what_is_not_finite_or_more_than_memory_holds(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: tuple, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    build_engine(tiny_onnx(tmp_path), "e.engine", BuildOptions())
    images = np.load(images_npy(tmp_path / "images.npy", 6))
    images[4, 0, SIZE // 2, 3] = np.nan
    np.save("bad.npy", images)
    code, _, err = trtlab("compare", "--a", "e.engine", "--b", "e.engine", *data)
    assert (code, err.count("\n")) == ((2, 1) if said else (0, 0)) and said in err, err
