"""Precisions asked for, of single layers and of whole engines, against what ran: as the inspector tells it."""

import dataclasses
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.engine.backend import API, ENGINE, trt
from helpers.engine.layers import engine_layers, layer_precision
from helpers.tools.files import read_json
from tests.trtlab.tiny_models import images_npy, outlier_onnx, tiny_onnx
from trtcpu import _openvino
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.building.layer_precisions import Constraints, check_ran, contradiction, unquantised, what_ran
from trtlab.engines.inference import InferenceEngine

RECORDED = read_json(Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json")
INT8 = BuildOptions(precision="int8+fp16", opt_batch=4, max_batch=4)
HALF = "fp16" if ENGINE == "tensorrt" else trt.half_precision("FP16").lower()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose third convolution INT8 harms, with a calibration cache."""
    folder = tmp_path_factory.mktemp("mixed")
    options = dataclasses.replace(INT8, calib_npy=images_npy(folder / "c.npy"), calib_cache=folder / "c.cache")
    build_engine(outlier_onnx(folder / "m.onnx"), folder / "int8.engine", options)
    return folder


def built(folder: Path, path: Path, **options: object) -> tuple[dict[str, str], float]:
    """Return each convolution's precision in the engine, and the relative error against ONNX Runtime."""
    options = dataclasses.replace(INT8, **{"calib_cache": folder / "c.cache", **options})
    build_engine(folder / "m.onnx", path, options)
    images = np.load(folder / "c.npy")
    expected = onnxruntime.InferenceSession(str(folder / "m.onnx")).run(None, {"input": images})[0]
    with InferenceEngine(path) as engine:
        found = engine.predict(images)
        layers = engine_layers(engine.engine)
    weighted = {layer["Name"].split("/")[1]: layer_precision(layer) for layer in layers if layer["Name"][:1] == "/"}
    return weighted, float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_a_kept_group_and_the_ends_run_in_half_precision_and_the_rest_in_int8(folder: Path, tmp_path: Path) -> None:
    plain, loss = built(folder, tmp_path / "a.engine")
    mixed, kept = built(folder, tmp_path / "b.engine", keep_fp16=("third",))
    assert {plain[name] for name in ("first", "second", "third", "fourth", "head")} == {"int8"}
    assert mixed["second"] == mixed["fourth"] == "int8"
    assert {mixed[name] for name in ("first", "third", "head")} <= {HALF, "fp32"}
    assert kept < loss / 3
    found = read_json(tmp_path / "b.engine.json")["layer_constraints"]
    assert found["kept_groups"] == ["third"] and found["weighted_asked"] == {"fp16": 3}
    assert sum(found["weighted_ran"].values()) == 3 and set(found["weighted_ran"]) <= {HALF, "fp32"}


def test_a_group_that_is_kept_in_fp16_has_no_q_and_dq(folder: Path, tmp_path: Path) -> None:
    explicit = dataclasses.replace(INT8, calib_cache=folder / "c.cache", keep_fp16=("third",), explicit=True)
    record = build_engine(folder / "m.onnx", tmp_path / "e.engine", explicit)
    constraints = record.layer_constraints
    assert constraints["weighted_asked"] == {"fp16": 3} and "int8" not in constraints["weighted_ran"]
    assert record.ran["ran"]["int8"] == 2


def test_layers_are_named_as_trtexec_names_them(folder: Path, tmp_path: Path) -> None:
    found, _ = built(folder, tmp_path / "e.engine", layer_precisions=("*Conv:fp32", "/f*/Conv:int8"))
    assert found["second"] == found["third"] == "fp32"
    assert found["first"] == found["fourth"] == "int8"


@pytest.mark.parametrize(
    "options, said",
    [
        ({"keep_fp16": ("fifth",)}, "no group 'fifth' in this network; its groups are first, second, third, fourth"),
        ({"keep_fp16": ("third",), "precision": "int8"}, "--keep-fp16 does nothing to int8; add --precision int8"),
        ({"layer_precisions": ("/third/Conv",)}, "takes NAME:PRECISION with fp32, fp16.*found '/third/Conv'"),
        ({"layer_precisions": ("/fifth/*:fp16",)}, "no layer '/fifth/.*its layers are /first/Conv"),
        ({"layer_precisions": ("*:bf16",)}, "needs bf16, which --precision int8.fp16 does not allow"),
        ({"precision_constraints": "hope"}, "'hope' is unknown; choose obey or prefer"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_leaves_nothing(
    folder: Path, tmp_path: Path, options: dict, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        built(folder, tmp_path / "e.engine", **options)
    assert not list(tmp_path.iterdir())


def test_the_command_line_takes_groups_and_trtexec_s_spelling(trtlab, folder: Path, tmp_path: Path) -> None:
    code, out, err = trtlab(
        *("build", "--onnx", folder / "m.onnx", "--engine", tmp_path / "e.engine", "--max-batch", 4),
        *("--precision", "int8+fp16", "--calib-cache", folder / "c.cache", "--keep-fp16", "second,third"),
        *("--layerPrecisions=/third/Conv:fp32", "--precisionConstraints=obey"),
    )
    assert (code, err) == (0, "") and "kept: second, third, first and last layer" in out
    assert "3 fp16, 1 fp32 asked" in out


def test_a_layer_with_q_and_dq_that_runs_in_something_else_is_named() -> None:
    assert unquantised(["/layer1/layer1.0/conv1/Conv", "told nowhere"], RECORDED["int8"]) is None
    assert unquantised(["/conv1/Conv", "told nowhere"], RECORDED["fp16"]) == (
        "1 of 2 layers with Q/DQ did not run in INT8: /conv1/Conv (fp16)"
    )


def test_a_kept_layer_that_ran_in_int8_is_an_error_where_the_rule_is_obey() -> None:
    asked = Constraints({"/conv1/Conv": "fp16"}, ("/conv1/Conv",), ("stem",))
    check_ran(asked, RECORDED["fp16"])
    check_ran(dataclasses.replace(asked, rule="prefer"), RECORDED["int8"])
    with pytest.raises(EngineError, match=r"1 of 1 layers .*/conv1/Conv \(fp16 asked, int8 ran\)"):
        check_ran(asked, RECORDED["int8"])


HALF_IN_FP32, FLOAT_IN_FP32 = (
    [{"Name": "conv", "Precision": "FP32", "Weights": {"Type": kind, "Count": 9}}] for kind in ("Half", "Float")
)
NONE = "was asked for, and of 2 layers with weights none has it: "
IN_FP32 = f"{NONE.replace('2', '3')}they run in FP32 (3)"


@pytest.mark.parametrize(
    ("asked", "layers", "said", "wrong"),
    [
        *((precision, RECORDED[precision], None, None) for precision in ("fp16", "int8", "fp32", "tf32")),
        ("fp16", RECORDED["fp32"], "FP16 asked, FP32 ran", f"FP16 {NONE}their weights are stored in FP32 (2)"),
        ("bf16", RECORDED["fp32"], "BF16 asked, FP32 ran", f"BF16 {NONE}their weights are stored in FP32 (2)"),
        ("int8", RECORDED["fp16"], "INT8 asked, FP16 ran", f"INT8 {NONE}they run in FP16 (2)"),
        ("int8+fp16", RECORDED["fp16"], "INT8+FP16 asked, FP16 ran", f"INT8+FP16 {NONE}they run in FP16 (2)"),
        ("fp16", HALF_IN_FP32, "stored FP16, ran FP32", f"FP16 {NONE.replace('2', '1')}they run in FP32 (1)"),
        *(
            (precision, 2 * FLOAT_IN_FP32 + HALF_IN_FP32, "stored FP16, ran FP32", f"{precision.upper()} {IN_FP32}")
            for precision in ("fp16", "bf16")
        ),
    ],
)
def test_an_engine_that_is_silently_something_else_is_named(
    monkeypatch: pytest.MonkeyPatch, asked: str, layers: list, said: str | None, wrong: str | None
) -> None:
    monkeypatch.setattr("trtlab.building.layer_precisions.has_half", lambda precision: True)
    found = what_ran(asked, layers)
    assert found["said"] == said and contradiction(found) == wrong


@pytest.mark.skipif(ENGINE != "cpu", reason="a GPU has half arithmetic")
@pytest.mark.parametrize(
    "precision, explicit, half",
    [("fp16", False, "fp16"), ("bf16", False, "bf16" if API >= 11 else "fp16"), ("bf16", True, "bf16")],
)
def test_a_processor_without_half_arithmetic_stores_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, explicit: bool, half: str
) -> None:
    model = tiny_onnx(tmp_path)
    plain = build_engine(model, tmp_path / "fp32", BuildOptions())
    monkeypatch.setattr(_openvino, "cpu_capabilities", lambda: ["FP32", "INT8"])
    found = build_engine(model, tmp_path / "half", BuildOptions(precision=precision, explicit=explicit))
    # a flag stores BF16 as FP16 too, within that range; a model says itself that its weights are BF16
    said = f"stored {half.upper()}, ran FP32"
    assert found.ran == {"asked": precision, "stored": {half: 3}, "ran": {"fp32": 3}, "said": said}
    assert not any("--strict" in text for text in found.warnings)
    assert plain.size_bytes - found.size_bytes > 0.3 * model.stat().st_size


@pytest.mark.skipif((ENGINE, API) != ("cpu", 10), reason="what is broken is the CPU engine's flag")
def test_a_build_in_which_nothing_runs_as_asked_warns_and_a_strict_one_leaves_nothing(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU engine builds what TensorRT builds where it finds FP32 the fastest."""
    monkeypatch.setattr("trtlab.building.build._FLAGS", {"TF32": trt.BuilderFlag.TF32})
    model, engine = tiny_onnx(tmp_path), tmp_path / "e.engine"
    build = ("build", "--onnx", model, "--engine", engine, "--precision", "fp16")
    code, _, err = trtlab(*build, "--strict")
    assert code == 2 and err.startswith("error: FP16 was asked for") and "the engine is not kept" in err
    assert [path.name for path in tmp_path.iterdir()] == [model.name]
    code, out, _ = trtlab(*build)
    assert code == 0 and "\nFP16 asked, FP32 ran\nwarning: FP16 was asked for, and of 3 layers with weights" in out
    assert read_json(f"{engine}.json")["ran"]["ran"] == {"fp32": 3}
